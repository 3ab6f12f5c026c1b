// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/client"
)

func (a *app) volume() *cobra.Command {
	return group("volume", []string{"v"}, "Volumes of resources", a.volumeList(),
		a.setProperty(volumeProperties()), a.listProperties(volumeProperties()))
}

func (a *app) volumeList() *cobra.Command {
	var (
		resources, nodes, pools list
		noReplication           bool
		shown                   propColumns
	)
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"l"}, Short: "List volumes", Args: nothing,
		RunE: a.run(func(ctx context.Context, s *session, _ []string) error {
			all, err := s.AllResources(ctx, client.ResourceFilter{Resources: resources, Nodes: nodes, StoragePools: pools})
			if err != nil {
				return err
			}
			if err := s.list(volumeTable(all, !noReplication, &shown)); err != nil || s.form != text {
				return err
			}
			var said []client.RcList
			for _, r := range all {
				for _, v := range r.Volumes {
					said = append(said, v.Reports)
				}
			}
			return s.writeEntries(reports(said...))
		}),
	}
	pastable(cmd)
	resources.addTo(cmd.Flags(), "resources", "r", "only volumes of these resources")
	nodes.addTo(cmd.Flags(), "nodes", "n", "only volumes on these nodes")
	pools.addTo(cmd.Flags(), "storage-pools", "s", "only volumes in these storage pools")
	cmd.Flags().BoolVar(&noReplication, "hide-replication-states", false, "leave out what goes on with peers")
	shown.addTo(cmd.Flags(), "")
	compatible(cmd, "all", "a")
	return cmd
}

func volumeTable(all []client.ResourceWithVolumes, withReplication bool, shown *propColumns) *table {
	titles := []string{"Resource", "Node", "StoragePool", ">VolNr", ">MinorNr", "DeviceName", ">Allocated", "InUse", ">State"}
	if withReplication {
		titles = append(titles, "Repl")
	}
	t := newTable(titles...).named("Node", "Resource", "VolNr")
	shown.into(t)
	t.add("+>UsableSize", "+Driver", "+UUID")
	for _, r := range all {
		for _, v := range r.Volumes {
			row := []any{
				r.Name, r.NodeName, v.StoragePoolName, fmt.Sprint(v.VolumeNumber), minor(v), v.DevicePath, v.AllocatedSize,
				usage(r.Resource), volumeState(r.Resource, v), replications(v),
			}
			t.row(append(shown.values(v.Props, row[:len(titles)]...), usable(v), string(v.ProviderKind), v.UUID)...)
		}
	}
	t.lined = t.tall()
	return t
}
