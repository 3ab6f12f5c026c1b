// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/props"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// The namespaces of DRBD's options, one for each section of its configuration, and the properties
// that decide about the rest of it.
const (
	resourceOptions   = "DrbdOptions/Resource"
	netOptions        = "DrbdOptions/Net"
	diskOptions       = "DrbdOptions/Disk"
	peerDeviceOptions = "DrbdOptions/PeerDevice"
	handlerOptions    = "DrbdOptions/Handlers"

	autoQuorum = "DrbdOptions/auto-quorum"
	prefNic    = "PrefNic"
	paths      = "Paths"
)

// defaultInterface is the net interface that replicas are connected over when nothing says
// otherwise, as in LINSTOR.
const defaultInterface model.InterfaceKey = "default"

// replication makes what DRBD has to know of one replica.
type replication struct {
	r      store.Reader
	d      *schema.Definition
	row    *schema.Resource
	node   schema.Node
	begins schema.Beginning
	levels []props.Level // that the replica inherits from, without its pool
	shared store.Revision
}

// addDRBD adds what DRBD has to know of a replica and its volumes. It returns the highest revision
// among the rows that it shares with others.
func (a *assignment) addDRBD(r store.Reader, d *schema.Definition, group *schema.Group, row *schema.Resource) store.Revision {
	if !model.Replicates(d.Layers) || row.NodeID == nil {
		return 0
	}
	x := replication{r: r, d: d, row: row}
	x.node, _ = schema.Nodes.Get(r, row.Node)
	x.levels = []props.Level{
		{Scope: props.Resource, Props: row.Props},
		{Scope: props.Definition, Props: d.Props},
		{Scope: props.Group, Props: group.Props},
		{Scope: props.Node, Props: x.node.Props},
		{Scope: props.Controller, Props: schema.SettingsOf(r)},
	}
	x.saw(schema.Nodes.Revision(r, row.Node))
	x.begins, _ = schema.Beginnings.Get(r, row.ID())
	x.saw(schema.Beginnings.Revision(r, row.ID()))
	net := values(netOptions, x.levels)
	peerDevice := values(peerDeviceOptions, x.levels)
	msg := &agentpb.Drbd{
		NodeId: *row.NodeID, Secret: cmp.Or(net["shared-secret"], d.Secret), Transport: transportOf(d.Transport), PeerSlots: d.PeerSlots,
		Diskless: row.Kind != schema.Diskful || row.Becomes != "",
		Options:  x.options(), Net: net, Disk: values(diskOptions, x.levels), PeerDevice: peerDevice, Handlers: values(handlerOptions, x.levels),
	}
	delete(net, "shared-secret")
	for peer := range schema.ResourcesOf(r, row.Definition) {
		if peer.Node != row.Node && peer.NodeID != nil {
			msg.Peers = append(msg.Peers, x.peer(&peer, net, peerDevice))
		}
	}
	for _, n := range d.Retired {
		msg.Retired = append(msg.Retired, n.NodeID)
	}
	a.msg.Drbd = msg
	for i := range row.Volumes {
		a.msg.Volumes[i].Drbd = x.volume(&row.Volumes[i], msg.GetDisk(), a.msg.GetVolumes()[i])
	}
	return x.shared
}

// saw notes the revision of a row that others share.
func (x *replication) saw(rev store.Revision) { x.shared = max(x.shared, rev) }

// options are those of the resource. What becomes of requests without quorum follows from the
// policy of quorum, unless it is set itself.
func (x *replication) options() map[string]string {
	options := values(resourceOptions, x.levels)
	policy, _ := props.Text(autoQuorum, x.levels...)
	if _, set := options["on-no-quorum"]; !set && (policy == "io-error" || policy == "suspend-io") {
		options["on-no-quorum"] = policy
	}
	return options
}

// volume is what DRBD has to know of a volume. Disk are the options of all volumes.
func (x *replication) volume(v *schema.Volume, disk map[string]string, msg *agentpb.Volume) *agentpb.DrbdVolume {
	vd, _ := schema.VolumeDefinitions.Get(x.r, model.VolumeDefinitionID{Definition: x.row.Definition, Number: v.Number})
	out := &agentpb.DrbdVolume{}
	if vd.Minor != nil {
		out.Minor = *vd.Minor
	}
	vg := model.VolumeGroupID{Group: x.d.Group, Number: v.Number}
	group, _ := schema.VolumeGroups.Get(x.r, vg)
	x.saw(schema.VolumeGroups.Revision(x.r, vg))
	levels := append(slices.Clone(x.levels), props.Level{Scope: props.VolumeDefinition, Props: vd.Props},
		props.Level{Scope: props.VolumeGroup, Props: group.Props}, props.Level{Scope: props.Volume, Props: v.Props})
	out.Disk = differing(values(diskOptions, levels), disk)
	var first schema.FirstContent
	if i := slices.IndexFunc(x.begins.Volumes, func(f schema.FirstContent) bool { return f.Number == v.Number }); i >= 0 && !v.Deleting {
		first = x.begins.Volumes[i]
	}
	out.Generation = first.Generation
	if first.Starts && first.Generation == "" {
		out.Start = agentpb.DrbdVolume_HERE
	}
	if !first.Starts {
		msg.Filesystem = nil // one of the replicas makes it, once
	}
	return out
}

// peer is what the replica has to know of another. Net and device are the options of all.
func (x *replication) peer(peer *schema.Resource, net, device map[string]string) *agentpb.DrbdPeer {
	n, _ := schema.Nodes.Get(x.r, peer.Node)
	pair := model.PairOf(x.row.Node, peer.Node)
	id := model.ResourceConnectionID{Definition: x.row.Definition, Pair: pair}
	between, _ := schema.ResourceConnections.Get(x.r, id)
	nodes, _ := schema.NodeConnections.Get(x.r, pair)
	x.saw(schema.Resources.Revision(x.r, peer.ID()))
	x.saw(schema.Nodes.Revision(x.r, peer.Node))
	x.saw(schema.ResourceConnections.Revision(x.r, id))
	x.saw(schema.NodeConnections.Revision(x.r, pair))
	connection := []props.Level{{Scope: props.ResourceConnection, Props: between.Props}, {Scope: props.NodeConnection, Props: nodes.Props}}
	levels := append(slices.Clone(x.levels), connection...)
	own := differing(values(netOptions, levels), net)
	delete(own, "shared-secret")
	return &agentpb.DrbdPeer{
		Node: string(n.Name), NodeId: *peer.NodeID, Diskless: peer.Kind != schema.Diskful,
		Paths: x.paths(peer, &n, connection), Net: own, PeerDevice: differing(values(peerDeviceOptions, levels), device),
	}
}

// paths are the ways to a peer: those that are set for the connection of the two, else the one
// between the interfaces that they prefer. One that lacks an address or a port is left out.
func (x *replication) paths(peer *schema.Resource, node *schema.Node, connection []props.Level) []*agentpb.DrbdPath {
	var list []*agentpb.DrbdPath
	add := func(local, remote string, i int) {
		if local == "" || remote == "" || len(x.row.Ports) == 0 || len(peer.Ports) == 0 {
			return
		}
		list = append(list, &agentpb.DrbdPath{Local: endpoint(local, x.row.Ports, i), Remote: endpoint(remote, peer.Ports, i)})
	}
	for _, level := range connection { // those of the replicas go before those of their nodes
		for i, name := range pathNames(level.Props) {
			local := x.address(x.row.Node, interfaceOf(level.Props, name, x.row.Node))
			remote := x.address(peer.Node, interfaceOf(level.Props, name, peer.Node))
			add(local, remote, i)
		}
		if len(list) > 0 {
			return list
		}
	}
	add(x.address(x.row.Node, x.preferred(x.row, &x.node)), x.address(peer.Node, x.preferred(peer, node)), 0)
	return list
}

// preferred is the interface that a replica is connected over: empty for the node's default.
func (x *replication) preferred(row *schema.Resource, node *schema.Node) model.InterfaceKey {
	levels := []props.Level{{Scope: props.Resource, Props: row.Props}, {Scope: props.Node, Props: node.Props}}
	for _, l := range x.levels {
		if l.Scope&(props.Definition|props.Group|props.Controller) != 0 {
			levels = append(levels, l)
		}
	}
	if len(row.Volumes) > 0 {
		p, _ := schema.Pools.Get(x.r, model.PoolID{Node: row.Node, Pool: row.Volumes[0].Pool})
		levels = append(levels, props.Level{Scope: props.Pool, Props: p.Props})
	}
	name, _ := props.Text(prefNic, levels...)
	return model.InterfaceName(name).Key()
}

// address is that of an interface of a node; of its default interface when there is none of that
// name, so that a property which names an interface that some nodes lack cuts nobody off.
func (x *replication) address(node model.NodeKey, name model.InterfaceKey) string {
	var best schema.NetInterface
	rank := func(i schema.NetInterface) int {
		switch {
		case i.Address == "":
			return 0
		case i.Name.Key() == name:
			return 4
		case i.Name.Key() == defaultInterface:
			return 3
		case i.Active:
			return 2
		}
		return 1
	}
	for i := range schema.InterfacesOf(x.r, node) {
		x.saw(schema.NetInterfaces.Revision(x.r, model.InterfaceID{Node: node, Interface: i.Name.Key()}))
		if rank(i) > rank(best) {
			best = i
		}
	}
	return best.Address
}

// endpoint is an address with the i-th of some ports, or the first when there are fewer.
func endpoint(address string, ports []int32, i int) string {
	if i >= len(ports) {
		i = 0
	}
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return address // the agent says what is wrong with it
	}
	return netip.AddrPortFrom(ip, uint16(ports[i])).String()
}

// pathNames are the names of the paths that are set for a connection, in order.
func pathNames(p model.Props) []string {
	names := map[string]bool{}
	for key := range p.All() {
		if parts := strings.Split(key, "/"); len(parts) == 3 && parts[0] == paths {
			names[parts[1]] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// interfaceOf is the interface that a node uses for a path.
func interfaceOf(p model.Props, path string, node model.NodeKey) model.InterfaceKey {
	for key, value := range p.All() {
		if parts := strings.Split(key, "/"); len(parts) == 3 && parts[0] == paths && parts[1] == path && model.NodeName(parts[2]).Key() == node {
			return model.InterfaceName(value).Key()
		}
	}
	return ""
}

// transportOf is the word of DRBD for a transport that clients name in LINSTOR's words; empty for
// the usual one.
func transportOf(name string) string {
	switch strings.ToUpper(name) {
	case "", "IP", "TCP":
		return ""
	case "LB_TCP":
		return "lb-tcp"
	default:
		return strings.ToLower(name)
	}
}

// values are the options of a section that hold at some levels.
func values(namespace string, levels []props.Level) map[string]string {
	all := map[string]string{}
	for name, v := range props.Namespace(namespace, levels...) {
		all[name] = v.Text
	}
	return all
}

// differing are the options that are not the same for all.
func differing(own, all map[string]string) map[string]string {
	out := map[string]string{}
	for name, value := range own {
		if v, ok := all[name]; !ok || v != value {
			out[name] = value
		}
	}
	return out
}

// matters tells whether two property bags say something different about what agents are told.
func matters(a, b model.Props) bool {
	return !sameFilesystem(a, b) || !maps.Equal(aboutDRBD(a), aboutDRBD(b))
}

// aboutDRBD are the properties that DRBD is set up by.
func aboutDRBD(p model.Props) map[string]string {
	all := map[string]string{}
	for key, value := range p.All() {
		if key == prefNic || strings.HasPrefix(key, "DrbdOptions/") || strings.HasPrefix(key, paths+"/") {
			all[key] = value
		}
	}
	return all
}
