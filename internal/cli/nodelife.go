// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/client"
)

func (a *app) nodeEvacuate() *cobra.Command {
	var targets, avoid list
	var dry bool
	var wait waiting
	cmd := &cobra.Command{
		Use: "evacuate NODE", Aliases: []string{"evac"}, Short: "Move all resources away from a node", Args: exactly("NODE"),
		Long: "Move all resources away from a node: for each, a replica is made elsewhere, and the one on the node is deleted once\n" +
			"that has all data. The node takes nothing new until it is restored. " + waitHelp,
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			if targets != nil && avoid != nil {
				return usagef("--target and --do-not-target exclude each other")
			}
			if dry {
				return s.planEvacuation(ctx, args[0], targets, avoid)
			}
			entries, err := s.EvacuateNode(ctx, args[0], client.NodeEvacuate{Target: targets, DoNotTarget: avoid})
			return s.begun(ctx, &wait, entries, err)
		}),
	}
	targets.addTo(cmd.Flags(), "target", "", "the only nodes to move resources to")
	avoid.addTo(cmd.Flags(), "do-not-target", "", "nodes not to move resources to")
	dryRun(cmd, &dry)
	wait.addTo(cmd)
	return cmd
}

func (a *app) nodeRestore() *cobra.Command {
	var resources, snapshots bool
	cmd := &cobra.Command{
		Use: "restore NODE", Aliases: []string{"rst"}, Short: "Take back that a node is evacuated or evicted", Args: exactly("NODE"),
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			var restore client.NodeRestore
			if resources {
				restore.DeleteResources = &resources
			}
			if snapshots {
				restore.DeleteSnapshots = &snapshots
			}
			return s.changed(s.RestoreNode(ctx, args[0], restore))
		}),
	}
	cmd.Flags().BoolVar(&resources, "delete-resources", false, "delete the resources on the node whose data is elsewhere")
	cmd.Flags().BoolVar(&snapshots, "delete-snapshots", false, "delete the snapshots on the node")
	return cmd
}

func (a *app) nodeEvict() *cobra.Command {
	var wait waiting
	cmd := &cobra.Command{
		Use: "evict NODE", Short: "Give up waiting for a node that is offline, and replace its resources", Args: exactly("NODE"),
		Long: "Give up waiting for a node that is offline, and replace its resources elsewhere.\n" + waitHelp,
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			entries, err := s.EvictNode(ctx, args[0])
			return s.begun(ctx, &wait, entries, err)
		}),
	}
	wait.addTo(cmd)
	return cmd
}

func (a *app) nodeLost() *cobra.Command {
	cmd := &cobra.Command{
		Use: "lost NODE", Aliases: []string{"lo"}, Short: "Forget a node that will not come back, with all that lies on it", Args: exactly("NODE"),
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			if ok, err := s.confirm(ctx, func(ctx context.Context) ([]string, error) {
				return s.losses(ctx, client.ResourceFilter{Nodes: args})
			}); !ok {
				return err
			}
			return s.changed(s.LoseNode(ctx, args[0]))
		}),
	}
	compatible(cmd, "async", "")
	return cmd
}

func (a *app) nodeReconnect() *cobra.Command {
	return &cobra.Command{
		Use: "reconnect NODE...", Aliases: []string{"rc"}, Short: "Ask for new connections to the agents of nodes", Args: between(1, -1, "NODE"),
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			for _, node := range args {
				if err := s.changed(s.ReconnectNode(ctx, node)); err != nil {
					return err
				}
			}
			return nil
		}),
	}
}
