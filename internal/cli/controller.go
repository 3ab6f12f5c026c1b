// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/client"
	"github.com/holdfast-storage/holdfast/internal/props"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

func (a *app) controller() *cobra.Command {
	return group("controller", []string{"c"}, "The controller",
		a.controllerVersion(), a.controllerWhich(), a.maxVolumeSizeFor(), a.backupDatabase(), a.drbdOptions(props.Controller, controllerProperties()),
		a.setLogLevel(), a.setProperty(controllerProperties()), a.listProperties(controllerProperties()))
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
			said := "controller " + printable(v.Version) + "; GIT-hash: " + printable(v.GitHash)
			if a.linstor {
				return s.write("linstor " + said + "\n")
			}
			return s.write(said + "; REST API " + printable(v.RestAPIVersion) + "\n")
		}),
	}
}

// controllerWhich shows the controller that answers, of those that may be asked.
func (a *app) controllerWhich() *cobra.Command {
	return &cobra.Command{
		Use: "which", Short: "Show which controller answers", Args: nothing,
		RunE: a.run(func(ctx context.Context, s *session, _ []string) error {
			if _, err := s.ControllerVersion(ctx); err != nil {
				return err
			}
			at := strings.TrimSuffix(s.url, "/v1/controller/version")
			if s.form == text {
				return s.write(printable(at) + "\n")
			}
			body, err := wire.Encode(map[string]string{"controller_uri": at})
			if err != nil {
				return err
			}
			return s.writeJSON(body)
		}),
	}
}

// logLevels are the levels of logging, the least of it first.
func logLevels() []string {
	return []string{string(wire.LogError), string(wire.LogWarn), string(wire.LogInfo), string(wire.LogDebug), string(wire.LogTrace)}
}

func (a *app) setLogLevel() *cobra.Command {
	level := choice{among: logLevels()}
	var library, everywhere bool
	cmd := &cobra.Command{
		Use: "set-log-level LEVEL", Aliases: []string{"setloglevel"}, Short: "Change how much the controller logs, until it is started again",
		Args: exactly("LEVEL"),
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			if err := level.Set(args[0]); err != nil {
				return err
			}
			var log client.ControllerConfigLog
			to := map[[2]bool]*client.LogLevel{
				{false, false}: &log.LevelLinstor, {false, true}: &log.LevelLinstorGlobal, {true, false}: &log.Level, {true, true}: &log.LevelGlobal,
			}
			*to[[2]bool{library, everywhere}] = client.LogLevel(level.value)
			return s.changed(s.ModifyControllerConfig(ctx, client.ControllerConfig{Log: &log}))
		}),
	}
	cmd.Flags().BoolVar(&library, "library", false, "of external libraries")
	cmd.Flags().BoolVar(&everywhere, "global", false, "of all agents, too")
	return cmd
}

func (a *app) nodeSetLogLevel() *cobra.Command {
	level := choice{among: logLevels()}
	var library bool
	cmd := &cobra.Command{
		Use: "set-log-level NODE LEVEL", Aliases: []string{"setloglevel"}, Short: "Change how much the agent of a node logs, until it is started again",
		Args: exactly("NODE", "LEVEL"),
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			if err := level.Set(args[1]); err != nil {
				return err
			}
			log := client.ControllerConfigLog{LevelLinstor: client.LogLevel(level.value)}
			if library {
				log = client.ControllerConfigLog{Level: client.LogLevel(level.value)}
			}
			return s.changed(s.ModifyNodeConfig(ctx, args[0], client.ControllerConfig{Log: &log}))
		}),
	}
	cmd.Flags().BoolVar(&library, "library", false, "of external libraries")
	return cmd
}

func (a *app) backupDatabase() *cobra.Command {
	return &cobra.Command{
		Use: "backupdb NAME", Aliases: []string{"bakdb"}, Short: "Make a copy of the database on the controller's host", Args: exactly("NAME"),
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			return s.changed(s.BackupDatabase(ctx, args[0]))
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
