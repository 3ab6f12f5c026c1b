// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// Evacuation says where the replicas of a node may go.
type Evacuation struct {
	Targets []string // none: wherever the rules permit
	Avoid   []string // nodes not to go to
}

// EvacuateNode moves all replicas away from a node: for each, another is made elsewhere, and the
// old one is deleted once the new one has all data and nobody uses the old one. It answers at
// once; the job goes on, also over restarts, until nothing is left on the node. The node takes
// nothing new until it is restored. A repeated call changes nothing but the targets, when it
// has any, and makes what failed be tried at once.
func (s *Resources) EvacuateNode(ctx context.Context, name string, e Evacuation) (schema.Job, []errs.Notice, error) {
	id, now := s.NewID(), s.Now()
	var j schema.Job
	var n schema.Node
	again := false
	_, err := schema.Update(ctx, s.Store, func(tx *store.Tx) error {
		var err error
		if n, err = s.leavable(tx, name); err != nil {
			return err
		}
		spec, err := e.spec(tx, n)
		if err != nil {
			return err
		}
		target := schema.JobTarget{Kind: schema.EvacuateNode, Object: string(n.Name.Key())}
		if running, ok := schema.JobsRunning.One(tx, target); ok && len(e.Targets)+len(e.Avoid) == 0 {
			spec = running.Spec
		}
		if again = n.Evacuating; !again {
			n.Evacuating, n.LeftAt = true, now
			if err := schema.Nodes.Update(tx, n); err != nil {
				return err
			}
		}
		j, err = schema.BeginJob(tx, target, spec, id, now)
		return err
	})
	if err != nil {
		return j, nil, err
	}
	what := "the evacuation of node " + string(n.Name)
	if !again {
		return j, []errs.Notice{{Kind: errs.GoesOn, Object: errs.Node, Message: what + " has begun, and goes on"}}, nil
	}
	return j, []errs.Notice{goesOn(j, errs.Node, what)}, nil
}

// leavable returns a node that may be evacuated or evicted.
func (s *Resources) leavable(tx *store.Tx, name string) (schema.Node, error) {
	n, err := schema.FindNode(tx, name)
	if err == nil && n.Deleting {
		err = errs.New(errs.Closing, errs.Node, "node %s is lost and being removed", n.Name)
	}
	return n, err
}

// spec is what the job has to know. It refuses nodes that are not there.
func (e Evacuation) spec(r store.Reader, from schema.Node) (schema.JobSpec, error) {
	var spec schema.JobSpec
	for _, list := range []struct {
		names []string
		to    *[]string
	}{{e.Targets, &spec.Targets}, {e.Avoid, &spec.Avoid}} {
		for _, name := range list.names {
			n, err := schema.FindNode(r, name)
			if err != nil {
				return spec, err
			}
			if n.Name.Key() == from.Name.Key() && list.to == &spec.Targets {
				return spec, errs.New(errs.Invalid, errs.Node, "node %s cannot be evacuated to itself", n.Name).About(errs.Name).
					Fix("name other nodes, or none")
			}
			*list.to = append(*list.to, string(n.Name))
		}
	}
	return spec, nil
}

// EvictNode gives up waiting for a node that is not connected: its replicas do not count any
// more, and others are made in their place. They stay as they are until the node is restored
// or lost. It answers at once; the job goes on. It is refused while the node is connected, and
// a repeated call is as that for EvacuateNode.
func (s *Resources) EvictNode(ctx context.Context, name string) (schema.Job, []errs.Notice, error) {
	id, now := s.NewID(), s.Now()
	var j schema.Job
	var n schema.Node
	_, err := schema.Update(ctx, s.Store, func(tx *store.Tx) error {
		var err error
		if n, err = s.leavable(tx, name); err != nil {
			return err
		}
		if !n.Evicted && s.Observed.Node(n.Name.Key()).Connection != observed.Offline {
			return errs.New(errs.InUse, errs.Node, "node %s cannot be evicted", n.Name).
				Because("it is connected").Fix("evacuate it instead: node evacuate %s", n.Name)
		}
		if !n.Evicted {
			n.Evicted, n.LeftAt = true, now
			if err := schema.Nodes.Update(tx, n); err != nil {
				return err
			}
		}
		target := schema.JobTarget{Kind: schema.EvacuateNode, Object: string(n.Name.Key())}
		running, _ := schema.JobsRunning.One(tx, target)
		j, err = schema.BeginJob(tx, target, running.Spec, id, now)
		return err
	})
	if err != nil {
		return j, nil, err
	}
	return j, []errs.Notice{goesOn(j, errs.Node, "the replacement of what lies on node "+string(n.Name))}, nil
}

// Restoration says what becomes of what lies on a node that is restored.
type Restoration struct {
	DeleteResources bool // replicas go, where their data is elsewhere
}

// RestoreNode takes an evacuation or eviction back: the node counts again, and takes new
// replicas. Replacements that were made stay. What was being deleted by an evacuation goes on
// to be. For a node that is neither evacuated nor evicted it does nothing, and says so.
func (s *Resources) RestoreNode(ctx context.Context, name string, o Restoration) ([]errs.Notice, error) {
	now := s.Now()
	var n schema.Node
	var was bool
	_, err := schema.Update(ctx, s.Store, func(tx *store.Tx) error {
		var err error
		if n, err = s.leavable(tx, name); err != nil {
			return err
		}
		if was = n.Leaving(); !was {
			return nil
		}
		if err := schema.CancelJob(tx, schema.JobTarget{Kind: schema.EvacuateNode, Object: string(n.Name.Key())}, now); err != nil {
			return err
		}
		n.Evacuating, n.Evicted, n.LeftAt = false, false, time.Time{}
		return schema.Nodes.Update(tx, n)
	})
	if err != nil {
		return nil, err
	}
	if !was {
		return []errs.Notice{{
			Kind: errs.NotEvacuating, Object: errs.Node, Message: fmt.Sprintf("node %s is neither evacuated nor evicted", n.Name),
		}}, nil
	}
	var notices []errs.Notice
	for r := range schema.ResourcesByNode.Get(s.Store.Snapshot(), n.Name.Key()) {
		notice, err := s.restoreReplica(ctx, r.ID(), o)
		if err != nil {
			return notices, err
		}
		if notice != nil {
			notices = append(notices, *notice)
		}
	}
	return notices, nil
}

// restoreReplica forgets that a replica was replaced, or deletes it when that was asked for.
func (s *Resources) restoreReplica(ctx context.Context, id model.ResourceID, o Restoration) (*errs.Notice, error) {
	view := s.Store.Snapshot()
	d, _ := schema.Definitions.Get(view, id.Definition)
	r, ok := schema.Resources.Get(view, id)
	if !ok || r.Deleting || !o.DeleteResources && r.ReplacedBy == "" {
		return nil, nil
	}
	var why string
	if o.DeleteResources {
		if err := s.Unused(ctx, d.Name, []schema.Resource{r}); err != nil {
			why = err.Error()
		}
	}
	_, err := schema.Update(ctx, s.Store, func(tx *store.Tx) error {
		r, ok := schema.Resources.Get(tx, id)
		if !ok || r.Deleting {
			return nil
		}
		if o.DeleteResources && why == "" && r.Kind == schema.Diskful && len(s.sound(tx, r)) == 0 {
			why = "no other replica is known to have its data"
		}
		if o.DeleteResources && why == "" {
			_, err := s.markDeleting(tx, r)
			return err
		}
		r.ReplacedBy = ""
		return schema.Resources.Update(tx, r)
	})
	if err != nil || why == "" {
		return nil, err
	}
	return &errs.Notice{
		Kind: errs.SuccessNote, Object: errs.Resource,
		Message: fmt.Sprintf("resource %s on node %s stays: %s", d.Name, schema.NameOfNode(view, id.Node), why),
	}, nil
}
