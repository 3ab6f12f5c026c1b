// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"context"
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/internal/catalog"
	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/passphrase"
	"github.com/holdfast-storage/holdfast/internal/props"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// CreateVolumeDefinition adds a volume to a definition. Every replica that exists gets it; the
// call returns when their devices exist. A node that is not connected makes it when it is
// back, which is a notice, as long as another has made it. When a host cannot make it, it is
// taken back.
func (s *Resources) CreateVolumeDefinition(
	ctx context.Context, definition string, n catalog.NewVolume,
) (schema.VolumeDefinition, []errs.Notice, error) {
	n.UUID = s.NewID()
	b := s.birth()
	var err error
	if n.Props, err = props.New(props.VolumeDefinition, n.Props.Map()); err != nil {
		return schema.VolumeDefinition{}, nil, err
	}
	var vd schema.VolumeDefinition
	var d schema.Definition
	var ids []model.ResourceID
	rev, err := schema.Update(ctx, s.Store, func(tx *store.Tx) error {
		var err error
		if d, err = schema.FindDefinition(tx, definition); err != nil {
			return err
		}
		if vd, err = catalog.AddVolume(tx, &d, n); err != nil {
			return err
		}
		ids, err = s.extend(tx, d, &vd, b)
		return err
	})
	if err != nil {
		return schema.VolumeDefinition{}, nil, err
	}
	settling, cancel := s.settling(ctx)
	defer cancel()
	notices, failed := done("given the volume", d.Name, errs.VolumeDefinition, s.settle(settling, rev, ids))
	if failed == nil {
		return vd, notices, nil
	}
	if _, err := s.removeVolume(ctx, definition, vd.Number, vd.UUID); err != nil {
		failed = withDetail(failed, "the volume could not be taken back: %v", err)
	}
	return schema.VolumeDefinition{}, nil, failed
}

// extend gives every replica of a definition a volume for a new volume definition, in the
// pool where its first volume lies.
func (s *Resources) extend(tx *store.Tx, d schema.Definition, vd *schema.VolumeDefinition, b birth) ([]model.ResourceID, error) {
	var ids []model.ResourceID
	for _, r := range slices.Collect(schema.ResourcesOf(tx, d.Name.Key())) {
		if r.Deleting {
			continue
		}
		pool, err := s.poolOf(tx, r)
		if err != nil {
			return nil, err
		}
		v := schema.Volume{Number: vd.Number, UUID: b.volume(r.Node, vd.Number), Pool: pool.Name.Key()}
		if r.Kind == schema.Diskful {
			gross := model.Gross(d.Layers, vd.Size)
			if err := s.fitsNow(tx, pool, []int64{gross}); err != nil {
				return nil, err
			}
			v.Size = s.promise(model.PoolID{Node: r.Node, Pool: v.Pool}, gross)
		}
		if err := s.equip(tx, d, *vd, b); err != nil {
			return nil, err
		}
		*vd, _ = schema.VolumeDefinitions.Get(tx, model.VolumeDefinitionID{Definition: vd.Definition, Number: vd.Number})
		r.Volumes = append(slices.Clone(r.Volumes), v)
		slices.SortFunc(r.Volumes, func(a, b schema.Volume) int { return int(a.Number - b.Number) })
		if err := schema.Resources.Update(tx, r); err != nil {
			return nil, err
		}
		if err := begin(tx, d, r, []model.VolumeNumber{vd.Number}, false, b); err != nil {
			return nil, err
		}
		ids = append(ids, r.ID())
	}
	return ids, nil
}

// poolOf returns the pool that a replica's volumes lie in.
func (s *Resources) poolOf(r store.Reader, x schema.Resource) (schema.Pool, error) {
	name := schema.DefaultPool
	switch {
	case x.Kind != schema.Diskful:
		name = schema.DisklessPool
	case len(x.Volumes) > 0:
		name = model.PoolName(x.Volumes[0].Pool)
	default:
		if v, ok := x.Props.Get("StorPoolName"); ok {
			name = model.PoolName(v)
		}
	}
	return schema.FindPool(r, string(x.Node), string(name))
}

// VolumeChange is an edit of a volume definition. Nil fields stay.
type VolumeChange struct {
	Size  *int64 // usable bytes
	Props model.PropsChange
	Flags []string
}

// ModifyVolumeDefinition changes a volume definition. A larger size grows all replicas; the
// call returns when they have grown, or with the nodes that have not, which go on trying. A
// node that is not connected grows its replica when it is back, which is a notice; without
// any connected one nothing is changed. A smaller size is refused.
func (s *Resources) ModifyVolumeDefinition(ctx context.Context, definition string, nr int32, c VolumeChange) ([]errs.Notice, error) {
	if err := props.Accept(props.VolumeDefinition, &c.Props); err != nil {
		return nil, err
	}
	var notices []errs.Notice
	var d schema.Definition
	var ids []model.ResourceID
	keys := s.Keys.Mint()
	rev, err := schema.Update(ctx, s.Store, func(tx *store.Tx) error {
		ids = nil
		vd, err := schema.FindVolumeDefinition(tx, definition, model.VolumeNumber(nr))
		if err != nil {
			return err
		}
		d, _ = schema.Definitions.Get(tx, vd.Definition)
		if err := catalog.ChangeFlags(&vd, c.Flags); err != nil {
			return err
		}
		if len(c.Flags) > 0 && len(d.Layers) > 0 {
			if err := asFlagged(d, vd); err != nil {
				return err
			}
		}
		notices = schema.PropNotices(vd.Props, c.Props, errs.VolumeDefinition)
		vd.Props = vd.Props.Change(c.Props)
		if c.Size != nil && *c.Size == vd.Size {
			notices = append(notices, errs.Notice{
				Kind: errs.SameSize, Object: errs.VolumeDefinition, Message: "the volume has that size already",
			})
		} else if c.Size != nil {
			if ids, err = s.grow(tx, d, &vd, *c.Size, keys); err != nil {
				return err
			}
		}
		return schema.VolumeDefinitions.Update(tx, vd)
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := s.settling(ctx)
	defer cancel()
	more, failed := done("grown", d.Name, errs.VolumeDefinition, s.settle(ctx, rev, ids))
	if failed != nil {
		return nil, failed.Fix("the node tries again by itself; look at the state of the resource")
	}
	return append(notices, more...), nil
}

// grow sets a larger size, and promises the difference in every pool.
func (s *Resources) grow(tx *store.Tx, d schema.Definition, vd *schema.VolumeDefinition, size int64, keys passphrase.Minting) ([]model.ResourceID, error) {
	if err := model.CheckVolumeSize(size); err != nil {
		return nil, err
	}
	if size < vd.Size {
		return nil, errs.New(errs.Invalid, errs.VolumeDefinition, "volume %d of %s cannot be made smaller", vd.Number, d.Name).
			About(errs.VolumeSize).Because("it has %s, and %s were asked for", model.FormatSize(vd.Size), model.FormatSize(size)).
			Fix("create a smaller volume and copy the data")
	}
	if vd.Deleting {
		return nil, errs.New(errs.Closing, errs.VolumeDefinition, "volume %d of %s cannot be grown", vd.Number, d.Name).
			Because("it is being deleted")
	}
	if model.Encrypts(d.Layers) && vd.Key != nil {
		if err := keys.Check(); err != nil {
			return nil, err
		}
	}
	vd.Size = size
	var ids []model.ResourceID
	reachable, away := 0, []string(nil)
	for _, r := range slices.Collect(schema.ResourcesOf(tx, vd.Definition)) {
		i := slices.IndexFunc(r.Volumes, func(v schema.Volume) bool { return v.Number == vd.Number })
		if i < 0 || r.Deleting {
			continue
		}
		ids = append(ids, r.ID())
		if r.Kind != schema.Diskful {
			continue
		}
		if s.Observed.Node(r.Node).Connection == observed.Offline {
			away = append(away, string(schema.NameOfNode(tx, r.Node)))
		} else {
			reachable++
		}
		if err := s.growReplica(tx, r, i, model.Gross(d.Layers, size)); err != nil {
			return nil, err
		}
	}
	if len(away) > 0 && reachable == 0 {
		return nil, errs.New(errs.NotConnected, errs.VolumeDefinition, "volume %d of %s was not grown", vd.Number, d.Name).
			Because("no node with its data is connected: %s", strings.Join(away, ", ")).Fix("start the agent of one of them")
	}
	return ids, nil
}

// growReplica promises what a volume of a replica is to take more.
func (s *Resources) growReplica(tx *store.Tx, r schema.Resource, i int, size int64) error {
	id := model.PoolID{Node: r.Node, Pool: r.Volumes[i].Pool}
	pool, ok := schema.Pools.Get(tx, id)
	promise := s.promise(id, size)
	if more := promise - r.Volumes[i].Size; ok && more > 0 {
		if err := s.fitsNow(tx, pool, []int64{more}); err != nil {
			return err
		}
	}
	r.Volumes = slices.Clone(r.Volumes)
	r.Volumes[i].Size = max(promise, r.Volumes[i].Size)
	return schema.Resources.Update(tx, r)
}

// DeleteVolumeDefinition removes a volume from a definition and destroys it on every replica.
// It is refused while the resource is in use. Nodes that are not connected do it when they
// are back; a notice says so.
func (s *Resources) DeleteVolumeDefinition(ctx context.Context, definition string, nr int32) ([]errs.Notice, error) {
	view := s.Store.Snapshot()
	vd, err := schema.FindVolumeDefinition(view, definition, model.VolumeNumber(nr))
	if err != nil {
		return nil, err
	}
	d, _ := schema.Definitions.Get(view, vd.Definition)
	if err := s.Unused(ctx, d.Name, slices.Collect(schema.ResourcesOf(view, vd.Definition))); err != nil {
		return nil, err
	}
	return s.removeVolume(ctx, definition, vd.Number, vd.UUID)
}
