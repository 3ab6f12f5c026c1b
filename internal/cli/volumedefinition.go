// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/client"
	"github.com/holdfast-storage/holdfast/internal/props"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

func (a *app) volumeDefinition() *cobra.Command {
	return group("volume-definition", []string{"vd"}, "Volume definitions",
		a.volumeDefinitionCreate(), a.volumeDefinitionList(), a.volumeDefinitionSetSize(), a.volumeDefinitionDelete(),
		a.volumePassphrase(), a.drbdOptions(props.VolumeDefinition, volumeDefinitionProperties()),
		a.setProperty(volumeDefinitionProperties()), a.listProperties(volumeDefinitionProperties()))
}

const sizeHelp = "A size is a whole number with a unit (" + units + ") or without one for GiB."

// propStoragePool is the property that names the storage pool of a volume.
const propStoragePool = "StorPoolName"

func (a *app) volumeDefinitionCreate() *cobra.Command {
	var (
		pool           string
		number, device number
		gross, encrypt bool
		passphrase     optionalText
	)
	cmd := &cobra.Command{
		Use: "create RESOURCE SIZE", Aliases: []string{"c"}, Short: "Add a volume to a resource definition", Long: sizeHelp,
		Args: exactly("RESOURCE", "SIZE"),
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			size, err := parseSize(args[1])
			if err != nil {
				return err
			}
			definition := client.NewVolumeDefinition{Size: &size, VolumeNumber: number.value}
			if encrypt {
				definition.Flags = append(definition.Flags, wire.FlagEncrypted)
			}
			if gross {
				definition.Flags = append(definition.Flags, wire.FlagGrossSize)
			}
			if pool != "" {
				definition.Props = client.Properties{propStoragePool: pool}
			}
			create := client.VolumeDefinitionCreate{VolumeDefinition: definition, DrbdMinorNumber: device.value}
			if passphrase.value != nil {
				if create.Passphrase, err = a.secret(ctx, *passphrase.value, "Passphrase of the volume", true); err != nil {
					return err
				}
			}
			return s.changed(s.CreateVolumeDefinition(ctx, args[0], create))
		}),
	}
	f := cmd.Flags()
	f.StringVarP(&pool, "storage-pool", "s", "", "storage pool to use")
	f.VarP(&number, "vlmnr", "n", "number of the volume (default the lowest free one)")
	f.VarP(&device, "minor", "m", "minor number of the DRBD device")
	f.BoolVar(&gross, "gross", false, "the size is gross: it includes what layers need for themselves")
	f.Var(&passphrase, "passphrase", "passphrase of an encrypted volume; without a value it is asked for")
	f.BoolVar(&encrypt, "encrypt", false, "encrypt the volume; better: a layer list with luks")
	return cmd
}

func (a *app) volumeDefinitionList() *cobra.Command {
	var names list
	var external bool
	var shown propColumns
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"l"}, Short: "List volume definitions", Args: nothing,
		RunE: a.run(func(ctx context.Context, s *session, _ []string) error {
			all, err := s.ResourceDefinitions(ctx, client.ResourceDefinitionFilter{ResourceDefinitions: names, WithVolumeDefinitions: true})
			if err != nil {
				return err
			}
			t := newTable("ResourceName", "VolumeNr", "VolumeMinor", ">Size", "Gross", "State").named("ResourceName", "VolumeNr")
			if external {
				t.add("ExternalName")
			}
			shown.into(t)
			t.add("+UUID")
			for _, d := range all {
				for _, v := range d.VolumeDefinitions {
					row := []any{d.Name, fmt.Sprint(v.VolumeNumber), definitionMinor(v), v.Size, grossMark(v), volumeDefinitionState(v)}
					if external {
						row = append(row, d.ExternalName)
					}
					t.row(append(shown.values(v.Props, row...), v.UUID)...)
				}
			}
			return s.list(t)
		}),
	}
	pastable(cmd)
	names.addTo(cmd.Flags(), "resource-definitions", "r", "only volumes of these definitions")
	cmd.Flags().BoolVarP(&external, "external-name", "e", false, "show external names")
	shown.addTo(cmd.Flags(), "s")
	return cmd
}

func definitionMinor(v client.VolumeDefinition) string {
	for _, l := range v.LayerData {
		if l.Type == wire.LayerDRBD && l.Data != nil {
			return fmt.Sprint(l.Data.MinorNumber)
		}
	}
	return ""
}

func grossMark(v client.VolumeDefinition) string {
	if slices.Contains(v.Flags, wire.FlagGrossSize) {
		return "+"
	}
	return ""
}

func volumeDefinitionState(v client.VolumeDefinition) cell {
	switch {
	case slices.Contains(v.Flags, wire.FlagDelete):
		return cell{"DELETING", red}
	case slices.Contains(v.Flags, wire.FlagResize):
		return cell{"resizing", yellow}
	default:
		return cell{"ok", green}
	}
}

func (a *app) volumeDefinitionSetSize() *cobra.Command {
	var gross bool
	cmd := &cobra.Command{
		Use: "set-size RESOURCE VOLUME_NR SIZE", Aliases: []string{"size"}, Short: "Change the size of a volume",
		Long: sizeHelp + "\nFile systems on the volume keep their size.", Args: exactly("RESOURCE", "VOLUME_NR", "SIZE"),
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			number, err := volumeNumber(args[1])
			if err != nil {
				return err
			}
			size, err := parseSize(args[2])
			if err != nil {
				return err
			}
			modify := client.VolumeDefinitionModify{Size: &size}
			if gross {
				modify.Flags = []string{wire.FlagGrossSize}
			}
			return s.changed(during(ctx, s, "holdfast volume list -r "+args[0], resizing(args[0], int32(number), size),
				func(ctx context.Context) (client.RcList, error) {
					return s.ModifyVolumeDefinition(ctx, args[0], number, modify)
				}))
		}),
	}
	cmd.Flags().BoolVar(&gross, "gross", false, "the size is gross: it includes what layers need for themselves")
	return cmd
}

func (a *app) volumeDefinitionDelete() *cobra.Command {
	cmd := &cobra.Command{
		Use: "delete RESOURCE VOLUME_NR", Aliases: []string{"d"}, Short: "Delete a volume with its data on all nodes",
		Args: exactly("RESOURCE", "VOLUME_NR"),
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			number, err := volumeNumber(args[1])
			if err != nil {
				return err
			}
			if ok, err := s.confirm(ctx, func(ctx context.Context) ([]string, error) { return s.volumeLosses(ctx, args[0], int32(number)) }); !ok {
				return err
			}
			return s.changed(s.DeleteVolumeDefinition(ctx, args[0], number))
		}),
	}
	compatible(cmd, "async", "")
	return cmd
}
