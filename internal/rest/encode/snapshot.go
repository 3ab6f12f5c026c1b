// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"maps"

	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

// Snapshot shows a snapshot: a [wire.Snapshot].
func (e *Encoder) Snapshot(b *Buffer, s *schema.Snapshot) { b.Value(e.wireSnapshot(s)) }

func (e *Encoder) wireSnapshot(s *schema.Snapshot) wire.Snapshot {
	d := e.definitionOf(s.Definition)
	own, inherited := e.properties(s.Props), e.properties(s.Inherited)
	out := wire.Snapshot{
		Name: string(s.Name), ResourceName: string(d.row.Name), UUID: s.UUID,
		Props: merged(inherited, own), SnapshotDefinitionProps: own, ResourceDefinitionProps: inherited,
		Flags: snapshotFlags(s.State, s.Deleting),
	}
	for _, v := range s.Volumes {
		out.VolumeDefinitions = append(out.VolumeDefinitions, wire.SnapshotVolumeDefinition{
			VolumeNumber: int32(v.Number), Size: wire.RoundUp(v.Size), VolumeDefinitionProps: e.properties(v.Props),
		})
	}
	for part := range schema.SnapshotReplicasOf(e.rows, s.ID()) {
		n := e.node(part.Node)
		out.Nodes = append(out.Nodes, n.name)
		out.Snapshots = append(out.Snapshots, e.part(s, &part, n.name))
	}
	return out
}

func (e *Encoder) part(s *schema.Snapshot, part *schema.SnapshotReplica, node string) wire.SnapshotNode {
	out := wire.SnapshotNode{
		SnapshotName: string(s.Name), NodeName: node, UUID: part.UUID,
		Flags: snapshotFlags(part.State, part.Deleting || s.Deleting),
	}
	if !part.Taken.IsZero() {
		out.CreateTimestamp = new(part.Taken.UnixMilli())
	}
	seen, _ := e.seen.Snapshot(part.ID())
	for _, v := range part.Volumes {
		volume := wire.SnapshotVolumeNode{UUID: v.UUID, VlmNr: int32(v.Number)}
		if seen.Current {
			volume.State = partState(seen.Phase)
		}
		out.SnapshotVolumes = append(out.SnapshotVolumes, volume)
	}
	return out
}

// partState is the state of a snapshot's part; clients know the word for a whole one.
func partState(p observed.Phase) string {
	if p == observed.Ready {
		return "completed"
	}
	return p.String()
}

// snapshotFlags are those of a snapshot, or of its part on a node, as clients know them.
func snapshotFlags(st schema.SnapshotState, deleting bool) []string {
	flags := deleteFlag(deleting)
	switch st {
	case schema.SnapshotTaken:
		flags = append(flags, wire.FlagSuccessful)
	case schema.SnapshotFailed:
		flags = append(flags, wire.FlagFailedDeployment)
	case schema.SnapshotCutOff:
		flags = append(flags, wire.FlagFailedDisconnect)
	case schema.SnapshotPlanned, schema.SnapshotTaking:
	}
	return flags
}

// merged returns the properties of both, where the second win.
func merged(first, second wire.Properties) wire.Properties {
	out := make(wire.Properties, len(first)+len(second))
	for _, p := range []wire.Properties{first, second} {
		maps.Copy(out, p)
	}
	return out
}

// VisibleSnapshot tells whether users see a snapshot.
func VisibleSnapshot(s *schema.Snapshot) bool { return !s.Hidden }

// OnNode tells whether a snapshot has a part on one of these nodes, or none are named.
func (e *Encoder) OnNode(s *schema.Snapshot, nodes []model.NodeKey) bool {
	for _, n := range nodes {
		if _, ok := schema.SnapshotReplicas.Get(e.rows, model.SnapshotReplicaID{Definition: s.Definition, Snapshot: s.Name.Key(), Node: n}); ok {
			return true
		}
	}
	return len(nodes) == 0
}
