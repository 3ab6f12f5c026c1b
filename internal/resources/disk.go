// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// DiskChange is what is asked for a replica that gets or loses its disk.
type DiskChange struct {
	Pool   string   // of the new disk; empty: as for a new replica
	Layers []string // none: as the definition says
}

// AddDisk gives a replica without a disk one, and returns when the disk is there; its peers then
// fill it. That it has one is a notice.
func (s *Resources) AddDisk(ctx context.Context, definition, node string, c DiskChange) ([]errs.Notice, error) {
	layers, err := model.ParseLayers(c.Layers)
	if err != nil {
		return nil, err
	}
	b := s.birth()
	_, notices, err := s.change(ctx, "given a disk", definition, node, func(tx *store.Tx, d schema.Definition, r schema.Resource) (*errs.Notice, error) {
		if r.Kind == schema.Diskful && r.Becomes == "" {
			return hasDiskAlready(d.Name, schema.NameOfNode(tx, r.Node)), nil
		}
		return nil, s.giveDisk(tx, d, r.Node, c.Pool, layers, b)
	})
	return notices, err
}

func hasDiskAlready(name model.DefinitionName, node model.NodeName) *errs.Notice {
	return &errs.Notice{Kind: errs.HasDiskAlready, Object: errs.Resource, Message: fmt.Sprintf("resource %s on node %s has a disk already", name, node)}
}

// change commits a change of one replica and waits for its node. A notice from the change says
// that there was nothing to do.
func (s *Resources) change(
	ctx context.Context, verb, definition, node string, change func(*store.Tx, schema.Definition, schema.Resource) (*errs.Notice, error),
) (schema.Resource, []errs.Notice, error) {
	var r schema.Resource
	var d schema.Definition
	var notice *errs.Notice
	rev, err := schema.Update(ctx, s.Store, func(tx *store.Tx) (err error) {
		if r, err = schema.FindResource(tx, definition, node); err != nil {
			return err
		}
		d, _ = schema.Definitions.Get(tx, r.Definition)
		notice, err = change(tx, d, r)
		return err
	})
	switch {
	case err != nil:
		return r, nil, err
	case notice != nil:
		return r, []errs.Notice{*notice}, nil
	}
	notices, err := s.settled(ctx, verb, d.Name, rev, r.ID())
	return r, notices, err
}

// settled waits for the part of one node.
func (s *Resources) settled(ctx context.Context, verb string, name model.DefinitionName, rev store.Revision, id model.ResourceID) ([]errs.Notice, error) {
	notices, failed := s.Await(ctx, verb, name, rev, []model.ResourceID{id})
	if failed != nil {
		return notices, failed.Fix("the node tries again by itself; look at the state of the resource")
	}
	return notices, s.noted(ctx, verb, name, rev, id)
}

// noted takes note in the row of what a node has said, and waits until it has said it of the row
// as it is now.
func (s *Resources) noted(ctx context.Context, verb string, name model.DefinitionName, rev store.Revision, id model.ResourceID) error {
	if err := s.Finish(context.WithoutCancel(ctx), id); err != nil {
		return err
	}
	if now := schema.Resources.Revision(s.Store.Snapshot(), id); now > rev {
		if _, failed := s.Await(ctx, verb, name, now, []model.ResourceID{id}); failed != nil {
			return failed
		}
	}
	return nil
}

// giveDisk gives a node a replica with a disk, or a disk to the replica that it has.
func (s *Resources) giveDisk(tx *store.Tx, d schema.Definition, node model.NodeKey, pool string, layers []model.Layer, b birth) error {
	n, _ := schema.Nodes.Get(tx, node)
	old, exists := schema.Resources.Get(tx, model.ResourceID{Definition: d.Name.Key(), Node: node})
	closing := errs.New(errs.Closing, errs.Resource, "resource %s on node %s gets no disk", d.Name, n.Name)
	switch {
	case len(layers) > 0 && len(d.Layers) > 0 && !slices.Equal(layers, d.Layers):
		return errs.New(errs.Invalid, errs.Resource, "resource %s on node %s gets no disk", d.Name, n.Name).About(errs.LayerStack).
			Because("it has the layers %s, and %s were asked for", layerText(d.Layers), layerText(layers))
	case exists && old.Deleting:
		return closing.Because("it is being deleted").Fix("wait until it is gone")
	case exists && old.Becomes != "":
		return closing.Because("it is losing the one that it had").Fix("wait until that is gone")
	}
	if err := s.connected(n); err != nil {
		return err
	}
	request := NewResource{Node: string(n.Name), Kind: schema.Diskful}
	if pool != "" {
		request.Props = map[string]string{"StorPoolName": pool}
	}
	p, err := s.choosePool(tx, d, n, request)
	if err != nil {
		return err
	}
	if err := s.convert(tx, d, replica{node: node, pool: p.Name.Key(), kind: schema.Diskful, birth: b}); err != nil {
		return err
	}
	row, _ := schema.Resources.Get(tx, model.ResourceID{Definition: d.Name.Key(), Node: node})
	row.Adding = true
	if err := schema.Resources.Update(tx, row); err != nil {
		return err
	}
	if err := checkReplication(d.Name, d.Layers, copies(tx, d.Name.Key())); err != nil {
		return err
	}
	_, _, err = s.settleVotes(tx, d.Name.Key(), b)
	return err
}

// RemoveDisk makes a replica one without a disk, and returns when the disk is gone. The device
// stays usable, over the network. It is refused for the last disk, while no other is known to
// have all data, and where no layer brings the data over the network. That it has none is a
// notice. The new kind is Client or TieBreaker.
func (s *Resources) RemoveDisk(ctx context.Context, definition, node string, kind schema.ResourceKind) ([]errs.Notice, error) {
	const verb = "without its disk"
	r, notices, err := s.change(ctx, verb, definition, node, func(tx *store.Tx, d schema.Definition, r schema.Resource) (*errs.Notice, error) {
		if r.Kind != schema.Diskful {
			return &errs.Notice{Kind: errs.DisklessAlready, Object: errs.Resource, Message: fmt.Sprintf("resource %s on node %s has no disk", d.Name, node)}, nil
		}
		if err := s.removable(tx, d, r); err != nil {
			return nil, err
		}
		return nil, s.loseDisk(tx, r, kind)
	})
	if err != nil || len(notices) > 0 {
		return notices, err
	}
	view := s.Store.Snapshot()
	return s.settled(ctx, verb, schema.NameOfDefinition(view, r.Definition), schema.Resources.Revision(view, r.ID()), r.ID())
}

// removable refuses to take a disk away that is needed.
func (s *Resources) removable(tx *store.Tx, d schema.Definition, r schema.Resource) error {
	n, _ := schema.Nodes.Get(tx, r.Node)
	keeps := errs.New(errs.Invalid, errs.Resource, "resource %s on node %s keeps its disk", d.Name, n.Name)
	if !model.Replicates(d.Layers) {
		return keeps.About(errs.LayerStack).Because("no layer of the stack %s brings its data over the network", layerText(d.Layers)).
			Fix("delete the resource, if nobody needs its data")
	}
	if r.Deleting {
		keeps.Kind = errs.Closing
		return keeps.Because("it is being deleted")
	}
	others := 0
	for o := range schema.ResourcesOf(tx, r.Definition) {
		if o.Node != r.Node && o.Kind == schema.Diskful && !o.Deleting && o.Becomes == "" {
			others++
		}
	}
	if others == 0 {
		keeps.Kind = errs.NotEnough
		return keeps.About(errs.ReplicaCount).Because("it is the last one with data").Fix("give another node a disk first")
	}
	if !r.Adding && len(s.sound(tx, r)) == 0 {
		keeps.Kind = errs.NotUpToDate
		return keeps.Because("none of its %s is known to have all data", counted(others, "peer")).Fix("wait until one has")
	}
	return s.connected(n)
}

// loseDisk has the volumes of a replica deleted, after which it is of another kind.
func (s *Resources) loseDisk(tx *store.Tx, r schema.Resource, kind schema.ResourceKind) error {
	r.Adding, r.Becomes = false, kind
	r.Volumes = slices.Clone(r.Volumes)
	for i := range r.Volumes {
		r.Volumes[i].Deleting = true
	}
	if len(r.Volumes) == 0 {
		return s.becomes(tx, r)
	}
	return schema.Resources.Update(tx, r)
}

// becomes makes a replica whose volumes are gone one without a disk.
func (s *Resources) becomes(tx *store.Tx, r schema.Resource) error {
	d, _ := schema.Definitions.Get(tx, r.Definition)
	seed, err := uuid.Parse(r.UUID)
	if err != nil {
		return fmt.Errorf("the id of resource %s: %w", r.ID(), err)
	}
	r.Kind, r.Becomes = r.Becomes, ""
	b := birth{at: r.Created, seed: uuid.NewSHA1(seed, []byte(r.Kind))}
	if err := s.furnish(tx, d, &r, schema.DisklessPool.Key(), b); err != nil {
		return err
	}
	if err := schema.Resources.Update(tx, r); err != nil {
		return err
	}
	if err := endBeginning(tx, r.ID()); err != nil {
		return err
	}
	_, _, err = s.settleVotes(tx, d.Name.Key(), b)
	return err
}

// Activate makes a replica usable again that was deactivated, and returns when its devices are
// there. It is refused while another one in the same shared space is active.
func (s *Resources) Activate(ctx context.Context, definition, node string) ([]errs.Notice, error) {
	return s.setInactive(ctx, definition, node, false)
}

// Deactivate takes the devices of a replica away and keeps its data, and returns when that is
// so. It is refused while they are in use.
func (s *Resources) Deactivate(ctx context.Context, definition, node string) ([]errs.Notice, error) {
	view := s.Store.Snapshot()
	r, err := schema.FindResource(view, definition, node)
	if err != nil {
		return nil, err
	}
	if err := s.Unused(ctx, schema.NameOfDefinition(view, r.Definition), []schema.Resource{r}); err != nil {
		return nil, err
	}
	return s.setInactive(ctx, definition, node, true)
}

func (s *Resources) setInactive(ctx context.Context, definition, node string, inactive bool) ([]errs.Notice, error) {
	verb := "activated"
	if inactive {
		verb = "deactivated"
	}
	_, notices, err := s.change(ctx, verb, definition, node, func(tx *store.Tx, d schema.Definition, r schema.Resource) (*errs.Notice, error) {
		n, _ := schema.Nodes.Get(tx, r.Node)
		if r.Inactive == inactive {
			return &errs.Notice{Kind: errs.SuccessNote, Object: errs.Resource, Message: fmt.Sprintf("resource %s on node %s is %s already", d.Name, n.Name, verb)}, nil
		}
		if err := s.connected(n); err != nil {
			return nil, err
		}
		if r.Deleting {
			return nil, errs.New(errs.Closing, errs.Resource, "resource %s on node %s is not %s", d.Name, n.Name, verb).Because("it is being deleted")
		}
		if by := activeElsewhere(tx, r); !inactive && by != "" {
			return nil, errs.New(errs.InUse, errs.Resource, "resource %s on node %s is not activated", d.Name, n.Name).
				Because("it is active on node %s, in the same shared space", by).Fix("deactivate it there first")
		}
		r.Inactive = inactive
		return nil, schema.Resources.Update(tx, r)
	})
	if inactive && errs.Is(err, errs.InUse) {
		// Someone came between the question and the commit: he keeps it.
		if _, failed := s.setInactive(ctx, definition, node, false); failed != nil {
			return notices, errs.As(err).Detail("it could not be kept active: " + failed.Error())
		}
	}
	return notices, err
}

// provideActive activates a replica that was deactivated. It takes the place of one that is
// active in the same space, if nobody uses that.
func (s *Resources) provideActive(ctx context.Context, p presence) (Created, error) {
	out := Created{Definition: p.definition}
	name, node := string(p.definition.Name), string(p.node.Name)
	if other := activeElsewhere(s.Store.Snapshot(), p.replica); other != "" {
		if _, err := s.Deactivate(ctx, name, string(other)); err != nil {
			return out, err
		}
		out.Notices = append(out.Notices, errs.Notice{
			Kind: errs.Deactivated, Object: errs.Resource, Message: fmt.Sprintf("resource %s on node %s was deactivated", name, other),
		})
	}
	notices, err := s.Activate(ctx, name, node)
	out.Notices = append(out.Notices, notices...)
	return out, err
}

// activeElsewhere names a node where the data of a replica in a shared space is in use or may
// be.
func activeElsewhere(r store.Reader, x schema.Resource) model.NodeName {
	space := spaceOf(r, x)
	if space == "" {
		return ""
	}
	for o := range schema.ResourcesOf(r, x.Definition) {
		if o.Node != x.Node && !o.Inactive && spaceOf(r, o) == space {
			return schema.NameOfNode(r, o.Node)
		}
	}
	return ""
}

// upToDateOn tells whether a replica is known to have all its data now.
func (s *Resources) upToDateOn(r store.Reader, x schema.Resource) bool {
	st, ready := s.ready(r, x.ID())
	d, _ := schema.Definitions.Get(r, x.Definition)
	return ready && hasAllData(d, st)
}
