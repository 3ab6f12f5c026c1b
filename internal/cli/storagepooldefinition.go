// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/client"
)

func (a *app) storagePoolDefinition() *cobra.Command {
	return group("storage-pool-definition", []string{"spd"}, "What storage pools of one name have in common",
		a.storagePoolDefinitionCreate(), a.storagePoolDefinitionList(), a.storagePoolDefinitionDelete(),
		a.setProperty(poolDefinitionProperties()), a.listProperties(poolDefinitionProperties()))
}

func (a *app) storagePoolDefinitionCreate() *cobra.Command {
	return &cobra.Command{
		Use: "create NAME", Aliases: []string{"c"}, Short: "Add a storage pool definition before there are pools of its name", Args: exactly("NAME"),
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			return s.changed(s.CreateStoragePoolDefinition(ctx, client.StoragePoolDefinition{StoragePoolName: args[0]}))
		}),
	}
}

func (a *app) storagePoolDefinitionList() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"l"}, Short: "List storage pool definitions", Args: nothing,
		RunE: a.run(func(ctx context.Context, s *session, _ []string) error {
			all, err := s.StoragePoolDefinitions(ctx)
			if err != nil {
				return err
			}
			t := newTable("StoragePool")
			for _, d := range all {
				t.row(d.StoragePoolName)
			}
			return s.list(t)
		}),
	}
	pastable(cmd)
	return cmd
}

func (a *app) storagePoolDefinitionDelete() *cobra.Command {
	return &cobra.Command{
		Use: "delete NAME", Aliases: []string{"d"}, Short: "Delete a storage pool definition that there is no pool of", Args: exactly("NAME"),
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			return s.changed(s.DeleteStoragePoolDefinition(ctx, args[0]))
		}),
	}
}

func poolDefinitionProperties() owner {
	return owner{
		names: []string{"NAME"},
		read: func(ctx context.Context, s *session, names []string) (client.Properties, error) {
			d, err := s.StoragePoolDefinition(ctx, names[0])
			return d.Props, err
		},
		write: func(ctx context.Context, s *session, names []string, modify client.PropsModify) (client.RcList, error) {
			return s.ModifyStoragePoolDefinition(ctx, names[0], client.StoragePoolDefinitionModify{PropsModify: modify})
		},
	}
}

func (a *app) spaceReporting() *cobra.Command {
	cmd := &cobra.Command{
		Use: "query", Aliases: []string{"qry"}, Short: "Show the space of all storage pools", Args: nothing,
		RunE: a.run(func(ctx context.Context, s *session, _ []string) error {
			report, err := s.SpaceReport(ctx)
			if err != nil {
				return err
			}
			if s.form != text {
				return s.listJSON(s.last)
			}
			return s.write(printableText(report))
		}),
	}
	pastable(cmd)
	return group("space-reporting", []string{"spr"}, "Reports about space", cmd)
}
