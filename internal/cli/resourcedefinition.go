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

func (a *app) resourceDefinition() *cobra.Command {
	return group("resource-definition", []string{"rd"}, "Resource definitions",
		a.resourceDefinitionCreate(), a.resourceDefinitionList(), a.resourceDefinitionModify(), a.resourceDefinitionDelete(), a.autoPlace(),
		a.waitSync(), a.cloneDefinition(),
		a.setProperty(definitionProperties()), a.drbdOptions(props.Definition, definitionProperties()), a.listProperties(definitionProperties()))
}

func (a *app) resourceDefinitionCreate() *cobra.Command {
	var (
		at           port
		externalName string
		layers       commas
		peerSlots    number
		groupName    string
	)
	cmd := &cobra.Command{
		Use: "create [NAME]", Aliases: []string{"c"}, Short: "Add a resource definition", Args: between(0, 1, "NAME"),
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			definition := client.NewResourceDefinition{ExternalName: externalName, ResourceGroupName: groupName}
			switch {
			case externalName != "": // The controller derives the name.
			case len(args) == 0:
				return usagef("too few arguments: NAME is missing")
			default:
				definition.Name = args[0]
			}
			for _, l := range upper[client.LayerType](layers) {
				definition.LayerData = append(definition.LayerData, client.LayerRequest{Type: l})
			}
			return s.changed(s.CreateResourceDefinition(ctx, client.ResourceDefinitionCreate{
				ResourceDefinition: definition, DrbdPort: at.value, DrbdPeerSlots: peerSlots.value,
			}))
		}),
	}
	f := cmd.Flags()
	f.VarP(&at, "port", "p", "port of DRBD")
	f.StringVarP(&externalName, "external-name", "e", "", "name of any form; the controller derives the resource's name from it")
	f.VarP(&layers, "layer-list", "l", "layers from top to bottom, such as drbd,luks,storage")
	f.Var(&peerSlots, "peer-slots", "DRBD peer slots")
	f.StringVar(&groupName, "resource-group", "", "resource group that it belongs to")
	return cmd
}

func (a *app) resourceDefinitionList() *cobra.Command {
	var (
		names, filter list
		shown         propColumns
		external      bool
		ports         bool
	)
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"l"}, Short: "List resource definitions", Args: nothing,
		RunE: a.run(func(ctx context.Context, s *session, _ []string) error {
			all, err := s.ResourceDefinitions(ctx, client.ResourceDefinitionFilter{ResourceDefinitions: names, Props: filter})
			if err != nil {
				return err
			}
			t := newTable("ResourceName")
			if external {
				t.add("External")
			}
			if ports {
				t.add("Port")
			}
			t.add("ResourceGroup", "Layers", "State")
			shown.into(t)
			t.add("+UUID")
			for _, d := range all {
				row := []any{d.Name}
				if external {
					row = append(row, d.ExternalName)
				}
				if ports {
					row = append(row, definitionPort(d))
				}
				row = append(row, d.ResourceGroupName, definitionLayers(d), definitionState(d))
				t.row(append(shown.values(d.Props, row...), d.UUID)...)
			}
			return s.list(t)
		}),
	}
	pastable(cmd)
	names.addTo(cmd.Flags(), "resource-definitions", "r", "only these definitions")
	filter.addTo(cmd.Flags(), "props", "", "only definitions with these properties, as KEY or KEY=VALUE")
	cmd.Flags().BoolVarP(&external, "external-name", "e", false, "show external names")
	shown.addTo(cmd.Flags(), "s")
	cmd.Flags().BoolVar(&ports, "show-preferred-drbd-ports", false, "show the ports that DRBD is to use")
	return cmd
}

// definitionPort returns the port that DRBD is to use, or "" when the controller chooses it.
func definitionPort(d client.ResourceDefinition) string {
	for _, l := range d.LayerData {
		if l.Type == wire.LayerDRBD && l.Data != nil && l.Data.Port != 0 {
			return fmt.Sprint(l.Data.Port)
		}
	}
	return ""
}

func definitionLayers(d client.ResourceDefinition) string {
	types := make([]client.LayerType, len(d.LayerData))
	for i, l := range d.LayerData {
		types[i] = l.Type
	}
	return joined(types)
}

func definitionState(d client.ResourceDefinition) cell {
	switch {
	case slices.Contains(d.Flags, wire.FlagDelete):
		return cell{"DELETING", red}
	case slices.Contains(d.Flags, wire.FlagFailed):
		return cell{wire.FlagFailed, red}
	case slices.Contains(d.Flags, wire.FlagCloning):
		return cell{wire.FlagCloning, yellow}
	default:
		return cell{"ok", green}
	}
}

func (a *app) resourceDefinitionModify() *cobra.Command {
	var (
		at        port
		peerSlots number
		groupName string
	)
	cmd := &cobra.Command{
		Use: "modify NAME", Aliases: []string{"m"}, Short: "Change a resource definition, such as the group that it belongs to",
		Args: exactly("NAME"),
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			return s.changed(s.ModifyResourceDefinition(ctx, args[0], client.ResourceDefinitionModify{
				DrbdPort: at.value, DrbdPeerSlots: peerSlots.value, ResourceGroup: groupName,
			}))
		}),
	}
	cmd.Flags().VarP(&at, "port", "p", "port of DRBD")
	cmd.Flags().Var(&peerSlots, "peer-slots", "DRBD peer slots")
	cmd.Flags().StringVar(&groupName, "resource-group", "", "resource group to move it to")
	return cmd
}

func (a *app) resourceDefinitionDelete() *cobra.Command {
	cmd := &cobra.Command{
		Use: "delete NAME...", Aliases: []string{"d"}, Short: "Delete resource definitions with all replicas and their data",
		Args: between(1, -1, "NAME"),
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			if ok, err := s.confirm(ctx, func(ctx context.Context) ([]string, error) { return s.definitionLosses(ctx, args) }); !ok {
				return err
			}
			for _, name := range args {
				if err := s.changed(s.DeleteResourceDefinition(ctx, name)); err != nil {
					return err
				}
			}
			return nil
		}),
	}
	compatible(cmd, "async", "")
	return cmd
}
