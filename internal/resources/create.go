// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/placer"
	"github.com/holdfast-storage/holdfast/internal/props"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// NewResource is a replica to create on a node of the caller's choice.
type NewResource struct {
	Node   string
	Kind   schema.ResourceKind
	Props  map[string]string // StorPoolName names the pool
	Layers []string
	NodeID *int32
	Ports  []int32
}

// Created is what became of the replicas asked for.
type Created struct {
	Definition schema.Definition
	Placed     []Placement // those that were made
	Notices    []errs.Notice
}

// Create creates replicas on nodes of the caller's choice, all or none, and returns when
// their devices exist. One that is there already is a notice. One that is being deleted is
// kept instead, with all volumes that the definition has by now, also on a node that is not
// connected. A node that is not connected is refused for any other.
func (s *Resources) Create(ctx context.Context, definition string, list []NewResource) (Created, error) {
	list = slices.Clone(list)
	for i, n := range list {
		p, err := props.New(props.Resource, n.Props)
		if err != nil {
			return Created{}, err
		}
		list[i].Props = p.Map()
	}
	c := creating{Resources: s, birth: s.birth()}
	rev, err := schema.Update(ctx, s.Store, func(tx *store.Tx) error { return c.commit(tx, definition, list) })
	if err != nil {
		return Created{}, err
	}
	ctx, cancel := s.settling(ctx)
	defer cancel()
	if failed := notReady("created", c.out.Definition.Name, s.settle(ctx, rev, c.wait)); failed != nil {
		return Created{}, s.takeBack(context.WithoutCancel(ctx), failed, c.out.Definition, c.put)
	}
	return c.out, nil
}

// creating is one call of Create on its way.
type creating struct {
	*Resources
	birth birth
	out   Created
	put   []touched
	wait  []model.ResourceID // of put, those on nodes that are connected
}

func (c *creating) commit(tx *store.Tx, definition string, list []NewResource) error {
	c.out, c.put, c.wait = Created{}, nil, nil
	d, err := schema.FindDefinition(tx, definition)
	if err != nil {
		return err
	}
	c.out.Definition = d
	for _, n := range list {
		if err := c.one(tx, n); err != nil {
			return err
		}
	}
	if err := checkReplication(d.Name, c.out.Definition.Layers, copies(tx, d.Name.Key())); err != nil {
		return err
	}
	if slices.ContainsFunc(list, func(n NewResource) bool { return n.Kind == schema.TieBreaker }) {
		return nil // It is there because somebody wants it to be.
	}
	added, notices, err := c.settleVotes(tx, d.Name.Key(), c.birth)
	c.out.Notices = append(c.out.Notices, notices...)
	c.put, c.wait = append(c.put, touches(added)...), append(c.wait, added...)
	return err
}

// copies is how many copies of its data a definition has. Replicas in one shared space have
// one together.
func copies(r store.Reader, d model.DefinitionKey) int {
	n, spaces := 0, map[string]bool{}
	for x := range schema.ResourcesOf(r, d) {
		if x.Kind != schema.Diskful || x.Deleting {
			continue
		}
		space := spaceOf(r, x)
		if space == "" || !spaces[space] {
			n++
		}
		spaces[space] = true
	}
	return n
}

// spaceOf is the shared space that the data of a replica lies in; empty when it has none, or
// its pool is its own.
func spaceOf(r store.Reader, x schema.Resource) string {
	if x.Kind != schema.Diskful || len(x.Volumes) == 0 {
		return ""
	}
	p, _ := schema.Pools.Get(r, model.PoolID{Node: x.Node, Pool: x.Volumes[0].Pool})
	return p.SharedSpace
}

// one adds one replica, or cancels the deletion of the one that is there.
func (c *creating) one(tx *store.Tx, n NewResource) error {
	d := &c.out.Definition
	node, err := schema.FindNode(tx, n.Node)
	if err != nil {
		return err
	}
	id := model.ResourceID{Definition: d.Name.Key(), Node: node.Name.Key()}
	old, exists := schema.Resources.Get(tx, id)
	if exists && !old.Deleting && old.Kind == schema.TieBreaker && n.Kind != schema.TieBreaker {
		return c.takeTieBreaker(tx, node, old, n)
	}
	if exists && !old.Deleting {
		c.note(errs.ReplicaExists, "resource %s is on node %s already", d.Name, node.Name)
		return nil
	}
	if err := accepting(tx, *d, id.Node); err != nil {
		return err
	}
	if exists {
		return c.revive(tx, node, old, n)
	}
	if err := c.connected(node); err != nil {
		return err
	}
	if err := c.decide(tx, d, node, n); err != nil {
		return err
	}
	pool, err := c.choosePool(tx, *d, node, n)
	if err != nil {
		return err
	}
	c.put, c.wait = append(c.put, touched{id: id}), append(c.wait, id)
	c.out.Placed = append(c.out.Placed, Placement{Node: node.Name, Pool: pool.Name, Kind: n.Kind})
	return c.add(tx, *d, replica{
		node: id.Node, pool: pool.Name.Key(), kind: n.Kind, props: model.PropsOf(n.Props),
		nodeID: n.NodeID, ports: n.Ports, birth: c.birth,
	})
}

// takeTieBreaker makes of a tie-breaker the replica that is asked for.
func (c *creating) takeTieBreaker(tx *store.Tx, node schema.Node, old schema.Resource, n NewResource) error {
	if err := c.connected(node); err != nil {
		return err
	}
	pool := schema.DisklessPool
	if n.Kind == schema.Diskful {
		if err := c.giveDisk(tx, c.out.Definition, old.Node, n.Props["StorPoolName"], nil, c.birth); err != nil {
			return err
		}
		row, _ := schema.Resources.Get(tx, old.ID())
		p, err := c.poolOf(tx, row)
		if err != nil {
			return err
		}
		pool = p.Name
	} else {
		old.Kind = n.Kind
		if err := schema.Resources.Update(tx, old); err != nil {
			return err
		}
	}
	c.put, c.wait = append(c.put, touched{id: old.ID(), was: true}), append(c.wait, old.ID())
	c.out.Placed = append(c.out.Placed, Placement{Node: node.Name, Pool: pool, Kind: n.Kind})
	return nil
}

func (c *creating) note(kind errs.NoticeKind, format string, args ...any) {
	c.out.Notices = append(c.out.Notices, errs.Notice{Kind: kind, Object: errs.Resource, Message: fmt.Sprintf(format, args...)})
}

// connected refuses a node whose agent is not there to make the device.
func (s *Resources) connected(n schema.Node) error {
	seen := s.Observed.Node(n.Name.Key())
	if seen.Connection != observed.Offline {
		return nil
	}
	e := errs.New(errs.NotConnected, errs.Node, "node %s is not connected", n.Name).Ref("Node", string(n.Name))
	if seen.Reason != "" {
		e = e.Because("%s", seen.Reason)
	} else {
		e = e.Because("its agent has not connected since the controller started")
	}
	return e.Fix("start the agent of node %s", n.Name)
}

// decide settles the layers of the definition, and refuses a node that cannot run them.
func (s *Resources) decide(tx *store.Tx, d *schema.Definition, node schema.Node, n NewResource) error {
	asked, err := model.ParseLayers(n.Layers)
	if err != nil {
		return err
	}
	g, _ := schema.Groups.Get(tx, d.Group)
	layers, err := s.stack(*d, asked, g.Filter)
	if err != nil {
		return err
	}
	seen := s.Observed.Node(node.Name.Key())
	for _, l := range layers {
		if !slices.Contains(seen.Layers, l) {
			return errs.New(errs.Unsupported, errs.Node, "node %s cannot run the layer %s", node.Name, l).About(errs.LayerKind).
				Because("%s", reasonOf(seen.UnsupportedLayers, string(l)))
		}
	}
	if n.Kind != schema.Diskful && !model.Replicates(layers) {
		return errs.New(errs.Invalid, errs.Resource, "resource %s on node %s needs a disk", d.Name, node.Name).About(errs.LayerStack).
			Because("no layer of the stack %s brings its data over the network", layerText(layers))
	}
	return settleLayers(tx, d, layers)
}

func reasonOf(reasons map[string]string, what string) string {
	if r := reasons[what]; r != "" {
		return r
	}
	return "its agent does not support it"
}

// choosePool returns the pool that a replica on a node goes to: the one its properties name,
// else that of the first volume definition that names one, of the definition, of the group or
// of the node (the order of LINSTOR's StorPoolName), else the default pool. It refuses one
// that cannot take the volumes.
func (s *Resources) choosePool(tx *store.Tx, d schema.Definition, node schema.Node, n NewResource) (schema.Pool, error) {
	key := node.Name.Key()
	if n.Kind != schema.Diskful {
		p, _ := schema.Pools.Get(tx, model.PoolID{Node: key, Pool: schema.DisklessPool.Key()})
		return p, nil
	}
	name, err := poolName(tx, d, node, n)
	if err != nil {
		return schema.Pool{}, err
	}
	p, ok := schema.Pools.Get(tx, model.PoolID{Node: key, Pool: name.Key()})
	if !ok || p.Provider == model.Diskless {
		return p, noSuchPool(tx, node, name)
	}
	return p, s.fits(tx, p, sizesOf(tx, d.Name.Key(), d.Layers))
}

func poolName(tx *store.Tx, d schema.Definition, node schema.Node, n NewResource) (model.PoolName, error) {
	levels := []model.Props{model.PropsOf(n.Props)}
	for vd := range schema.VolumesOf(tx, d.Name.Key()) {
		levels = append(levels, vd.Props)
	}
	g, _ := schema.Groups.Get(tx, d.Group)
	levels = append(levels, d.Props, g.Props, node.Props)
	for _, p := range levels {
		if v, ok := p.Get("StorPoolName"); ok {
			return model.ParsePoolName(v)
		}
	}
	// A group that lists exactly one pool has said which.
	if len(g.Filter.Pools) == 1 {
		return model.ParsePoolName(g.Filter.Pools[0])
	}
	return schema.DefaultPool, nil
}

func noSuchPool(tx *store.Tx, node schema.Node, name model.PoolName) error {
	var have []string
	for p := range schema.PoolsOf(tx, node.Name.Key()) {
		if p.Provider != model.Diskless {
			have = append(have, string(p.Name))
		}
	}
	e := errs.New(errs.NotFound, errs.StoragePool, "storage pool %s does not exist on node %s", name, node.Name)
	if len(have) == 0 {
		return e.Because("the node has no pool for data").Fix("create one: storage-pool create")
	}
	return e.Fix("name one of its pools: %s", strings.Join(have, ", "))
}

// fitsNow is fits for a replica that exists. The room of a node that is not connected is not
// known; it says itself when it is back that there is none, and keeps nobody else waiting.
func (s *Resources) fitsNow(r store.Reader, p schema.Pool, sizes []int64) error {
	if s.Observed.Node(p.Node).Connection == observed.Offline {
		return nil
	}
	return s.fits(r, p, sizes)
}

// fits refuses a pool that cannot take volumes of the given sizes now.
func (s *Resources) fits(r store.Reader, p schema.Pool, sizes []int64) error {
	ok, why := placer.Fits(s.pool(r, p, cluster(r)), sizes)
	if ok {
		return nil
	}
	kind := errs.NoSpace
	if why.Kind != placer.NoSpace {
		kind = errs.HostFailed
	}
	return errs.New(kind, errs.StoragePool, "storage pool %s on node %s cannot take this", p.Name, schema.NameOfNode(r, p.Node)).
		Because("%s", why).Fix("use another pool, or make room in this one")
}
