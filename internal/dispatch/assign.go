// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// The properties that decide about filesystems: two of a new volume's, with LINSTOR's names, and
// whether one that is mounted grows.
const (
	filesystemType = "FileSystem/Type"
	mkfsParams     = "FileSystem/MkfsParams"
	autoGrow       = "FileSystem/AutoGrow"
)

// assignment is what a node shall have of one resource. The message in it never changes.
type assignment struct {
	msg *agentpb.Resource
	own store.Revision // the highest of the rows that are the replica's own, and its snapshots'
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

// assign makes the assignment of what a node has of a definition: its replica, and snapshots,
// which may be there without one. Row is nil without a replica; it returns false when there is
// nothing of it. The rows that are named as parents are there: the store sees to that.
func assign(r store.Reader, node model.NodeKey, definition model.DefinitionKey, row *schema.Resource) (assignment, bool) {
	d, _ := schema.Definitions.Get(r, definition)
	a := assignment{
		msg: &agentpb.Resource{Name: string(d.Name), Layers: layersOf(&d)},
		own: schema.Definitions.Revision(r, definition),
	}
	a.addSnapshots(r, node, &d)
	shared := store.Revision(0)
	switch {
	case row != nil:
		shared = a.addReplica(r, &d, row)
	case len(a.msg.GetSnapshots()) == 0:
		return assignment{}, false
	}
	a.msg.Generation = uint64(max(a.own, shared))
	return a, true
}

// addReplica adds a replica with its volumes. It returns the highest revision among the rows
// that it shares with others.
func (a *assignment) addReplica(r store.Reader, d *schema.Definition, row *schema.Resource) (shared store.Revision) {
	group, _ := schema.Groups.Get(r, d.Group)
	settings, _ := schema.Settings.Get(r, schema.SettingsKey)
	a.own = max(a.own, schema.Resources.Revision(r, row.ID()))
	shared = max(schema.Groups.Revision(r, d.Group), schema.Settings.Revision(r, schema.SettingsKey))
	a.msg.Destroy, a.msg.Inactive = row.Deleting, row.Inactive
	a.msg.Volumes = make([]*agentpb.Volume, len(row.Volumes))
	for i := range row.Volumes {
		v := &row.Volumes[i]
		id := model.VolumeDefinitionID{Definition: row.Definition, Number: v.Number}
		pool := model.PoolID{Node: row.Node, Pool: v.Pool}
		vd, _ := schema.VolumeDefinitions.Get(r, id)
		msg := &agentpb.Volume{Number: int32(v.Number), Size: vd.Size, Destroy: v.Deleting}
		if p, _ := schema.Pools.Get(r, pool); row.Kind == schema.Diskful && p.Provider != model.Diskless {
			levels := []model.Props{vd.Props, d.Props, group.Props, settings.Props}
			msg.Pool = string(p.Name)
			msg.Filesystem = filesystem(levels)
			msg.GrowFilesystem = strings.EqualFold(first(levels, autoGrow), "true")
			addContent(msg, r, d, v)
		}
		a.msg.Volumes[i] = msg
		a.own = max(a.own, schema.VolumeDefinitions.Revision(r, id))
		shared = max(shared, schema.Pools.Revision(r, pool))
	}
	return max(shared, a.addDRBD(r, d, &group, row))
}

// addContent adds where the content of a volume comes from.
func addContent(msg *agentpb.Volume, r store.Reader, d *schema.Definition, v *schema.Volume) {
	if v.Source != nil {
		of, _ := schema.Definitions.Get(r, v.Source.Definition)
		msg.Source = &agentpb.Source{
			Resource: string(of.Name), Volume: int32(v.Number), Snapshot: snapshotName(r, v.Source.Definition, v.Source.Snapshot),
		}
	}
	if v.RollBack != nil {
		msg.RollBack = &agentpb.RollBack{Snapshot: snapshotName(r, d.Name.Key(), v.RollBack.Snapshot), Token: v.RollBack.Token}
	}
}

func snapshotName(r store.Reader, d model.DefinitionKey, k model.SnapshotKey) string {
	s, _ := schema.Snapshots.Get(r, model.SnapshotID{Definition: d, Snapshot: k})
	return string(s.Name)
}

// addSnapshots adds the snapshots of a definition that a node is told of: those that it is to
// take, has taken, or is to destroy.
func (a *assignment) addSnapshots(r store.Reader, node model.NodeKey, d *schema.Definition) {
	for s := range schema.SnapshotsOf(r, d.Name.Key()) {
		id := model.SnapshotReplicaID{Definition: d.Name.Key(), Snapshot: s.Name.Key(), Node: node}
		part, ok := schema.SnapshotReplicas.Get(r, id)
		if !ok || !told(&part) {
			continue
		}
		msg := &agentpb.Snapshot{Name: string(s.Name), Destroy: part.Deleting, Taken: part.State == schema.SnapshotTaken}
		for _, v := range part.Volumes {
			p, _ := schema.Pools.Get(r, model.PoolID{Node: node, Pool: v.Pool})
			msg.Volumes = append(msg.Volumes, &agentpb.SnapshotVolume{Number: int32(v.Number), Pool: string(p.Name), Encrypted: model.Encrypts(s.Layers)})
		}
		a.msg.Snapshots = append(a.msg.Snapshots, msg)
		a.own = max(a.own, schema.SnapshotReplicas.Revision(r, id))
	}
}

// told tells whether the node of a part of a snapshot is told of it. A part that failed is not
// taken again.
func told(part *schema.SnapshotReplica) bool {
	return part.Deleting || part.State == schema.SnapshotTaking || part.State == schema.SnapshotTaken
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

// first reads a property from the nearest level that has it.
func first(levels []model.Props, key string) string {
	for _, p := range levels {
		if v, ok := p.Get(key); ok {
			return v
		}
	}
	return ""
}

// filesystem reads the properties of a new filesystem, the nearest level first.
func filesystem(levels []model.Props) *agentpb.Filesystem {
	t := first(levels, filesystemType)
	if t == "" {
		return nil
	}
	return &agentpb.Filesystem{Type: t, MkfsParams: first(levels, mkfsParams)}
}

// sameFilesystem tells whether two levels say the same about filesystems.
func sameFilesystem(a, b model.Props) bool {
	for _, key := range []string{filesystemType, mkfsParams, autoGrow} {
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
