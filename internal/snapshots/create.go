// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package snapshots

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/props"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// New is a snapshot to take.
type New struct {
	Definition string
	Name       string
	Nodes      []string // none: all connected ones that have the data
	Props      map[string]string
}

// Create takes snapshots at one moment, all of them or none, and returns when they are complete.
// One of them that fails is the error of all. A snapshot that failed before is replaced by one
// of its name. When the hosts still work on it after a while, the error says so, and they go on.
func (s *Snapshots) Create(ctx context.Context, list []New) ([]schema.Snapshot, []errs.Notice, error) {
	r, err := s.newRequest(list)
	if err != nil {
		return nil, nil, err
	}
	return s.create(ctx, r)
}

// create is Create once its request is checked.
func (s *Snapshots) create(ctx context.Context, r *request) ([]schema.Snapshot, []errs.Notice, error) {
	defer s.begin(r.id)()
	if _, err := schema.Update(ctx, s.Store, r.commit); err != nil {
		return nil, nil, err
	}
	ctx, cancel := s.patient(ctx)
	defer cancel()
	if r.several {
		s.takeTogether(ctx, r.id)
	} else {
		s.awaitRequest(ctx, r.id)
	}
	made := slices.Collect(schema.SnapshotsByRequest.Get(s.Store.Snapshot(), r.id))
	return made, r.notices, outcomeOf(r, made)
}

// outcomeOf is the error of a request that was not taken, or not yet.
func outcomeOf(r *request, made []schema.Snapshot) error {
	if len(made) < len(r.list) {
		return errs.New(errs.Closing, errs.Snapshot, "%s was not taken", r.text()).Because("it was deleted meanwhile")
	}
	for _, sn := range made {
		switch sn.State {
		case schema.SnapshotFailed, schema.SnapshotCutOff:
			return failure(sn, r.text())
		case schema.SnapshotTaking:
			return errs.New(errs.TimedOut, errs.Snapshot, "%s is not complete yet", r.text()).
				Because("the nodes still work on it").Fix("look at the state of the snapshot; they go on")
		case schema.SnapshotPlanned, schema.SnapshotTaken:
		}
	}
	return nil
}

// failure is why a snapshot failed.
func failure(sn schema.Snapshot, what string) *errs.Error {
	kind := errs.HostFailed
	if sn.State == schema.SnapshotCutOff {
		kind = errs.NotConnected
	}
	return errs.New(kind, errs.Snapshot, "%s was not taken", what).Because("%s", sn.Problem).
		Fix("nothing of it is kept; take it again")
}

// request is snapshots that are asked for together, on their way into the database.
type request struct {
	*Snapshots
	id      string
	seed    uuid.UUID
	at      time.Time
	list    []New
	names   []model.SnapshotName
	props   []model.Props
	hidden  bool
	auto    bool
	several bool // more than one node has to take them, or may write to them, or there is more than one
	notices []errs.Notice
}

func (s *Snapshots) newRequest(list []New) (*request, error) {
	r := &request{Snapshots: s, id: s.NewID(), at: s.Now(), list: list}
	if len(list) == 0 {
		return nil, errs.New(errs.Invalid, errs.Snapshot, "there is no snapshot to take").About(errs.Body).Fix("name a resource and a snapshot")
	}
	var err error
	if r.seed, err = uuid.Parse(s.NewID()); err != nil {
		return nil, fmt.Errorf("the source of ids does not make UUIDs: %w", err)
	}
	seen := map[model.DefinitionKey]bool{}
	for _, n := range list {
		name, err := model.ParseSnapshotName(n.Name)
		if err != nil {
			return nil, err
		}
		if key := model.DefinitionName(n.Definition).Key(); seen[key] {
			return nil, errs.New(errs.Invalid, errs.Snapshot, "resource %s is named twice", n.Definition).About(errs.Name).
				Because("a request takes one snapshot of each resource").Fix("name each resource once")
		} else {
			seen[key] = true
		}
		p, err := props.New(props.Snapshot, n.Props)
		if err != nil {
			return nil, err
		}
		r.names, r.props = append(r.names, name), append(r.props, p)
	}
	return r, nil
}

func (r *request) text() string {
	texts := make([]string, len(r.list))
	for i, n := range r.list {
		texts[i] = n.Name + " of " + n.Definition
	}
	if len(texts) == 1 {
		return "snapshot " + texts[0]
	}
	return "snapshots " + strings.Join(texts, ", ")
}

// note adds what is particular to a row to the seed of ids.
func (r *request) uuid(format string, args ...any) string {
	return uuid.NewSHA1(r.seed, fmt.Appendf(nil, format, args...)).String()
}

// commit writes the rows of all snapshots. When one node takes a single one, it is told so at
// once; otherwise nobody is told until writers are held back.
func (r *request) commit(tx *store.Tx) error {
	r.notices = nil
	parts, remote := 0, false
	rows := make([]schema.Snapshot, len(r.list))
	nodes := make([][]schema.Resource, len(r.list))
	for i, n := range r.list {
		d, err := schema.FindDefinition(tx, n.Definition)
		if err != nil {
			return err
		}
		if rows[i], err = r.row(tx, i, d); err != nil {
			return err
		}
		if nodes[i], err = r.replicas(tx, d, n); err != nil {
			return err
		}
		parts += len(nodes[i])
		remote = remote || model.Replicates(d.Layers) // its writers may be on any node that has a replica
	}
	r.several = parts > 1 || remote
	state := schema.SnapshotTaking
	if r.several {
		state = schema.SnapshotPlanned
	}
	for i, row := range rows {
		if err := r.replace(tx, row); err != nil {
			return err
		}
		if err := schema.Snapshots.Insert(tx, row); err != nil {
			return err
		}
		for _, x := range nodes[i] {
			if err := schema.SnapshotReplicas.Insert(tx, r.part(row, x, state)); err != nil {
				return err
			}
		}
	}
	return nil
}

// replace removes a snapshot of the same name that failed and has nothing left. The store
// refuses the new one when there is any other.
func (r *request) replace(tx *store.Tx, row schema.Snapshot) error {
	old, ok := schema.Snapshots.Get(tx, row.ID())
	if !ok {
		return nil
	}
	exists := errs.New(errs.Exists, errs.Snapshot, "resource definition %s has a snapshot %s already", schema.NameOfDefinition(tx, row.Definition), old.Name)
	for range schema.SnapshotReplicasOf(tx, row.ID()) {
		if old.Deleting || old.State == schema.SnapshotFailed || old.State == schema.SnapshotCutOff {
			return exists.Because("it is being removed from its nodes").Fix("wait until it is gone, or choose another name")
		}
		return exists.Fix("choose another name, or delete it first")
	}
	return schema.Snapshots.Delete(tx, row.ID())
}

func (r *request) row(tx *store.Tx, i int, d schema.Definition) (schema.Snapshot, error) {
	row := schema.Snapshot{
		Definition: d.Name.Key(), Name: r.names[i], UUID: r.uuid("snapshot %d", i), Created: r.at, Props: r.props[i], Inherited: d.Props,
		Layers: d.Layers, Request: r.id, Hidden: r.hidden, Auto: r.auto, State: schema.SnapshotTaking,
	}
	for vd := range schema.VolumesOf(tx, row.Definition) {
		if !vd.Deleting {
			row.Volumes = append(row.Volumes, schema.SnapshotVolumeDefinition{Number: vd.Number, Size: vd.Size, Props: vd.Props, Flags: vd.Flags, Key: vd.Key})
		}
	}
	switch {
	case d.Deleting:
		return row, errs.New(errs.Closing, errs.ResourceDefinition, "resource definition %s takes no new snapshot", d.Name).Because("it is being deleted")
	case len(row.Volumes) == 0:
		return row, errs.New(errs.NotFound, errs.VolumeDefinition, "resource definition %s cannot have a snapshot", d.Name).
			Because("it has no volumes").Fix("create a volume definition and place it first")
	case d.Clone != nil && d.Clone.State != schema.CloneDone:
		return row, errs.New(errs.Closing, errs.ResourceDefinition, "resource definition %s takes no snapshot now", d.Name).
			Because("it is a clone that is not complete").Fix("wait until it is")
	}
	return row, nil
}

func (r *request) part(row schema.Snapshot, x schema.Resource, state schema.SnapshotState) schema.SnapshotReplica {
	p := schema.SnapshotReplica{
		Definition: row.Definition, Snapshot: row.Name.Key(), Node: x.Node, UUID: r.uuid("part %s %s", row.Definition, x.Node), Created: r.at, State: state,
	}
	for _, v := range x.Volumes {
		if !v.Deleting {
			p.Volumes = append(p.Volumes, schema.SnapshotVolume{Number: v.Number, UUID: r.uuid("volume %s %s %d", row.Definition, x.Node, v.Number), Pool: v.Pool})
		}
	}
	return p
}

// replicas returns the replicas that a snapshot is taken of: those of the nodes asked for, or all
// that have the data and are connected.
func (r *request) replicas(tx *store.Tx, d schema.Definition, n New) ([]schema.Resource, error) {
	if len(n.Nodes) > 0 {
		return r.chosen(tx, d, n.Nodes)
	}
	var list []schema.Resource
	var refused error
	away := 0
	for x := range schema.ResourcesOf(tx, d.Name.Key()) {
		node, _ := schema.Nodes.Get(tx, x.Node)
		if !hasData(x) || node.Evicted || node.Deleting {
			continue
		}
		err := r.able(tx, d, x)
		switch {
		case err == nil:
			list = append(list, x)
		case errs.Is(err, errs.NotConnected):
			away++
			r.notices = append(r.notices, errs.Notice{
				Kind: errs.NodeNotConnected, Object: errs.Snapshot,
				Message: fmt.Sprintf("node %s is not connected: it gets no snapshot of %s", node.Name, d.Name),
			})
			fallthrough
		default:
			refused = err
		}
	}
	switch {
	case len(list) > 0 && (refused == nil || away > 0):
		return list, nil
	case refused != nil:
		return nil, refused
	}
	return nil, errs.New(errs.NotFound, errs.Resource, "resource definition %s cannot have a snapshot", d.Name).
		Because("no node has its data").Fix("place it first")
}

func (r *request) chosen(tx *store.Tx, d schema.Definition, names []string) ([]schema.Resource, error) {
	var list []schema.Resource
	for _, name := range names {
		if _, err := schema.FindNode(tx, name); err != nil {
			return nil, err
		}
		x, err := schema.FindResource(tx, string(d.Name), name)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(list, func(o schema.Resource) bool { return o.Node == x.Node }) {
			continue
		}
		if !hasData(x) {
			return nil, errs.New(errs.Invalid, errs.Snapshot, "resource %s on node %s cannot have a snapshot", d.Name, name).
				Because("it has no disk there, or not yet, or no more").Fix("name nodes that have its data, or none")
		}
		if err := r.able(tx, d, x); err != nil {
			return nil, err
		}
		list = append(list, x)
	}
	return list, nil
}

// hasData tells whether a replica has a disk, and keeps it.
func hasData(x schema.Resource) bool {
	return x.Kind == schema.Diskful && !x.Deleting && !x.Adding && x.Becomes == ""
}

// able refuses a replica that no snapshot can be taken of now.
func (r *request) able(tx *store.Tx, d schema.Definition, x schema.Resource) error {
	node := schema.NameOfNode(tx, x.Node)
	if seen := r.Observed.Node(x.Node); seen.Connection == observed.Offline {
		return errs.New(errs.NotConnected, errs.Node, "no snapshot can be taken of resource %s on node %s", d.Name, node).
			Because("the node is not connected").Fix("start the agent of node %s", node)
	}
	for _, v := range x.Volumes {
		if seen, known := r.Observed.Pool(model.PoolID{Node: x.Node, Pool: v.Pool}); known && seen.Current && !seen.SupportsSnapshots {
			return errs.New(errs.Unsupported, errs.Snapshot, "no snapshot can be taken of resource %s on node %s", d.Name, node).
				Because("its storage pool %s cannot", schema.NameOfPool(tx, model.PoolID{Node: x.Node, Pool: v.Pool})).
				Fix("use a pool of another kind")
		}
		if v.Source != nil || v.RollBack != nil {
			return errs.New(errs.Closing, errs.Snapshot, "no snapshot can be taken of resource %s on node %s", d.Name, node).
				Because("volume %d is still being filled", v.Number).Fix("wait until it is complete")
		}
	}
	if !model.Replicates(d.Layers) {
		return nil
	}
	st, _ := r.Observed.Resource(x.ID())
	for _, v := range st.Volumes {
		if st.Current && v.DiskState != "" && !strings.EqualFold(v.DiskState, "UpToDate") {
			return errs.New(errs.NotUpToDate, errs.Snapshot, "no snapshot can be taken of resource %s on node %s", d.Name, node).
				Because("its disk is %s", v.DiskState).Fix("wait until it has all data, or name other nodes")
		}
	}
	return nil
}
