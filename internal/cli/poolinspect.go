// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/client"
)

// pools is the commands for pools on mounts, through the controller.
func (a *app) pools() *cobra.Command {
	return group("pool", nil, "Storage pools that lie on mounts", a.poolCreate(), a.poolList(), a.poolInspect(), a.poolHold(), a.poolRelease())
}

func (a *app) poolCreate() *cobra.Command {
	var kind, options, residency, folder, shared string
	var thick bool
	cmd := &cobra.Command{
		Use: "create NODE STORAGE_POOL SOURCE", Aliases: []string{"c"}, Args: exactly("NODE", "STORAGE_POOL", "SOURCE"),
		Short: "Create a pool of files in a folder of what a node mounts",
		Long: "Create a pool of files in a folder of what a node mounts. SOURCE is SERVER:/EXPORT, a block device, a folder, or, with\n" +
			"--type existing, where an operator mounts something himself. The node mounts it, looks whether it works, and keeps it\n" +
			"mounted while it is used, or always.",
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			create := client.StoragePoolCreate{StoragePoolName: args[1], ProviderKind: client.FileThin, SharedSpace: shared, Props: client.Properties{}}
			if thick {
				create.ProviderKind = client.File
			}
			for key, value := range map[string]string{
				"Mount/Type": kind, "Mount/Source": args[2], "Mount/Options": options, "Mount/Residency": residency, "StorPoolName": folder,
			} {
				if value != "" {
					create.Props["StorDriver/"+key] = value
				}
			}
			return s.changed(s.CreateStoragePool(ctx, args[0], create))
		}),
	}
	f := cmd.Flags()
	f.StringVar(&kind, "type", "", "nfs, block, bind or existing (default nfs)")
	f.StringVar(&options, "options", "", "options for mounting, as in fstab")
	f.StringVar(&residency, "residency", "", "always or while-used (default while-used)")
	f.StringVar(&folder, "folder", "", "folder in the source, / for its root (default: one of the pool's own)")
	f.StringVar(&shared, "shared-space", "", "name of the space that the pools of several nodes on one source have together")
	f.BoolVar(&thick, "thick", false, "reserve the room of volumes (FILE instead of FILE_THIN)")
	return cmd
}

func (a *app) poolList() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list NODE", Aliases: []string{"l", "ls"}, Short: "List the pools of a node that lie on mounts, as it said last", Args: exactly("NODE"),
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			all, err := s.HeldPools(ctx, args[0])
			if err != nil {
				return err
			}
			t := newTable("Node", "StoragePool", "State", "Source", ">Holds", "LastError", "NextTry")
			for _, p := range all {
				t.row(p.NodeName, p.StoragePoolName, heldState(p.State), p.Source, fmt.Sprint(len(p.Holds)), p.LastError, a.when(p.NextTryTimestamp))
			}
			return s.list(t)
		}),
	}
	pastable(cmd)
	return cmd
}

func (a *app) poolInspect() *cobra.Command {
	cmd := &cobra.Command{
		Use: "inspect NODE STORAGE_POOL", Aliases: []string{"i"}, Args: exactly("NODE", "STORAGE_POOL"),
		Short: "Show what is mounted for a pool, who holds it, what blocks it, and what failed last",
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			p, err := s.InspectPool(ctx, args[0], args[1])
			if err != nil {
				return err
			}
			if s.form != text {
				return s.writeJSON(s.last)
			}
			if err := s.writeTable(a.inspection(p)); err != nil || len(p.Holds) == 0 {
				return err
			}
			t := newTable("Hold", "Kind", "Holder", "Since", "Note")
			for _, h := range p.Holds {
				t.row(h.ID, h.Kind, h.Holder, a.when(h.CreateTimestamp), holdNote(h.Waiting, h.Derived, h.ReadOnly, h.Broken, h.OrphanTimestamp != nil))
			}
			return s.writeTable(t)
		}),
	}
	pastable(cmd)
	return cmd
}

func (a *app) inspection(p client.HeldPool) *table {
	t := newTable("Key", "Value")
	t.row("StoragePool", p.StoragePoolName)
	t.row("Node", p.NodeName)
	t.row("State", heldState(p.State))
	for _, row := range [][2]string{
		{"Source", p.Source},
		{"Mounted at", p.Target},
		{"Options", p.Options},
		{"Identity", p.Identity},
		{"Blockers", strings.Join(p.Blockers, "\n")},
		{"Last error", p.LastError},
		{"Next try", a.when(p.NextTryTimestamp)},
	} {
		if row[1] != "" {
			t.row(row[0], row[1])
		}
	}
	return t
}

func (a *app) poolHold() *cobra.Command {
	var holder string
	var readOnly bool
	cmd := &cobra.Command{
		Use: "hold NODE STORAGE_POOL ID", Args: exactly("NODE", "STORAGE_POOL", "ID"),
		Short: "Have a node hold a pool until the hold is released",
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			return s.changed(s.AcquireHold(ctx, args[0], args[1], client.HoldCreate{ID: args[2], Holder: holder, ReadOnly: &readOnly}))
		}),
	}
	cmd.Flags().StringVar(&holder, "as", "", "who holds it, for others to read")
	cmd.Flags().BoolVar(&readOnly, "read-only", false, "nothing is going to be written")
	return cmd
}

func (a *app) poolRelease() *cobra.Command {
	return &cobra.Command{
		Use: "release NODE STORAGE_POOL ID", Short: "Release a hold, and tell what became of the mount", Args: exactly("NODE", "STORAGE_POOL", "ID"),
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			return s.changed(s.ReleaseHold(ctx, args[0], args[1], args[2]))
		}),
	}
}
