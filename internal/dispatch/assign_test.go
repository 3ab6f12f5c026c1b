// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package dispatch_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// vol is the assignment of what create makes on alpha.
func vol(name string, generation uint64) *agentpb.Resource {
	return &agentpb.Resource{
		Name: name, Generation: generation, Layers: []string{"STORAGE"},
		Volumes: []*agentpb.Volume{{Pool: "Data", Size: 1 << 30}},
	}
}

var alphaPool = &agentpb.Pool{Name: "Data", Provider: "LVM", Props: map[string]string{"StorDriver/LvmVg": "vg"}}

func TestFullSetSaysAllThatTheNodeHas(t *testing.T) {
	in(t, func(r *rig) {
		g := r.write(func(tx *store.Tx) error {
			return errors.Join(
				insert(tx, "Plain", "alpha", "beta"),
				insert(tx, "elsewhere", "beta"),
				schema.Definitions.Insert(tx, schema.Definition{
					Name: "Layered", Group: "group", Layers: []model.Layer{model.DRBD, model.LUKS, model.Storage},
				}),
				schema.VolumeDefinitions.Insert(tx, schema.VolumeDefinition{Definition: "layered", Number: 0, Size: 10 << 20}),
				schema.VolumeDefinitions.Insert(tx, schema.VolumeDefinition{Definition: "layered", Number: 3, Size: 20 << 20, Deleting: true}),
				schema.Resources.Insert(tx, schema.Resource{
					Definition: "layered", Node: "alpha", Kind: schema.Diskful, Deleting: true,
					Volumes: []schema.Volume{{Pool: "data", Size: 11 << 20}},
				}),
				insert(tx, "diskless"),
				schema.Resources.Insert(tx, schema.Resource{
					Definition: "diskless", Node: "alpha", Kind: schema.Client,
					Volumes: []schema.Volume{{Pool: "dfltdisklessstorpool"}},
				}),
			)
		})
		c := r.dial("ALPHA")
		m := c.next()
		r.same(m, &agentpb.Assignments{
			Full:  true,
			Pools: []*agentpb.Pool{alphaPool},
			Resources: []*agentpb.Resource{
				vol("Plain", g),
				{
					Name: "Layered", Generation: g, Destroy: true, Layers: []string{"DRBD", "LUKS", "STORAGE"},
					Volumes: []*agentpb.Volume{{Pool: "Data", Size: 10 << 20, Luks: &agentpb.Luks{}}},
				},
				{Name: "diskless", Generation: g, Layers: []string{"STORAGE"}, Volumes: []*agentpb.Volume{{Size: 1 << 30}}},
			},
		})
		if m.GetHeartbeat().AsDuration() == 0 || m.GetResultsIn() == "" || m.GetAppliesTo() != "" {
			r.Errorf("heartbeat %v, results in %q, applies to %q", m.GetHeartbeat(), m.GetResultsIn(), m.GetAppliesTo())
		}
	})
}

func TestFilesystemComesFromTheNearestLevel(t *testing.T) {
	const kind, params = "FileSystem/Type", "FileSystem/MkfsParams"
	type props = map[string]string
	for _, c := range []struct {
		name                                string
		settings, group, definition, volume props
		want                                *agentpb.Filesystem
	}{
		{name: "none"},
		{name: "params without a type", volume: props{params: "-K"}},
		{name: "settings", settings: props{kind: "ext4"}, want: &agentpb.Filesystem{Type: "ext4"}},
		{
			name: "each on its own", settings: props{kind: "ext4", params: "-K"}, group: props{kind: "xfs"},
			want: &agentpb.Filesystem{Type: "xfs", MkfsParams: "-K"},
		},
		{
			name: "definition before group", group: props{kind: "ext4", params: "-a"}, definition: props{params: "-b"},
			want: &agentpb.Filesystem{Type: "ext4", MkfsParams: "-b"},
		},
		{
			name: "volume before definition", definition: props{kind: "ext4"}, volume: props{kind: "xfs"},
			want: &agentpb.Filesystem{Type: "xfs"},
		},
		{name: "switched off below", settings: props{kind: "ext4"}, volume: props{kind: ""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			in(t, func(r *rig) {
				r.create("vol", "alpha")
				g := r.write(func(tx *store.Tx) error {
					return errors.Join(
						schema.Settings.Insert(tx, schema.ControllerSettings{Props: model.PropsOf(c.settings)}),
						schema.Groups.Update(tx, schema.Group{Name: "Group", Props: model.PropsOf(c.group)}),
						schema.Definitions.Update(tx, schema.Definition{Name: "vol", Group: "group", Props: model.PropsOf(c.definition)}),
						schema.VolumeDefinitions.Update(tx, schema.VolumeDefinition{Definition: "vol", Size: 1 << 30, Props: model.PropsOf(c.volume)}),
					)
				})
				want := vol("vol", g)
				want.Volumes[0].Filesystem = c.want
				r.same(r.dial("alpha").next(), &agentpb.Assignments{
					Full: true, Pools: []*agentpb.Pool{alphaPool}, Resources: []*agentpb.Resource{want},
				})
			})
		})
	}
}

// A change reaches exactly the nodes whose assignments it changes, with a generation that
// grows; what changes no assignment is not sent.
func TestChangesReachWhomTheyConcern(t *testing.T) {
	id := model.ResourceID{Definition: "vol", Node: "alpha"}
	ext4 := model.PropsOf(map[string]string{"FileSystem/Type": "ext4"})
	for _, c := range []struct {
		name        string
		do          func(r *rig) uint64
		alpha, beta func(g uint64) *agentpb.Assignments // nil: nothing is sent
	}{
		{
			name: "a new resource on one node",
			do:   func(r *rig) uint64 { return r.create("new", "alpha") },
			alpha: func(g uint64) *agentpb.Assignments {
				return &agentpb.Assignments{Resources: []*agentpb.Resource{vol("new", g)}}
			},
		},
		{
			name: "a resource that is to be destroyed",
			do:   func(r *rig) uint64 { return r.delete(id) },
			alpha: func(g uint64) *agentpb.Assignments {
				m := vol("vol", g)
				m.Destroy = true
				return &agentpb.Assignments{Resources: []*agentpb.Resource{m}}
			},
		},
		{
			name: "a volume that is to be destroyed",
			do: func(r *rig) uint64 {
				return change(r, schema.Resources, id, func(x *schema.Resource) {
					x.Volumes = []schema.Volume{{Pool: "data", Size: 1 << 30, Deleting: true}}
				})
			},
			alpha: func(g uint64) *agentpb.Assignments {
				m := vol("vol", g)
				m.Volumes[0].Destroy = true
				return &agentpb.Assignments{Resources: []*agentpb.Resource{m}}
			},
		},
		{
			name: "a resource row that went",
			do: func(r *rig) uint64 {
				return r.write(func(tx *store.Tx) error { return schema.Resources.Delete(tx, id) })
			},
			alpha: func(uint64) *agentpb.Assignments {
				return &agentpb.Assignments{GoneResources: []string{"vol"}}
			},
		},
		{
			name: "a resource row that was written as it was",
			do:   func(r *rig) uint64 { return change(r, schema.Resources, id, func(*schema.Resource) {}) },
			alpha: func(g uint64) *agentpb.Assignments {
				return &agentpb.Assignments{Resources: []*agentpb.Resource{vol("vol", g)}}
			},
		},
		{
			name: "a larger volume definition",
			do: func(r *rig) uint64 {
				return change(r, schema.VolumeDefinitions, model.VolumeDefinitionID{Definition: "vol"},
					func(x *schema.VolumeDefinition) { x.Size = 2 << 30 })
			},
			alpha: grown("vol"), beta: grownOnBeta,
		},
		{
			name: "a definition's layers",
			do: func(r *rig) uint64 {
				return change(r, schema.Definitions, "vol", func(x *schema.Definition) {
					x.Layers = []model.Layer{model.LUKS, model.Storage}
				})
			},
			alpha: layered, beta: layered,
		},
		{
			name: "a group's description",
			do: func(r *rig) uint64 {
				return change(r, schema.Groups, "group", func(x *schema.Group) { x.Description = "text" })
			},
		},
		{
			name: "a group's filesystem",
			do: func(r *rig) uint64 {
				return change(r, schema.Groups, "group", func(x *schema.Group) { x.Props = ext4 })
			},
			alpha: formatted, beta: formatted,
		},
		{
			name: "the settings' filesystem",
			do: func(r *rig) uint64 {
				return r.write(func(tx *store.Tx) error {
					return schema.Settings.Insert(tx, schema.ControllerSettings{Props: ext4})
				})
			},
			alpha: formatted, beta: formatted,
		},
		{
			name: "another setting",
			do: func(r *rig) uint64 {
				return r.write(func(tx *store.Tx) error {
					return schema.Settings.Insert(tx, schema.ControllerSettings{Props: model.PropsOf(map[string]string{"Aux/a": "b"})})
				})
			},
		},
		{
			name: "a pool's properties",
			do: func(r *rig) uint64 {
				return change(r, schema.Pools, model.PoolID{Node: "alpha", Pool: "data"}, func(x *schema.Pool) { x.Props = model.Props{} })
			},
			alpha: func(uint64) *agentpb.Assignments {
				return &agentpb.Assignments{Pools: []*agentpb.Pool{{Name: "Data", Provider: "LVM"}}}
			},
		},
		{
			name: "a pool's lock, which the agent does not know",
			do: func(r *rig) uint64 {
				return change(r, schema.Pools, model.PoolID{Node: "alpha", Pool: "data"}, func(x *schema.Pool) { x.ExternalLocking = true })
			},
		},
		{
			name: "a pool row that went",
			do: func(r *rig) uint64 {
				return r.write(func(tx *store.Tx) error {
					return errors.Join(schema.Resources.Delete(tx, model.ResourceID{Definition: "vol", Node: "beta"}),
						schema.Pools.Delete(tx, model.PoolID{Node: "beta", Pool: "data"}))
				})
			},
			beta: func(uint64) *agentpb.Assignments {
				return &agentpb.Assignments{GonePools: []string{"Data"}, GoneResources: []string{"vol"}}
			},
		},
		{
			name: "a node's properties",
			do: func(r *rig) uint64 {
				return change(r, schema.Nodes, "alpha", func(x *schema.Node) { x.Deleting = true })
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			in(t, func(r *rig) {
				r.create("vol", "alpha", "beta")
				alpha, beta := r.join("alpha"), r.join("beta")
				g := c.do(r)
				for _, side := range []struct {
					c    *client
					want func(uint64) *agentpb.Assignments
				}{{alpha, c.alpha}, {beta, c.beta}} {
					if side.want != nil {
						r.same(side.c.next(), side.want(g))
					}
					side.c.quiet()
				}
			})
		})
	}
}

func grown(name string) func(uint64) *agentpb.Assignments {
	return func(g uint64) *agentpb.Assignments {
		m := vol(name, g)
		m.Volumes[0].Size = 2 << 30
		return &agentpb.Assignments{Resources: []*agentpb.Resource{m}}
	}
}

func grownOnBeta(g uint64) *agentpb.Assignments { return grown("vol")(g) }

func layered(g uint64) *agentpb.Assignments {
	m := vol("vol", g)
	m.Layers = []string{"LUKS", "STORAGE"}
	m.Volumes[0].Luks = &agentpb.Luks{}
	return &agentpb.Assignments{Resources: []*agentpb.Resource{m}}
}

func formatted(g uint64) *agentpb.Assignments {
	m := vol("vol", g)
	m.Volumes[0].Filesystem = &agentpb.Filesystem{Type: "ext4"}
	return &agentpb.Assignments{Resources: []*agentpb.Resource{m}}
}

func TestGenerationsAreTheSameForAnotherController(t *testing.T) {
	in(t, func(r *rig) {
		r.create("vol", "alpha")
		first := r.join("alpha").resultsIn
		before := r.dial("alpha").next()
		r.stopServing()
		if err := <-r.served; err != nil {
			r.Fatal(err)
		}
		if err := r.store.Close(); err != nil {
			r.Fatal(err)
		}
		other := newRig(r.T, r.engine.Peer())
		after := other.dial("alpha", func(h *agentpb.Hello) { h.AppliesTo = first }).next()
		r.same(after, before)
		if diff := cmp.Diff(before.GetResources()[0].GetGeneration(), after.GetResources()[0].GetGeneration()); diff != "" {
			r.Error(diff)
		}
	})
}
