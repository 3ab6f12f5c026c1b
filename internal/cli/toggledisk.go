// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/client"
)

func (a *app) toggleDisk() *cobra.Command {
	var (
		diskless bool
		pool     string
		from     string
		layers   commas
		wait     waiting
	)
	cmd := &cobra.Command{
		Use: "toggle-disk NODE RESOURCE", Aliases: []string{"td"}, Short: "Give a replica a disk, take it away, or move one there", Args: exactly("NODE", "RESOURCE"),
		Long: "Give the replica on a node a disk, or with --diskless take it away. With --migrate-from the disk of another node moves there:\n" +
			"the other one goes once all data is on the new one. " + waitHelp,
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			ask := client.ToggleDiskRequest{
				Operation: client.ToggleIntoDiskful, StoragePool: pool, MigrateFrom: from, LayerList: upper[client.LayerType](layers),
			}
			if diskless {
				if from != "" {
					return usagef("--diskless takes a disk away, and --migrate-from moves one there: use one of them")
				}
				ask.Operation = client.ToggleIntoDiskless
			}
			entries, err := s.ToggleDisk(ctx, args[1], args[0], ask)
			return s.begunWork(&wait, entries, err, func() error {
				if from == "" {
					return nil
				}
				id, err := s.runningJob(ctx, "migrate-disk", args[1]+" to "+args[0])
				if err != nil {
					return err
				}
				return s.followJob(ctx, id)
			})
		}),
	}
	f := cmd.Flags()
	f.BoolVarP(&diskless, "diskless", "d", false, "take the disk away")
	f.StringVarP(&pool, "storage-pool", "s", "", "pool of the new disk")
	f.StringVar(&from, "migrate-from", "", "node whose disk moves")
	f.VarP(&layers, "layer-list", "l", "layers from top to bottom, such as drbd,luks,storage")
	wait.addTo(cmd)
	compatible(cmd, "dflt", "")
	return cmd
}

func (a *app) activate() *cobra.Command {
	return &cobra.Command{
		Use: "activate NODE RESOURCE", Short: "Make a replica usable that was deactivated", Args: exactly("NODE", "RESOURCE"),
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			return s.changed(s.ActivateResource(ctx, args[1], args[0]))
		}),
	}
}

func (a *app) deactivate() *cobra.Command {
	return &cobra.Command{
		Use: "deactivate NODE RESOURCE", Short: "Take the devices of a replica away and keep its data", Args: exactly("NODE", "RESOURCE"),
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			return s.changed(s.DeactivateResource(ctx, args[1], args[0]))
		}),
	}
}
