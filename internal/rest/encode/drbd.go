// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

// writeDRBD writes the layer that replicates: what is stored of it, and DRBD's own word of now.
func (e *Encoder) writeDRBD(b *Buffer, x *replica) {
	b.under("drbd", '{')
	drbdDefinition(b, "drbd_resource_definition", &x.of.row, portOf(&x.of.row, x.row.Ports))
	if x.row.NodeID != nil {
		b.number("node_id", int64(*x.row.NodeID))
	}
	b.numbers("tcp_ports", x.row.Ports)
	b.number("peer_slots", int64(peerSlots(&x.of.row)))
	x.writeVolumes(b, "drbd_volumes", (*replica).writeDRBDVolume)
	if now := x.seen.DRBD; now != nil {
		if peers := e.connections(x); len(peers) > 0 {
			b.member("connections", peers)
		}
		if now.PromotionScore != nil {
			b.number("promotion_score", int64(*now.PromotionScore))
		}
		if now.MayPromote != nil {
			b.truth("may_promote", *now.MayPromote)
		}
	}
	b.Close('}')
}

// connections are those of a replica by the names of the peers. What DRBD still says of a peer that has no replica any more is
// left out: it would be shown as broken for ever.
func (e *Encoder) connections(x *replica) map[string]wire.DRBDConnection {
	peers := make(map[string]wire.DRBDConnection, len(x.seen.DRBD.Connections))
	for _, c := range x.seen.DRBD.Connections {
		if name, there := e.peer(x, c.Node); there {
			peers[name] = wire.DRBDConnection{Connected: c.Connected(), Message: c.State}
		}
	}
	return peers
}

// writeReplication writes what goes on between a volume and those of the peers.
func (e *Encoder) writeReplication(b *Buffer, x *replica, v *schema.Volume) {
	now := x.seen.DRBD
	if now == nil {
		return
	}
	states := map[string]wire.ReplicationState{}
	for _, c := range now.Connections {
		state := c.Replication[v.Number]
		name, there := e.peer(x, c.Node)
		if state == "" || !there {
			continue
		}
		r := wire.ReplicationState{ReplicationState: state}
		switch state {
		case "SyncTarget", "PausedSyncT", "VerifyT":
			r.DonePercentage = x.volume(v).ResyncDone
		}
		states[name] = r
	}
	if len(states) > 0 {
		b.member("replication_states", states)
	}
}

// peer returns the name of a node as it is registered, and whether the definition has a replica there.
func (e *Encoder) peer(x *replica, node model.NodeName) (string, bool) {
	_, there := schema.Resources.Get(e.rows, model.ResourceID{Definition: x.row.Definition, Node: node.Key()})
	return e.node(node.Key()).name, there
}
