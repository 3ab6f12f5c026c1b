// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

// Properties that the server itself shows at a node.
const (
	propActiveInterface = "CurStltConnName"
	propUname           = "NodeUname"
)

// Node shows a node: a [wire.Node].
func (e *Encoder) Node(b *Buffer, n *schema.Node) { b.Value(e.wireNode(n)) }

func (e *Encoder) wireNode(n *schema.Node) wire.Node {
	key := n.Name.Key()
	seen := e.seen.Node(key)
	out := wire.Node{
		Name:                 string(n.Name),
		Type:                 wire.NodeType(n.Type),
		Flags:                append(deleteFlag(n.Deleting), leavingFlags(n)...),
		Props:                e.properties(n.Props),
		ConnectionStatus:     connection(n, seen),
		UUID:                 n.UUID,
		StorageProviders:     providers(seen),
		ResourceLayers:       converted[wire.LayerType](seen.Layers),
		UnsupportedProviders: reasons(seen.UnsupportedProviders),
		UnsupportedLayers:    reasons(seen.UnsupportedLayers),
	}
	if n.Evicted && !n.LeftAt.IsZero() {
		at := n.LeftAt.UnixMilli()
		out.EvictionTimestamp = &at
	}
	if out.Props == nil {
		out.Props = make(wire.Properties, 2)
	}
	for i := range schema.InterfacesOf(e.rows, key) {
		out.NetInterfaces = append(out.NetInterfaces, netInterface(&i))
		if i.Active {
			out.Props[propActiveInterface] = string(i.Name)
		}
	}
	if seen.Uname != "" {
		out.Props[propUname] = seen.Uname
	}
	return out
}

// connection shows how the node's agent is reached. Nothing is known of a node on which no agent is expected.
func connection(n *schema.Node, seen observed.NodeStatus) wire.ConnectionStatus {
	switch {
	case seen.Connection == observed.Online:
		return wire.ConnOnline
	case seen.Connection == observed.Connected:
		return wire.ConnConnected
	case !n.Type.RunsAgent():
		return wire.ConnUnknown
	default:
		return wire.ConnOffline
	}
}

// providers lists what the node's agent can serve. Every host serves replicas without storage.
func providers(seen observed.NodeStatus) []wire.ProviderKind {
	if seen.Since.IsZero() {
		return nil
	}
	out := []wire.ProviderKind{wire.Diskless}
	for _, p := range seen.Providers {
		if p != model.Diskless {
			out = append(out, wire.ProviderKind(p))
		}
	}
	return out
}

func reasons(why map[string]string) map[string][]string {
	if len(why) == 0 {
		return nil
	}
	out := make(map[string][]string, len(why))
	for what, reason := range why {
		out[what] = []string{reason}
	}
	return out
}

// converted turns a list of one kind of name into another.
func converted[T, S ~string](list []S) []T {
	if list == nil {
		return nil
	}
	out := make([]T, len(list))
	for i, s := range list {
		out[i] = T(s)
	}
	return out
}

// NetInterface shows a network interface: a [wire.NetInterface].
func (e *Encoder) NetInterface(b *Buffer, i *schema.NetInterface) { b.Value(netInterface(i)) }

func netInterface(i *schema.NetInterface) wire.NetInterface {
	out := wire.NetInterface{
		Name:                    string(i.Name),
		Address:                 i.Address,
		SatelliteEncryptionType: i.Encryption,
		IsActive:                i.Active,
		UUID:                    i.UUID,
	}
	if i.Port != 0 {
		port := i.Port
		out.SatellitePort = &port
	}
	return out
}

// NodeConnection returns what shows what is set for the connections of two nodes, a [wire.NodeConnection] each. The first node
// of a pair is the given one, where it is one of them.
func (e *Encoder) NodeConnection(first model.NodeKey) func(*Buffer, *schema.NodeConnection) {
	return func(b *Buffer, c *schema.NodeConnection) {
		a, z := e.ends(c.Pair, first)
		b.Value(wire.NodeConnection{NodeA: a, NodeB: z, Props: e.properties(c.Props)})
	}
}

// ends names the nodes of a pair, the given one first.
func (e *Encoder) ends(p model.NodePairID, first model.NodeKey) (a, b string) {
	if p.B == first {
		p.A, p.B = p.B, p.A
	}
	return e.node(p.A).name, e.node(p.B).name
}
