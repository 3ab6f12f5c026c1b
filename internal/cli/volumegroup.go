// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/client"
	"github.com/holdfast-storage/holdfast/internal/props"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

func (a *app) volumeGroup() *cobra.Command {
	return group("volume-group", []string{"vg"}, "Volume groups: templates for the volumes of a resource group's resources",
		a.volumeGroupCreate(), a.volumeGroupList(), a.volumeGroupDelete(),
		a.drbdOptions(props.VolumeGroup, volumeGroupProperties()), a.setProperty(volumeGroupProperties()), a.listProperties(volumeGroupProperties()))
}

func (a *app) volumeGroupCreate() *cobra.Command {
	var (
		number number
		gross  bool
	)
	cmd := &cobra.Command{
		Use: "create GROUP", Aliases: []string{"c"}, Short: "Add a volume group to a resource group", Args: exactly("GROUP"),
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			create := client.VolumeGroupCreate{VolumeNumber: number.value}
			if gross {
				create.Flags = []string{wire.FlagGrossSize}
			}
			return s.changed(s.CreateVolumeGroup(ctx, args[0], create))
		}),
	}
	cmd.Flags().VarP(&number, "vlmnr", "n", "number of the volume (default the lowest free one)")
	cmd.Flags().BoolVar(&gross, "gross", false, "sizes are gross: they include what layers need for themselves")
	return cmd
}

func (a *app) volumeGroupList() *cobra.Command {
	var shown propColumns
	cmd := &cobra.Command{
		Use: "list GROUP", Aliases: []string{"l"}, Short: "List the volume groups of a resource group", Args: exactly("GROUP"),
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			all, err := s.VolumeGroups(ctx, args[0])
			if err != nil {
				return err
			}
			t := newTable("VolumeNr", "Flags")
			shown.into(t)
			t.add("+UUID")
			for _, v := range all {
				t.row(append(shown.values(v.Props, fmt.Sprint(v.VolumeNumber), joined(v.Flags)), v.UUID)...)
			}
			return s.list(t)
		}),
	}
	pastable(cmd)
	shown.addTo(cmd.Flags(), "s")
	return cmd
}

func (a *app) volumeGroupDelete() *cobra.Command {
	return &cobra.Command{
		Use: "delete GROUP VOLUME_NR", Aliases: []string{"d"}, Short: "Delete a volume group", Args: exactly("GROUP", "VOLUME_NR"),
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			number, err := volumeNumber(args[1])
			if err != nil {
				return err
			}
			return s.changed(s.DeleteVolumeGroup(ctx, args[0], number))
		}),
	}
}
