// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"context"
	"fmt"
	"slices"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/props"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// leaving is one try at moving away what lies on a node that is evacuated or was evicted.
type leaving struct {
	*Resources
	node  schema.Node
	spec  schema.JobSpec
	avoid map[model.NodeKey]string
}

func (s *Resources) evacuate(ctx context.Context, j schema.Job, progress Progress) schema.JobTry {
	view := s.Store.Snapshot()
	n, ok := schema.Nodes.Get(view, model.NodeKey(j.Object))
	if !ok || !n.Evacuating && !n.Evicted {
		return schema.JobTry{State: schema.JobDone}
	}
	l := leaving{Resources: s, node: n, spec: j.Spec, avoid: map[model.NodeKey]string{}}
	for _, name := range j.Spec.Avoid {
		l.avoid[model.NodeName(name).Key()] = "node is not to be a target of the evacuation"
	}
	var list []schema.Resource
	for r := range schema.ResourcesByNode.Get(view, n.Name.Key()) {
		if !r.Deleting {
			list = append(list, r)
		}
	}
	out := each(ctx, list, shrinking(j, progress), l.replica).try()
	all := max(j.Total, out.Total)
	out.Total, out.Done = all, all-out.Total+out.Done
	return out
}

// replica does what can be done for one replica. Whatever it finds, it looks again in the
// transaction that changes something.
func (l leaving) replica(ctx context.Context, r schema.Resource) finding {
	view := l.Store.Snapshot()
	r, ok := schema.Resources.Get(view, r.ID())
	d, _ := schema.Definitions.Get(view, r.Definition)
	switch {
	case !ok || r.Deleting || d.Deleting:
		return finding{} // it goes by itself
	case r.Kind != schema.Diskful && l.node.Evacuating:
		return l.remove(ctx, d, r)
	case r.Kind != schema.Diskful:
		return finding{}
	}
	moved := false
	if l.lacks(view, d, r) {
		if !model.Replicates(d.Layers) {
			return finding{err: errs.New(errs.Unsupported, errs.Resource, "resource %s stays on node %s", d.Name, l.node.Name).
				Because("no layer of the stack %s replicates, so nothing can take its data over", layerText(d.Layers)).
				Fix("move the data by a snapshot or a clone, and delete the resource")}
		}
		if err := l.replace(ctx, d, r); err != nil {
			return finding{err: named(err, d.Name)}
		}
		moved = true
	}
	if why := l.unready(l.Store.Snapshot(), d, r); why != "" {
		return finding{moved: moved, waits: true, err: fmt.Errorf("resource %s stays on node %s for now: %s", d.Name, l.node.Name, why)}
	}
	if !l.node.Evacuating {
		return finding{moved: moved}
	}
	return l.remove(ctx, d, r)
}

// lacks tells whether a replica has to be replaced. It has not when its definition has as many
// others as its group wants, and not twice.
func (l leaving) lacks(r store.Reader, d schema.Definition, x schema.Resource) bool {
	if x.ReplacedBy != "" {
		by, ok := schema.Resources.Get(r, model.ResourceID{Definition: x.Definition, Node: x.ReplacedBy})
		if ok && by.Kind == schema.Diskful && counts(r, by) {
			return false
		}
	}
	if sharesData(r, x) {
		return false
	}
	want := l.enough(r, d)
	return want == 0 || len(remaining(r, x)) < want
}

// enough is how many replicas that count make it unnecessary to replace one; 0 when each is
// to be replaced.
func (l leaving) enough(r store.Reader, d schema.Definition) int {
	g, _ := schema.Groups.Get(r, d.Group)
	if !l.node.Evacuating {
		if n, set := props.Int("DrbdOptions/AutoEvictMinReplicaCount", inherited(r, d)...); set {
			return int(n)
		}
	}
	if g.Filter.PlaceCount == nil {
		return 0
	}
	return int(*g.Filter.PlaceCount)
}

// remaining lists the other replicas of x's definition that have data and count.
func remaining(r store.Reader, x schema.Resource) []schema.Resource {
	var list []schema.Resource
	for o := range schema.ResourcesOf(r, x.Definition) {
		if o.Node != x.Node && o.Kind == schema.Diskful && counts(r, o) {
			list = append(list, o)
		}
	}
	return list
}

// replace puts a replica elsewhere, and notes at the old one where.
func (l leaving) replace(ctx context.Context, d schema.Definition, x schema.Resource) error {
	_, err := l.place(ctx, string(d.Name), PlaceRequest{Filter: model.Filter{
		AdditionalPlaceCount: new(int32(1)), Nodes: l.spec.Targets, DisklessOnRemaining: new(false), DisklessType: new(""),
	}}, nil, placeOptions{
		avoid: l.avoid, job: true,
		before: func(tx *store.Tx) error {
			old, ok := schema.Resources.Get(tx, x.ID())
			if n, _ := schema.Nodes.Get(tx, x.Node); !ok || old.Deleting || !n.Leaving() || !l.lacks(tx, d, old) {
				return errs.New(errs.Closing, errs.Resource, "resource %s is not replaced", d.Name).Because("something else was done about it meanwhile")
			}
			return nil
		},
		after: func(tx *store.Tx, put []touched) error {
			old, _ := schema.Resources.Get(tx, x.ID())
			old.ReplacedBy = put[0].id.Node
			return schema.Resources.Update(tx, old)
		},
	})
	return err
}

// unready tells what is missing for the others to stand in for a replica; nothing when its
// replacement has all data, and so have as many others as are to be relied on.
func (l leaving) unready(r store.Reader, d schema.Definition, x schema.Resource) string {
	x, ok := schema.Resources.Get(r, x.ID())
	if !ok {
		return ""
	}
	sound, others := l.sound(r, x), len(remaining(r, x))
	if x.ReplacedBy != "" && !slices.Contains(sound, x.ReplacedBy) {
		return fmt.Sprintf("its replacement on node %s does not have all data yet", schema.NameOfNode(r, x.ReplacedBy))
	}
	if need := max(1, min(l.enough(r, d), others)); len(sound) < need {
		return fmt.Sprintf("only %d of %s that it takes are known to have all data", len(sound), counted(need, "other replica"))
	}
	return ""
}

// sound lists the nodes of the other replicas that count and are known to have all data now.
func (s *Resources) sound(r store.Reader, x schema.Resource) []model.NodeKey {
	var nodes []model.NodeKey
	for _, o := range remaining(r, x) {
		if s.upToDateOn(r, o) {
			nodes = append(nodes, o.Node)
		}
	}
	return nodes
}

// upToDate is the state of a disk that has all data, in DRBD's words.
const upToDate = "UpToDate"

// remove deletes a replica that nobody uses and nobody needs any more.
func (l leaving) remove(ctx context.Context, d schema.Definition, x schema.Resource) finding {
	if err := l.Unused(ctx, d.Name, []schema.Resource{x}); err != nil {
		return finding{err: err}
	}
	removed, b := false, l.birth()
	_, err := schema.Update(ctx, l.Store, func(tx *store.Tx) error {
		removed = false
		r, ok := schema.Resources.Get(tx, x.ID())
		n, _ := schema.Nodes.Get(tx, x.Node)
		if !ok || r.Deleting || !n.Evacuating || r.UUID != x.UUID || r.Kind != x.Kind {
			return nil
		}
		if r.Kind == schema.Diskful && (l.lacks(tx, d, r) || l.unready(tx, d, r) != "") {
			return nil
		}
		removed = true
		if _, err := l.markDeleting(tx, r); err != nil {
			return err
		}
		_, _, err := l.settleVotes(tx, r.Definition, b)
		return err
	})
	return finding{moved: removed, waits: err == nil && !removed, err: err}
}
