// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/client"
	"github.com/holdfast-storage/holdfast/internal/props"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

func (a *app) resource() *cobra.Command {
	volumes := a.volumeList()
	volumes.Use, volumes.Aliases = "list-volumes", []string{"lv"}
	return group("resource", []string{"r"}, "Resources: the replicas of a definition on nodes",
		a.resourceCreate(), a.makeAvailable(), a.resourceList(), a.resourceDelete(), volumes, a.effectiveProperties(),
		a.toggleDisk(), a.activate(), a.deactivate(), a.pendingDeletes(), a.involved(), a.drbdOptions(props.ResourceConnection, resourceConnectionProperties()),
		a.setProperty(resourceProperties()), a.listProperties(resourceProperties()))
}

// resourceFlags are the flags of creating.
type resourceFlags struct {
	placement

	auto         replicaCount
	nodeID       number
	tcpPort      port
	diskless     bool
	drbdDiskless bool
	inactive     bool
}

func (r *resourceFlags) addTo(cmd *cobra.Command) {
	r.placement.addTo(cmd, "p")
	f := cmd.Flags()
	f.Var(&r.auto, "auto-place", "number of replicas that the controller places, or +N for N more")
	f.Var(&r.nodeID, "node-id", "DRBD node id")
	f.Var(&r.tcpPort, "drbd-tcp-port", "port of DRBD")
	f.BoolVar(&r.drbdDiskless, "drbd-diskless", false, "a DRBD replica without a disk")
	f.BoolVarP(&r.diskless, "diskless", "d", false, "a replica without a disk")
	f.BoolVar(&r.inactive, "inactive", false, "a replica that is not active")
	dryRun(cmd, &r.dry)
	compatible(cmd, "async", "")
}

// flags returns the resource flags that were asked for. The controller adds those that they imply.
func (r *resourceFlags) flags() []string {
	var flags []string
	for _, f := range []struct {
		asked bool
		flag  string
	}{{r.diskless, wire.FlagDiskless}, {r.drbdDiskless, wire.FlagDRBDDiskless}, {r.inactive, wire.FlagInactive}} {
		if f.asked {
			flags = append(flags, f.flag)
		}
	}
	return flags
}

// replicaCount is a number of replicas, or of additional ones when it starts with a plus.
type replicaCount struct {
	number

	more  bool
	every bool // on all nodes
}

// Set reads the number.
func (r *replicaCount) Set(text string) error {
	if text == "all" || text == "max" {
		r.value, r.every = new(client.Int32(-1)), true
		return nil
	}
	digits, more := strings.CutPrefix(text, "+")
	r.more = more
	if err := r.number.Set(digits); err != nil || *r.value == 0 {
		return usagef("%q: want a number of replicas, or +N for N more", text)
	}
	return nil
}

func (a *app) resourceCreate() *cobra.Command {
	var flags resourceFlags
	cmd := &cobra.Command{
		Use: "create [NODE...] RESOURCE", Aliases: []string{"c"}, Short: "Add replicas of a resource to nodes",
		Long:    "Add replicas of a resource to the nodes that are named, all of them or none, or with --auto-place to nodes that the controller chooses.",
		Example: "  holdfast resource create node-a node-b vm-100-disk-1 --storage-pool ssd\n  holdfast resource create vm-100-disk-1 --auto-place 2",
		Args:    between(1, -1, "RESOURCE"),
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			nodes, resource := args[:len(args)-1], args[len(args)-1]
			switch auto := flags.auto.value != nil; {
			case auto && len(nodes) > 0:
				return usagef("--auto-place chooses the nodes; %s cannot be named with it", strings.Join(nodes, ", "))
			case auto:
				flags.placement.diskless = disklessType(flags.drbdDiskless, flags.diskless)
				return a.place(ctx, s, resource, &flags.placement, flags.auto)
			case flags.dry:
				return usagef("--dry-run is of --auto-place: without it the nodes are those that are named")
			case len(nodes) == 0:
				return usagef("too few arguments: name nodes, or let the controller choose with --auto-place")
			}
			return createOn(ctx, s, resource, nodes, &flags)
		}),
	}
	flags.addTo(cmd)
	return cmd
}

// createOn adds replicas on nodes.
func createOn(ctx context.Context, s *session, resource string, nodes []string, flags *resourceFlags) error {
	if len(flags.pools) > 1 {
		return usagef("--storage-pool: a replica lies in one pool, not in %s", strings.Join(flags.pools, " and "))
	}
	var create []client.ResourceCreate
	for _, node := range nodes {
		one := client.ResourceCreate{
			Resource: client.NewResource{NodeName: node, Flags: flags.flags()}, LayerList: upper[client.LayerType](flags.layers),
			DrbdNodeID: flags.nodeID.value,
		}
		if len(flags.pools) == 1 {
			one.Resource.Props = client.Properties{propStoragePool: flags.pools[0]}
		}
		if flags.tcpPort.value != nil {
			one.DrbdTCPPorts = []client.Int32{*flags.tcpPort.value}
		}
		create = append(create, one)
	}
	return s.changed(s.CreateResources(ctx, resource, create))
}

// place lets the controller choose nodes.
func (a *app) place(ctx context.Context, s *session, resource string, where *placement, count replicaCount) error {
	filter, err := where.filter()
	if err != nil {
		return err
	}
	filter.DisklessType = where.diskless
	if count.more {
		filter.AdditionalPlaceCount = count.value
	} else {
		filter.PlaceCount = count.value
	}
	if count.every {
		filter.AdditionalPlaceCount = new(client.Int32(0))
	}
	if where.dry && count.every {
		return usagef("--dry-run shows where a number of replicas would go: give the number instead of all")
	}
	if where.dry {
		return s.planPlace(ctx, resource, *filter)
	}
	return s.changed(s.AutoPlace(ctx, resource, client.AutoPlaceRequest{
		SelectFilter: filter, DisklessOnRemaining: filter.DisklessOnRemaining, LayerList: filter.LayerStack,
	}))
}

// disklessType is how the API names the kind of diskless replica to place, or "" for replicas with disks.
func disklessType(drbd, plain bool) string {
	switch {
	case drbd:
		return wire.FlagDRBDDiskless
	case plain:
		return wire.FlagDiskless
	default:
		return ""
	}
}

// autoPlace is the command of definitions that does what resource create --auto-place does.
func (a *app) autoPlace() *cobra.Command {
	var (
		where    placement
		count    replicaCount
		diskless bool
	)
	cmd := &cobra.Command{
		Use: "auto-place RESOURCE", Aliases: []string{"ap"}, Short: "Add replicas of a resource where the controller chooses",
		Args: exactly("RESOURCE"),
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			where.diskless = disklessType(diskless, false)
			return a.place(ctx, s, args[0], &where, count)
		}),
	}
	where.addTo(cmd, "p")
	dryRun(cmd, &where.dry)
	cmd.Flags().Var(&count, "place-count", "number of replicas, or +N for N more (default what the group says)")
	cmd.Flags().BoolVar(&diskless, "drbd-diskless", false, "DRBD replicas without a disk")
	return cmd
}

func (a *app) resourceList() *cobra.Command {
	var (
		resources, nodes, filter list
		shown                    propColumns
		faulty, ports            bool
	)
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"l"}, Short: "List resources", Args: nothing,
		RunE: a.run(func(ctx context.Context, s *session, _ []string) error {
			all, err := s.AllResources(ctx, client.ResourceFilter{Resources: resources, Nodes: nodes, Props: filter})
			if err != nil {
				return err
			}
			return s.list(a.resourceTable(all, faulty, ports, &shown))
		}),
	}
	pastable(cmd)
	resources.addTo(cmd.Flags(), "resources", "r", "only these resources")
	nodes.addTo(cmd.Flags(), "nodes", "n", "only resources on these nodes")
	filter.addTo(cmd.Flags(), "props", "", "only resources with these properties, as KEY or KEY=VALUE")
	shown.addTo(cmd.Flags(), "s")
	cmd.Flags().BoolVar(&ports, "show-drbd-ports", false, "show the ports of DRBD")
	cmd.Flags().BoolVar(&faulty, "faulty", false, "only resources that are not well")
	compatible(cmd, "all", "a")
	return cmd
}

// resourceTable shows replicas, or those that are not well, with the ports of DRBD or without.
func (a *app) resourceTable(all []client.ResourceWithVolumes, faulty, ports bool, shown *propColumns) *table {
	t := newTable("ResourceName", "Node", "Layers", "Usage", "Conns", ">State", "CreatedOn").named("Node", "ResourceName")
	if ports {
		t.add("Ports")
	}
	shown.into(t)
	t.add("+UUID")
	for _, r := range all {
		state, conns := resourceState(r), connections(r.Resource)
		if faulty && state.color == green && conns.color != red {
			continue
		}
		row := []any{r.Name, r.NodeName, layers(r.Resource), usage(r.Resource), conns, state, a.when(r.CreateTimestamp)}
		if ports {
			row = append(row, drbdPorts(r.Resource))
		}
		t.row(append(shown.values(r.Props, row...), r.UUID)...)
	}
	return t
}

// drbdPorts returns the ports of a replica.
func drbdPorts(r client.Resource) string {
	if r.LayerObject == nil || r.LayerObject.DRBD == nil {
		return ""
	}
	var ports []string
	for _, p := range r.LayerObject.DRBD.TCPPorts {
		ports = append(ports, fmt.Sprint(p))
	}
	return strings.Join(ports, ",")
}

func (a *app) resourceDelete() *cobra.Command {
	var keep bool
	cmd := &cobra.Command{
		Use: "delete NODE... RESOURCE", Aliases: []string{"d"}, Short: "Delete replicas on nodes with their data",
		Args: between(2, -1, "NODE", "RESOURCE"),
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			nodes, resource := args[:len(args)-1], args[len(args)-1]
			if ok, err := s.confirm(ctx, func(ctx context.Context) ([]string, error) {
				return s.losses(ctx, client.ResourceFilter{Nodes: nodes, Resources: []string{resource}})
			}); !ok {
				return err
			}
			for _, node := range nodes {
				if err := s.changed(s.DeleteResource(ctx, resource, node, keep)); err != nil {
					return err
				}
			}
			return nil
		}),
	}
	cmd.Flags().BoolVar(&keep, "keep-tiebreaker", false, "keep a replica that is needed as tie-breaker")
	compatible(cmd, "async", "")
	return cmd
}
