// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/client"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

func (a *app) snapshot() *cobra.Command {
	return group("snapshot", []string{"s", "snap"}, "Snapshots of resources",
		a.snapshotCreate(), a.snapshotCreateMultiple(), a.snapshotList(), a.snapshotDelete(), a.snapshotRollBack(),
		a.setProperty(snapshotProperties()), a.listProperties(snapshotProperties()),
		group("resource", []string{"r"}, "Resources made from snapshots", a.restoreResource()),
		group("volume-definition", []string{"vd"}, "Volume definitions made from snapshots", a.restoreVolumeDefinition()))
}

func (a *app) snapshotCreate() *cobra.Command {
	cmd := &cobra.Command{
		Use: "create [NODE...] RESOURCE SNAPSHOT", Aliases: []string{"c"}, Short: "Take a snapshot of a resource",
		Long: "Take a snapshot of a resource: on the nodes that are named, or on all connected ones that have its data.",
		Args: between(2, -1, "RESOURCE", "SNAPSHOT"),
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			n := len(args)
			return s.changed(s.CreateSnapshot(ctx, args[n-2], client.SnapshotCreate{Name: args[n-1], Nodes: args[:n-2]}))
		}),
	}
	compatible(cmd, "async", "")
	return cmd
}

func (a *app) snapshotCreateMultiple() *cobra.Command {
	var nodes, named list
	cmd := &cobra.Command{
		Use: "create-multiple SNAPSHOT [RESOURCE...]", Aliases: []string{"cm"}, Short: "Take snapshots of several resources at one moment",
		Long: "Take snapshots of several resources at one moment, all of them or none. Writers are held back meanwhile.",
		Args: between(1, -1, "SNAPSHOT"),
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			var create []client.SnapshotCreate
			for _, resource := range slices.Concat(args[1:], named) {
				create = append(create, client.SnapshotCreate{Name: args[0], ResourceName: resource, Nodes: nodes})
			}
			if len(create) == 0 {
				return usagef("too few arguments: name resources")
			}
			return s.changed(s.CreateSnapshots(ctx, create))
		}),
	}
	nodes.addTo(cmd.Flags(), "node_names", "n", "on these nodes; without it on all connected ones that have the data")
	named.addTo(cmd.Flags(), "resource_names", "r", "the resources, as the linstor client has them")
	compatible(cmd, "async", "")
	return cmd
}

func (a *app) snapshotList() *cobra.Command {
	var nodes, resources list
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"l"}, Short: "List snapshots", Args: nothing,
		RunE: a.run(func(ctx context.Context, s *session, _ []string) error {
			all, err := s.AllSnapshots(ctx, client.SnapshotFilter{Nodes: nodes, Resources: resources})
			if err != nil {
				return err
			}
			t := newTable("ResourceName", "SnapshotName", "NodeNames", "Volumes", "CreatedOn", "State").named("ResourceName", "SnapshotName")
			for _, sn := range all {
				t.row(sn.ResourceName, sn.Name, strings.Join(sn.Nodes, ", "), snapshotVolumes(sn), a.snapshotTime(sn), snapshotState(sn))
			}
			return s.list(t)
		}),
	}
	pastable(cmd)
	nodes.addTo(cmd.Flags(), "nodes", "n", "only snapshots on these nodes")
	resources.addTo(cmd.Flags(), "resources", "r", "only snapshots of these resources")
	return cmd
}

// snapshotVolumes says which volumes a snapshot has: "0: 1 GiB, 1: 20 MiB".
func snapshotVolumes(sn client.Snapshot) string {
	parts := make([]string, len(sn.VolumeDefinitions))
	for i, v := range sn.VolumeDefinitions {
		parts[i] = fmt.Sprintf("%d: %s", v.VolumeNumber, formatSize(v.Size))
	}
	return strings.Join(parts, ", ")
}

// snapshotTime is when the last part of a snapshot was taken.
func (a *app) snapshotTime(sn client.Snapshot) string {
	var last int64
	for _, part := range sn.Snapshots {
		if part.CreateTimestamp != nil {
			last = max(last, *part.CreateTimestamp)
		}
	}
	if last == 0 {
		return ""
	}
	return a.when(&last)
}

func snapshotState(sn client.Snapshot) cell {
	has := func(flag string) bool { return slices.Contains(sn.Flags, flag) }
	switch {
	case has(wire.FlagDelete):
		return cell{"DELETING", red}
	case has(wire.FlagFailedDeployment):
		return cell{"Failed", red}
	case has(wire.FlagFailedDisconnect):
		return cell{"Satellite disconnected", red}
	case has(wire.FlagSuccessful):
		return cell{"Successful", green}
	}
	return cell{"Incomplete", yellow}
}

func (a *app) snapshotDelete() *cobra.Command {
	var nodes list
	cmd := &cobra.Command{
		Use: "delete RESOURCE SNAPSHOT...", Aliases: []string{"d"}, Short: "Delete snapshots of a resource", Args: between(2, -1, "RESOURCE", "SNAPSHOT"),
		Long: "Delete snapshots of a resource, on all nodes or on those that are named. What a node that is not connected has goes when it is back.",
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			if ok, err := s.confirm(ctx, func(context.Context) ([]string, error) {
				var lines []string
				for _, name := range args[1:] {
					lines = append(lines, "snapshot "+name+" of "+args[0])
				}
				return fewer(lines), nil
			}); !ok {
				return err
			}
			for _, name := range args[1:] {
				if err := s.changed(s.DeleteSnapshot(ctx, args[0], name, nodes...)); err != nil {
					return err
				}
			}
			return nil
		}),
	}
	nodes.addTo(cmd.Flags(), "nodes", "n", "only on these nodes")
	compatible(cmd, "async", "")
	return cmd
}

func (a *app) snapshotRollBack() *cobra.Command {
	cmd := &cobra.Command{
		Use: "rollback RESOURCE SNAPSHOT", Aliases: []string{"rb"}, Short: "Give a resource the content that it has in a snapshot", Args: exactly("RESOURCE", "SNAPSHOT"),
		Long: "Give all volumes of a resource the content that they have in a snapshot. What was written since is lost. Nobody may use the resource meanwhile.",
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			if ok, err := s.confirm(ctx, func(context.Context) ([]string, error) {
				return []string{"what was written to " + args[0] + " since the snapshot " + args[1]}, nil
			}); !ok {
				return err
			}
			return s.changed(s.RollBack(ctx, args[0], args[1]))
		}),
	}
	cmd.Flags().Var(&choice{among: []string{"rollback", "clone", "dynamic"}}, "zfs-rollback-strategy", "accepted for compatibility")
	compatible(cmd, "async", "")
	return cmd
}

// restoring is the flags of restoring.
type restoring struct{ resource, snapshot, to string }

func (r *restoring) addTo(cmd *cobra.Command) {
	for _, f := range []struct {
		value       *string
		name, usage string
	}{
		{&r.resource, "from-resource", "resource that the snapshot is of"},
		{&r.snapshot, "from-snapshot", "snapshot to restore"},
		{&r.to, "to-resource", "resource definition to restore to"},
	} {
		cmd.Flags().StringVar(f.value, f.name, "", f.usage)
		_ = cmd.MarkFlagRequired(f.name) // It was declared in the line before.
	}
}

func (a *app) restoreVolumeDefinition() *cobra.Command {
	var r restoring
	cmd := &cobra.Command{
		Use: "restore", Aliases: []string{"rst"}, Short: "Give a resource definition the volumes of a snapshot", Args: nothing,
		RunE: a.run(func(ctx context.Context, s *session, _ []string) error {
			return s.changed(s.RestoreVolumeDefinitions(ctx, r.resource, r.snapshot, client.SnapshotRestore{ToResource: r.to}))
		}),
	}
	r.addTo(cmd)
	return cmd
}

// renamed reads pairs of names: old=new.
func renamed(pairs []string) (map[string]string, error) {
	if len(pairs) == 0 {
		return nil, nil
	}
	names := map[string]string{}
	for _, pair := range pairs {
		before, after, ok := strings.Cut(pair, "=")
		if !ok || before == "" || after == "" {
			return nil, usagef("--storpool-rename: %q: want OLD=NEW", pair)
		}
		names[before] = after
	}
	return names, nil
}

func (a *app) restoreResource() *cobra.Command {
	var r restoring
	var rename list
	cmd := &cobra.Command{
		Use: "restore [NODE...]", Aliases: []string{"rst"}, Short: "Make the replicas of a resource definition from a snapshot",
		Long: "Make the replicas of a resource definition from a snapshot: on the nodes that are named, or on all connected ones that have it.",
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			names, err := renamed(rename)
			if err != nil {
				return err
			}
			return s.changed(during(ctx, s, "", filling(r.to), func(ctx context.Context) (client.RcList, error) {
				return s.RestoreResource(ctx, r.resource, r.snapshot, client.SnapshotRestore{ToResource: r.to, Nodes: args, StorPoolRename: names})
			}))
		}),
	}
	r.addTo(cmd)
	rename.addTo(cmd.Flags(), "storpool-rename", "", "other storage pools than those of the snapshot, as OLD=NEW")
	compatible(cmd, "async", "")
	return cmd
}
