// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// The properties that decide about a new volume's filesystem, with LINSTOR's names.
const (
	filesystemType = "FileSystem/Type"
	mkfsParams     = "FileSystem/MkfsParams"
)

// assignment is what a node shall have of one resource. The message in it never changes.
type assignment struct {
	msg *agentpb.Resource
	own store.Revision // the highest of the rows that are the replica's own
}

// says tells whether the new assignment b tells the agent the same as a, the generation
// aside.
func (a assignment) says(b assignment) bool {
	g := b.msg.GetGeneration()
	b.msg.Generation = a.msg.GetGeneration() // nobody else has b yet
	same := proto.Equal(a.msg, b.msg)
	b.msg.Generation = g
	return same
}

// assign makes the assignment of a replica. The rows that it names as its parents are there:
// the store sees to that.
func assign(r store.Reader, row *schema.Resource) assignment {
	d, _ := schema.Definitions.Get(r, row.Definition)
	group, _ := schema.Groups.Get(r, d.Group)
	settings, _ := schema.Settings.Get(r, schema.SettingsKey)
	a := assignment{
		msg: &agentpb.Resource{
			Name:    string(d.Name),
			Destroy: row.Deleting,
			Layers:  layersOf(&d),
			Volumes: make([]*agentpb.Volume, len(row.Volumes)),
		},
		own: max(schema.Resources.Revision(r, row.ID()), schema.Definitions.Revision(r, row.Definition)),
	}
	shared := max(schema.Groups.Revision(r, d.Group), schema.Settings.Revision(r, schema.SettingsKey))
	for i := range row.Volumes {
		v := &row.Volumes[i]
		id := model.VolumeDefinitionID{Definition: row.Definition, Number: v.Number}
		pool := model.PoolID{Node: row.Node, Pool: v.Pool}
		vd, _ := schema.VolumeDefinitions.Get(r, id)
		msg := &agentpb.Volume{Number: int32(v.Number), Size: vd.Size, Destroy: v.Deleting}
		if p, _ := schema.Pools.Get(r, pool); row.Kind == schema.Diskful && p.Provider != model.Diskless {
			msg.Pool = string(p.Name)
			msg.Filesystem = filesystem(vd.Props, d.Props, group.Props, settings.Props)
		}
		a.msg.Volumes[i] = msg
		a.own = max(a.own, schema.VolumeDefinitions.Revision(r, id))
		shared = max(shared, schema.Pools.Revision(r, pool))
	}
	a.msg.Generation = uint64(max(a.own, shared))
	return a
}

func layersOf(d *schema.Definition) []string {
	if len(d.Layers) == 0 {
		return []string{string(model.Storage)}
	}
	names := make([]string, len(d.Layers))
	for i, l := range d.Layers {
		names[i] = string(l)
	}
	return names
}

// filesystem reads the properties from the nearest level that has them.
func filesystem(levels ...model.Props) *agentpb.Filesystem {
	first := func(key string) string {
		for _, p := range levels {
			if v, ok := p.Get(key); ok {
				return v
			}
		}
		return ""
	}
	t := first(filesystemType)
	if t == "" {
		return nil
	}
	return &agentpb.Filesystem{Type: t, MkfsParams: first(mkfsParams)}
}

// sameFilesystem tells whether two levels say the same about filesystems.
func sameFilesystem(a, b model.Props) bool {
	for _, key := range []string{filesystemType, mkfsParams} {
		v, had := a.Get(key)
		w, has := b.Get(key)
		if v != w || had != has {
			return false
		}
	}
	return true
}

// assignPool makes the assignment of a pool.
func assignPool(p *schema.Pool) *agentpb.Pool {
	return &agentpb.Pool{Name: string(p.Name), Provider: string(p.Provider), Props: p.Props.Map()}
}
