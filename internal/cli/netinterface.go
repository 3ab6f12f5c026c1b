// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/client"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

func (a *app) netInterface() *cobra.Command {
	return group("interface", []string{"i"}, "Network interfaces of a node",
		a.netInterfaceCreate(), a.netInterfaceList(), a.netInterfaceModify(), a.netInterfaceDelete())
}

// interfaceFlags are the flags of creating and modifying.
type interfaceFlags struct {
	port       port
	encryption choice
	active     bool
}

func (i *interfaceFlags) addTo(cmd *cobra.Command) {
	i.encryption.among = []string{wire.EncryptionPlain, wire.EncryptionSSL}
	f := cmd.Flags()
	f.VarP(&i.port, "port", "p", "port of the node on this interface")
	f.Var(&i.encryption, "communication-type", "encryption of the connection")
	f.BoolVar(&i.active, "active", false, "connect over this interface")
}

func (i *interfaceFlags) isActive() *bool {
	if !i.active {
		return nil
	}
	return new(true)
}

func (a *app) netInterfaceCreate() *cobra.Command {
	var flags interfaceFlags
	cmd := &cobra.Command{
		Use: "create NODE NAME ADDRESS", Aliases: []string{"c"}, Short: "Add a network interface to a node",
		Args: exactly("NODE", "NAME", "ADDRESS"),
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			if flags.port.value != nil && flags.encryption.value == "" {
				flags.encryption.value = wire.EncryptionPlain
			}
			return s.changed(s.CreateNetInterface(ctx, args[0], client.NetInterfaceCreate{
				Name: args[1], Address: args[2], SatellitePort: flags.port.value,
				SatelliteEncryptionType: flags.encryption.value, IsActive: flags.isActive(),
			}))
		}),
	}
	flags.addTo(cmd)
	return cmd
}

func (a *app) netInterfaceList() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list NODE", Aliases: []string{"l"}, Short: "List the network interfaces of a node", Args: exactly("NODE"),
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			if s.form == machine { // The linstor client prints the node.
				if _, err := s.Nodes(ctx, client.NodeFilter{Nodes: args}); err != nil {
					return err
				}
				return s.listJSON(s.last)
			}
			all, err := s.NetInterfaces(ctx, args[0])
			if err != nil {
				return err
			}
			t := newTable(args[0], "NetInterface", "IP", "Port", "EncryptionType")
			for _, i := range all {
				mark, at := "+", ""
				if i.IsActive {
					mark = "+ StltCon"
				}
				if i.SatellitePort != nil {
					at = fmt.Sprint(*i.SatellitePort)
				}
				t.row(mark, i.Name, i.Address, at, i.SatelliteEncryptionType)
			}
			return s.list(t)
		}),
	}
	pastable(cmd)
	return cmd
}

func (a *app) netInterfaceModify() *cobra.Command {
	var (
		flags   interfaceFlags
		address string
	)
	cmd := &cobra.Command{
		Use: "modify NODE NAME", Aliases: []string{"m"}, Short: "Change a network interface of a node", Args: exactly("NODE", "NAME"),
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			return s.changed(s.ModifyNetInterface(ctx, args[0], args[1], client.NetInterfaceModify{
				Name: args[1], Address: address, SatellitePort: flags.port.value,
				SatelliteEncryptionType: flags.encryption.value, IsActive: flags.isActive(),
			}))
		}),
	}
	flags.addTo(cmd)
	cmd.Flags().StringVar(&address, "ip", "", "new address")
	return cmd
}

func (a *app) netInterfaceDelete() *cobra.Command {
	return &cobra.Command{
		Use: "delete NODE NAME...", Aliases: []string{"d"}, Short: "Take network interfaces away from a node",
		Args: between(2, -1, "NODE", "NAME"),
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			for _, name := range args[1:] {
				if err := s.changed(s.DeleteNetInterface(ctx, args[0], name)); err != nil {
					return err
				}
			}
			return nil
		}),
	}
}
