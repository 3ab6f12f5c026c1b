// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package snapshots

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

// NewClone is a clone to make.
type NewClone struct {
	Name         string // may be empty when ExternalName is given
	ExternalName string
	Group        string            // empty: that of the source
	Layers       []string          // none: those of the source
	Props        model.PropsChange // over those of the source
}

// Clone begins a clone of a definition: one of the same volumes, with a replica for each connected
// one of the source, and with the content of this moment. It returns when the clone and the job
// that fills it are committed; see Status.
func (s *Snapshots) Clone(ctx context.Context, source string, n NewClone) (schema.Definition, []errs.Notice, error) {
	c, err := s.newCloning(source, n)
	if err != nil {
		return schema.Definition{}, nil, err
	}
	_, err = schema.Update(ctx, s.Store, c.commit)
	return c.made, c.notices, err
}

// cloning is one call of Clone on its way.
type cloning struct {
	*request // of the hidden snapshot
	source   string
	n        NewClone
	fresh    schema.Definition // as the request says it
	layers   []model.Layer
	keys     passphrase.Minting
	job      string
	made     schema.Definition
}

func (s *Snapshots) newCloning(source string, n NewClone) (*cloning, error) {
	if err := props.Accept(props.Definition, &n.Props); err != nil {
		return nil, err
	}
	id := s.NewID()
	c := &cloning{source: source, n: n, job: id, keys: s.Resources.Keys.Mint()}
	var err error
	if c.layers, err = model.ParseLayers(n.Layers); err != nil {
		return nil, err
	}
	if c.fresh, err = s.Resources.Catalog.Parse(catalog.NewDefinition{Name: n.Name, ExternalName: n.ExternalName, Group: n.Group}); err != nil {
		return nil, err
	}
	c.request, err = s.newRequest([]New{{Definition: source, Name: hiddenName(id)}})
	if err != nil {
		return nil, err
	}
	c.hidden = true
	return c, nil
}

// hiddenName is the name of the snapshot that a clone is made from.
func hiddenName(id string) string { return "clone-" + strings.ReplaceAll(id, "-", "") }

// commit writes the clone, its volumes, the snapshot that it is made from, and its job.
func (c *cloning) commit(tx *store.Tx) error {
	src, err := schema.FindDefinition(tx, c.source)
	if err != nil {
		return err
	}
	if model.Encrypts(src.Layers) { // No host could open the clone.
		if err := c.keys.Check(); err != nil {
			return err
		}
	}
	if err := c.request.commit(tx); err != nil {
		return err
	}
	d, err := c.definition(tx, src)
	if err != nil {
		return err
	}
	target := schema.JobTarget{Kind: schema.CloneDefinition, Object: string(d.Name.Key())}
	if _, running := schema.JobsRunning.One(tx, target); running {
		return errs.New(errs.Closing, errs.ResourceDefinition, "resource definition %s cannot be cloned to %s now", src.Name, d.Name).
			Because("what is left of an earlier clone of that name is being removed").Fix("try again, or choose another name")
	}
	if c.made, err = catalog.AddDefinition(tx, d); err != nil {
		return err
	}
	hidden := model.SnapshotID{Definition: src.Name.Key(), Snapshot: c.names[0].Key()}
	sn, _ := schema.Snapshots.Get(tx, hidden)
	for i, v := range sn.Volumes {
		if _, err := catalog.AddVolume(tx, &c.made, catalog.NewVolume{
			Number: new(int32(v.Number)), Size: v.Size, Props: v.Props, Flags: v.Flags, Key: v.Key, UUID: c.uuid("definition %d", i),
		}); err != nil {
			return err
		}
	}
	target.Object = string(c.made.Name.Key())
	_, err = schema.BeginJob(tx, target, schema.JobSpec{
		UUID: c.made.UUID, Source: &schema.CloneSource{Definition: hidden.Definition, Snapshot: hidden.Snapshot},
	}, c.job, c.at)
	return err
}

// definition is the clone as the source and the request say it.
func (c *cloning) definition(tx *store.Tx, src schema.Definition) (schema.Definition, error) {
	d := c.fresh
	d.Layers, d.PeerSlots, d.Transport, d.Props = src.Layers, src.PeerSlots, src.Transport, src.Props.Change(c.n.Props)
	if len(c.layers) > 0 && !slices.Equal(c.layers, src.Layers) {
		return d, differentLayers(schema.Snapshot{Name: "of " + model.SnapshotName(src.Name), Layers: src.Layers}, c.fresh.Name, c.layers)
	}
	if c.n.Group == "" {
		d.Group = src.Group
	} else if _, err := schema.FindGroup(tx, c.n.Group); err != nil {
		return d, err
	}
	d.Clone = &schema.Clone{Source: src.Name, Snapshot: c.names[0].Key(), State: schema.Cloning}
	return d, nil
}

// Status is how far a clone is.
type Status struct {
	State   schema.CloneState
	Problem string // why it failed
	Done    int64  // bytes
	Total   int64  // bytes
}

// Status tells how far a clone of a source is. A definition that is no clone of it, or is not
// there, is a NotFound error.
func (s *Snapshots) Status(source, clone string) (Status, error) {
	view := s.Store.Snapshot()
	d, err := schema.FindDefinition(view, clone)
	if err != nil {
		return Status{}, err
	}
	if d.Clone == nil || d.Clone.Source.Key() != model.DefinitionName(source).Key() {
		return Status{}, errs.New(errs.NotFound, errs.ResourceDefinition, "resource definition %s is no clone of %s", d.Name, source)
	}
	st := Status{State: d.Clone.State, Problem: d.Clone.Problem}
	if d.Deleting && st.State == schema.Cloning {
		st.State, st.Problem = schema.CloneFailed, "it was deleted before it was complete"
	}
	st.Done, st.Total = s.progress(view, d)
	if st.State == schema.CloneDone {
		st.Done = st.Total
	}
	return st, nil
}

// progress is how much of the content of a clone is there, by what the hosts say now.
func (s *Snapshots) progress(r store.Reader, d schema.Definition) (done, total int64) {
	sizes := map[model.VolumeNumber]int64{}
	for vd := range schema.VolumesOf(r, d.Name.Key()) {
		sizes[vd.Number] = vd.Size
	}
	replicas := 0
	for x := range schema.ResourcesOf(r, d.Name.Key()) {
		if x.Kind != schema.Diskful {
			continue
		}
		replicas++
		st, _ := s.Observed.Resource(x.ID())
		for _, v := range x.Volumes {
			size := sizes[v.Number]
			total += size
			done += copied(st, v, size)
		}
	}
	if replicas == 0 {
		for _, size := range sizes {
			total += size
		}
	}
	return done, total
}

// copied is how many bytes of a volume are there.
func copied(st observed.ResourceStatus, v schema.Volume, size int64) int64 {
	if v.Source == nil || slices.ContainsFunc(st.Volumes, func(seen observed.VolumeStatus) bool { return seen.Number == v.Number }) {
		return size
	}
	for _, w := range st.Work {
		if w.Volume == v.Number && w.Snapshot == "" && w.Total > 0 {
			return int64(float64(size) * float64(min(w.Done, w.Total)) / float64(w.Total))
		}
	}
	return 0
}
