// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/client"
)

func (a *app) storagePool() *cobra.Command {
	create := group("create", []string{"c"}, "Add a storage pool to a node")
	for _, kind := range poolKinds() {
		create.AddCommand(a.storagePoolCreate(kind))
	}
	return group("storage-pool", []string{"sp"}, "Storage pools of nodes",
		create, a.storagePoolList(), a.storagePoolDelete(),
		a.setProperty(poolProperties()), a.listProperties(poolProperties()))
}

// poolKind is a kind of storage pool and what the command line calls it and its backing.
type poolKind struct {
	name    string
	kind    client.ProviderKind
	backing string // "" where there is none
	short   string
}

func poolKinds() []poolKind {
	return []poolKind{
		{"lvm", client.LVM, "VG", "on an LVM volume group"},
		{"lvmthin", client.LVMThin, "VG/LV", "on an LVM thin pool"},
		{"zfs", client.ZFS, "ZPOOL", "on a ZFS pool or dataset"},
		{"zfsthin", client.ZFSThin, "ZPOOL", "on a ZFS pool or dataset, thinly provisioned"},
		{"file", client.File, "DIRECTORY", "of files in a directory"},
		{"filethin", client.FileThin, "DIRECTORY", "of sparse files in a directory"},
		{"diskless", client.Diskless, "", "for replicas without a disk"},
	}
}

func (a *app) storagePoolCreate(kind poolKind) *cobra.Command {
	var (
		shared  string
		locking bool
	)
	names := []string{"NODE", "NAME"}
	if kind.backing != "" {
		names = append(names, kind.backing)
	}
	cmd := &cobra.Command{
		Use: kind.name + " " + strings.Join(names, " "), Short: "Add a storage pool " + kind.short, Args: exactly(names...),
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			create := client.StoragePoolCreate{StoragePoolName: args[1], ProviderKind: kind.kind, FreeSpaceMgrName: shared}
			if kind.backing != "" {
				create.Props = client.Properties{client.PropBackingPool: args[2]}
			}
			if locking {
				create.ExternalLocking = new(true)
			}
			return s.changed(s.CreateStoragePool(ctx, args[0], create))
		}),
	}
	if kind.backing != "" {
		cmd.Flags().StringVar(&shared, "shared-space", "", "identifier of backing storage that several nodes share")
		cmd.Flags().BoolVar(&locking, "external-locking", false, "leave the locking of shared storage to others")
	}
	return cmd
}

func (a *app) storagePoolList() *cobra.Command {
	var nodes, pools, props list
	var shown propColumns
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"l"}, Short: "List storage pools", Args: nothing,
		RunE: a.run(func(ctx context.Context, s *session, _ []string) error {
			all, err := s.StoragePools(ctx, client.StoragePoolFilter{Nodes: nodes, StoragePools: pools, Props: props})
			if err != nil {
				return err
			}
			if err := s.list(a.poolTable(all, &shown)); err != nil || s.form != text {
				return err
			}
			var said []client.RcList
			for _, p := range all {
				said = append(said, p.Reports)
			}
			return s.writeEntries(reports(said...))
		}),
	}
	pastable(cmd)
	nodes.addTo(cmd.Flags(), "nodes", "n", "only pools of these nodes")
	pools.addTo(cmd.Flags(), "storage-pools", "s", "only pools of these names")
	props.addTo(cmd.Flags(), "props", "", "only pools with these properties, as KEY or KEY=VALUE")
	shown.addTo(cmd.Flags(), "")
	return cmd
}

func (a *app) poolTable(pools []client.StoragePool, shown *propColumns) *table {
	t := newTable("StoragePool", "Node", "Driver", "PoolName", ">FreeCapacity", ">TotalCapacity", "CanSnapshots", "State", "SharedName").
		named("Node", "StoragePool")
	shown.into(t)
	t.add("+UUID")
	pools = slices.SortedStableFunc(slices.Values(pools), func(x, y client.StoragePool) int {
		return cmp.Or(cmp.Compare(x.StoragePoolName, y.StoragePoolName), cmp.Compare(x.NodeName, y.NodeName))
	})
	for _, p := range pools {
		can := "False"
		if p.SupportsSnapshots {
			can = "True"
		}
		shared := p.FreeSpaceMgrName
		if strings.ContainsAny(shared, ";:") && !a.linstor { // The name of a pool that is not shared.
			shared = ""
		}
		t.row(append(shown.values(p.Props, p.StoragePoolName, p.NodeName, string(p.ProviderKind), backing(p), p.FreeCapacity, p.TotalCapacity,
			can, poolState(p), shared), p.UUID)...)
	}
	return t
}

// backing returns what a pool lies on, also where the property has an older name.
func backing(p client.StoragePool) string {
	if name, ok := p.Props[client.PropBackingPool]; ok {
		return name
	}
	if vg, ok := p.Props["StorDriver/LvmVg"]; ok {
		if thin, ok := p.Props["StorDriver/ThinPool"]; ok {
			return vg + "/" + thin
		}
		return vg
	}
	for _, key := range []string{"StorDriver/ZPool", "StorDriver/ZPoolThin", "StorDriver/FileDir"} {
		if name, ok := p.Props[key]; ok {
			return name
		}
	}
	return ""
}

func poolState(p client.StoragePool) cell {
	if _, failed := p.Reports.FirstError(); failed {
		return cell{"Error", red}
	}
	for _, r := range p.Reports {
		if r.RetCode.IsWarning() {
			return cell{"Warning", yellow}
		}
	}
	return cell{"Ok", green}
}

func (a *app) storagePoolDelete() *cobra.Command {
	cmd := &cobra.Command{
		Use: "delete NODE... NAME", Aliases: []string{"d"}, Short: "Delete storage pools in which nothing lies",
		Long: "Delete storage pools of one name on one or more nodes. Nothing may lie in them. What backs them stays.",
		Args: between(2, -1, "NODE", "NAME"),
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			nodes, name := args[:len(args)-1], args[len(args)-1]
			for _, node := range nodes {
				if err := s.changed(s.DeleteStoragePool(ctx, node, name)); err != nil {
					return err
				}
			}
			return nil
		}),
	}
	compatible(cmd, "quiet", "q")
	return cmd
}
