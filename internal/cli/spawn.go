// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/client"
)

func (a *app) spawn() *cobra.Command {
	var (
		where           placement
		partial         bool
		definitionsOnly bool
		passphrases     list
		externalName    string
		peerSlots       number
	)
	cmd := &cobra.Command{
		Use: "spawn-resources GROUP NAME [SIZE...]", Aliases: []string{"spawn"}, Short: "Make a resource from a resource group",
		Long: "Make a resource with the settings of a group: its definition, a volume of each size, and its replicas; all of it or nothing.\n" +
			sizeHelp,
		Example: "  holdfast resource-group spawn-resources ssd vm-100-disk-1 10GiB",
		Args:    between(2, -1, "GROUP", "NAME"),
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			sizes, err := parseSizes(args[2:])
			if err != nil {
				return err
			}
			filter, err := where.filter()
			if err != nil {
				return err
			}
			if where.dry {
				return s.planSpawn(ctx, args[0], sizes, filter)
			}
			spawn := client.ResourceGroupSpawn{
				ResourceDefinitionName: args[1], ResourceDefinitionExternalName: externalName, VolumeSizes: sizes, SelectFilter: filter,
				Partial: &partial, DefinitionsOnly: &definitionsOnly, PeerSlots: peerSlots.value,
			}
			if externalName != "" { // The controller derives the name.
				spawn.ResourceDefinitionName = ""
			}
			for _, p := range passphrases {
				spawn.VolumePassphrases = append(spawn.VolumePassphrases, client.Secret(p))
			}
			return s.changed(s.Spawn(ctx, args[0], spawn))
		}),
	}
	f := cmd.Flags()
	f.BoolVarP(&partial, "partial", "p", false, "allow more or fewer sizes than the group has volumes")
	f.BoolVarP(&definitionsOnly, "definition-only", "d", false, "make the definitions and no replicas")
	passphrases.addTo(f, "volume-passphrase", "", "passphrases of the volumes")
	f.StringVar(&externalName, "external-name", "", "name of any form; the controller derives the resource's name from it")
	f.Var(&peerSlots, "peer-slots", "DRBD peer slots of the resource")
	where.addTo(cmd, "")
	dryRun(cmd, &where.dry)
	where.addCount(cmd)
	return cmd
}

func parseSizes(texts []string) ([]client.SizeKiB, error) {
	sizes := make([]client.SizeKiB, len(texts))
	for i, text := range texts {
		size, err := parseSize(text)
		if err != nil {
			return nil, err
		}
		sizes[i] = size
	}
	return sizes, nil
}
