// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/client"
)

func (a *app) controller() *cobra.Command {
	return group("controller", []string{"c"}, "The controller",
		a.controllerVersion(), a.setProperty(controllerProperties()), a.listProperties(controllerProperties()))
}

func (a *app) controllerVersion() *cobra.Command {
	return &cobra.Command{
		Use: "version", Aliases: []string{"v"}, Short: "Show the version of the controller", Args: nothing,
		RunE: a.run(func(ctx context.Context, s *session, _ []string) error {
			v, err := s.ControllerVersion(ctx)
			if err != nil {
				return err
			}
			if s.form != text {
				return s.writeJSON(s.last)
			}
			return s.write("controller " + printable(v.Version) + "; GIT-hash: " + printable(v.GitHash) + "; REST API " + printable(v.RestAPIVersion) + "\n")
		}),
	}
}

func (a *app) keyValueStore() *cobra.Command {
	return group("key-value-store", []string{"kv"}, "Key-value stores: properties that clients keep for themselves",
		a.keyValueList(), a.keyValueShow(), a.keyValueModify())
}

func (a *app) keyValueList() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"l"}, Short: "List key-value stores", Args: nothing,
		RunE: a.run(func(ctx context.Context, s *session, _ []string) error {
			all, err := s.KeyValueStores(ctx)
			if err != nil {
				return err
			}
			t := newTable("Name")
			for _, kv := range all {
				t.row(kv.Name)
			}
			return s.list(t)
		}),
	}
	pastable(cmd)
	return cmd
}

func (a *app) keyValueShow() *cobra.Command {
	cmd := &cobra.Command{
		Use: "show NAME", Aliases: []string{"s"}, Short: "Show a key-value store", Args: exactly("NAME"),
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			kv, err := s.KeyValueStore(ctx, args[0])
			if err != nil {
				return err
			}
			return s.properties(kv.Props)
		}),
	}
	pastable(cmd)
	return cmd
}

func (a *app) keyValueModify() *cobra.Command {
	return &cobra.Command{
		Use: "modify NAME KEY [VALUE]", Aliases: []string{"m"}, Short: "Set a key of a key-value store, or delete it",
		Args: between(2, 3, "NAME", "KEY"),
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			return s.changed(s.ModifyKeyValueStore(ctx, args[0], client.KeyValueStoreModify{PropsModify: setOrDelete(args[1:], false)}))
		}),
	}
}
