// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/client"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

func (a *app) node() *cobra.Command {
	return group("node", []string{"n"}, "Nodes",
		a.nodeCreate(), a.nodeList(), a.nodeInfo(), a.nodeDescribe(), a.nodeSetLogLevel(), a.nodeModify(), a.nodeDelete(), a.nodeJoinToken(), a.nodeReconnect(),
		a.nodeEvacuate(), a.nodeEvict(), a.nodeRestore(), a.nodeLost(), a.netInterface(),
		a.setProperty(nodeProperties()), a.listProperties(nodeProperties()))
}

// Ports on which agents listen in LINSTOR. Holdfast's agents dial in; clients show the port all the same.
const (
	satellitePort    = 3366
	satelliteTLSPort = 3367
	controllerPort   = 3370
	controlTLSPort   = 3371
)

func nodeTypes() []string {
	return []string{string(client.NodeController), string(client.NodeAuxiliary), string(client.NodeCombined), string(client.NodeSatellite)}
}

func (a *app) nodeCreate() *cobra.Command {
	nodeType := choice{string(client.NodeSatellite), nodeTypes()}
	encryption := choice{wire.EncryptionPlain, []string{wire.EncryptionPlain, wire.EncryptionSSL}}
	var (
		at        port
		ifaceName string
	)
	cmd := &cobra.Command{
		Use: "create NAME [ADDRESS]", Aliases: []string{"c"}, Short: "Register a node",
		Long: "Register a node. Its name must be the host name of the node. Without an address the name is resolved here.",
		Args: between(1, 2, "NAME"),
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			address, err := a.nodeAddress(ctx, args)
			if err != nil {
				return err
			}
			kind := client.NodeType(nodeType.value)
			if at.value == nil {
				at.value = new(defaultNodePort(kind, encryption.value))
			}
			return s.changed(s.CreateNode(ctx, client.NodeCreate{Name: args[0], Type: kind, NetInterfaces: []client.NetInterfaceCreate{{
				Name: ifaceName, Address: address, SatellitePort: at.value, SatelliteEncryptionType: encryption.value, IsActive: new(true),
			}}}))
		}),
	}
	f := cmd.Flags()
	f.Var(&nodeType, "node-type", "what runs on the node")
	f.VarP(&at, "port", "p", "port of the node")
	f.Var(&encryption, "communication-type", "encryption of the connection")
	f.StringVar(&ifaceName, "interface-name", "default", "name of the network interface")
	f.Var(&choice{"IP", []string{"IP"}}, "interface-type", "kind of the network interface")
	return cmd
}

func defaultNodePort(kind client.NodeType, encryption string) client.Int32 {
	controls, encrypted := kind == client.NodeController, encryption == wire.EncryptionSSL
	switch {
	case controls && encrypted:
		return controlTLSPort
	case controls:
		return controllerPort
	case encrypted:
		return satelliteTLSPort
	default:
		return satellitePort
	}
}

// nodeAddress returns the address of a new node: the one given, or that of its name.
func (a *app) nodeAddress(ctx context.Context, args []string) (string, error) {
	host := args[len(args)-1]
	if net.ParseIP(host) != nil {
		return host, nil
	}
	addresses, err := a.env.LookupHost(ctx, host)
	if err == nil && len(addresses) == 0 {
		err = errors.New("it has no address")
	}
	if err != nil {
		return "", usagef("resolve %s: %w; give the address of the node", host, err)
	}
	return addresses[0], nil
}

func (a *app) nodeList() *cobra.Command {
	var filter client.NodeFilter
	var nodes, props list
	var shown propColumns
	var aux bool
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"l"}, Short: "List nodes", Args: nothing,
		RunE: a.run(func(ctx context.Context, s *session, _ []string) error {
			filter.Nodes, filter.Props = nodes, props
			all, err := s.Nodes(ctx, filter)
			if err != nil {
				return err
			}
			return s.list(a.nodeTable(all, aux, &shown))
		}),
	}
	pastable(cmd)
	nodes.addTo(cmd.Flags(), "nodes", "n", "only these nodes")
	props.addTo(cmd.Flags(), "props", "", "only nodes with these properties, as KEY or KEY=VALUE")
	shown.addTo(cmd.Flags(), "s")
	cmd.Flags().BoolVar(&aux, "show-aux-props", false, "show the properties of the Aux/ namespace")
	return cmd
}

func (a *app) nodeTable(all []client.Node, aux bool, shown *propColumns) *table {
	t := newTable("Node", "NodeType", "Addresses")
	if aux {
		t.add("AuxProps")
	}
	t.add("State")
	shown.into(t)
	t.add("+Interfaces", "+UUID")
	for _, n := range all {
		row := []any{n.Name, string(n.Type), activeAddress(n)}
		if aux {
			row = append(row, auxProps(n.Props))
		}
		t.row(append(shown.values(n.Props, append(row, a.nodeState(n))...), interfaces(n), n.UUID)...)
	}
	return t
}

// interfaces returns the network interfaces of a node, a line for each.
func interfaces(n client.Node) string {
	var lines []string
	for _, i := range n.NetInterfaces {
		lines = append(lines, i.Name+" "+i.Address)
	}
	return strings.Join(lines, "\n")
}

// activeAddress returns how the controller and the node reach each other.
func activeAddress(n client.Node) string {
	var lines []string
	for _, i := range n.NetInterfaces {
		if i.IsActive && i.SatellitePort != nil {
			lines = append(lines, fmt.Sprintf("%s (%s)", net.JoinHostPort(i.Address, fmt.Sprint(*i.SatellitePort)), i.SatelliteEncryptionType))
		}
	}
	return strings.Join(lines, "\n")
}

func (a *app) nodeInfo() *cobra.Command {
	var nodes list
	var full bool
	cmd := &cobra.Command{
		Use: "info", Short: "Show which kinds of storage and which layers nodes support", Args: nothing,
		RunE: a.run(func(ctx context.Context, s *session, _ []string) error {
			all, err := s.Nodes(ctx, client.NodeFilter{Nodes: nodes})
			if err != nil {
				return err
			}
			if s.form != text {
				return s.listJSON(s.last)
			}
			if err := s.writeTable(a.providersTable(all)); err != nil {
				return err
			}
			err = errors.Join(s.write("\n"), s.writeTable(a.layersTable(all)))
			if full {
				err = errors.Join(err, s.write("\n"), s.writeTable(unsupportedTable(all)))
			}
			return err
		}),
	}
	pastable(cmd)
	nodes.addTo(cmd.Flags(), "nodes", "n", "only these nodes")
	cmd.Flags().BoolVarP(&full, "full", "f", false, "say why something is not supported, too")
	return cmd
}

// unsupportedTable says of each node why it cannot do what it cannot do.
func unsupportedTable(nodes []client.Node) *table {
	t := newTable("Node", "Unsupported", "Reason")
	for _, n := range nodes {
		for _, kind := range slices.Sorted(maps.Keys(n.UnsupportedProviders)) {
			t.row(n.Name, kind, strings.Join(n.UnsupportedProviders[kind], "\n"))
		}
		for _, kind := range slices.Sorted(maps.Keys(n.UnsupportedLayers)) {
			t.row(n.Name, kind, strings.Join(n.UnsupportedLayers[kind], "\n"))
		}
	}
	return t
}

// providersTable has, as linstor, also the kinds that Holdfast does not know.
func (a *app) providersTable(nodes []client.Node) *table {
	t := newTable("Node", "Diskless", "LVM", "LVMThin", "ZFS/Thin", "File/Thin")
	if a.linstor {
		t.add("SPDK", "Remote SPDK", "Storage Spaces", "Storage Spaces/Thin")
	}
	for _, n := range nodes {
		has := func(any ...client.ProviderKind) cell {
			return support(slices.ContainsFunc(any, func(k client.ProviderKind) bool { return slices.Contains(n.StorageProviders, k) }))
		}
		row := []any{n.Name, has(wire.Diskless), has(wire.LVM), has(wire.LVMThin), has(wire.ZFS, wire.ZFSThin), has(wire.File, wire.FileThin)}
		row = append(row, support(false), support(false), support(false), support(false))
		t.row(row[:len(t.columns)]...)
	}
	return t
}

func (a *app) layersTable(nodes []client.Node) *table {
	t := newTable("Node", "DRBD", "LUKS")
	if a.linstor {
		t.add("NVMe", "Cache", "BCache", "WriteCache")
	}
	t.add("Storage")
	for _, n := range nodes {
		has := func(l client.LayerType) cell { return support(slices.Contains(n.ResourceLayers, l)) }
		row := []any{n.Name, has(wire.LayerDRBD), has(wire.LayerLUKS)}
		if a.linstor {
			row = append(row, support(false), support(false), support(false), support(false))
		}
		t.row(append(row, has(wire.LayerStorage))...)
	}
	return t
}

func support(has bool) cell {
	if has {
		return cell{"+", green}
	}
	return cell{"-", red}
}

func (a *app) nodeModify() *cobra.Command {
	nodeType := choice{among: nodeTypes()}
	cmd := &cobra.Command{
		Use: "modify NODE", Aliases: []string{"m"}, Short: "Change the type of a node", Args: exactly("NODE"),
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			return s.changed(s.ModifyNode(ctx, args[0], client.NodeModify{NodeType: client.NodeType(nodeType.value)}))
		}),
	}
	cmd.Flags().VarP(&nodeType, "node-type", "t", "what runs on the node")
	return cmd
}

func (a *app) nodeDelete() *cobra.Command {
	cmd := &cobra.Command{
		Use: "delete NODE", Aliases: []string{"d"}, Short: "Delete a node that has no resources", Args: exactly("NODE"),
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			return s.changed(s.DeleteNode(ctx, args[0]))
		}),
	}
	compatible(cmd, "async", "")
	return cmd
}
