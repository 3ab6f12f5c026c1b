// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/client"
	"github.com/holdfast-storage/holdfast/internal/props"
)

func (a *app) nodeConnection() *cobra.Command {
	return group("node-connection", []string{"nc"}, "Connections of nodes",
		a.nodeConnectionList(), a.setProperty(nodeConnectionProperties()), a.drbdOptions(props.NodeConnection, nodeConnectionProperties()), a.listProperties(nodeConnectionProperties()),
		a.connectionPath(nodeConnectionProperties()))
}

func (a *app) resourceConnection() *cobra.Command {
	return group("resource-connection", []string{"rc"}, "Connections of the replicas of a resource",
		a.resourceConnectionList(), a.setProperty(resourceConnectionProperties()), a.drbdOptions(props.ResourceConnection, resourceConnectionProperties()), a.listProperties(resourceConnectionProperties()),
		a.connectionPath(resourceConnectionProperties()))
}

func (a *app) nodeConnectionList() *cobra.Command {
	var shown propColumns
	cmd := &cobra.Command{
		Use: "list [NODE_A [NODE_B]]", Aliases: []string{"l"}, Short: "List the connections of nodes that something is set for", Args: between(0, 2),
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			names := append(slices.Clone(args), "", "")
			all, err := s.NodeConnections(ctx, names[0], names[1])
			if err != nil {
				return err
			}
			t := newTable("Node A", "Node B", "Properties").named("Node A", "Node B")
			shown.into(t)
			for _, c := range all {
				t.row(shown.values(c.Props, c.NodeA, c.NodeB, shortProps(c.Props))...)
			}
			return s.list(t)
		}),
	}
	pastable(cmd)
	shown.addTo(cmd.Flags(), "s")
	return cmd
}

func (a *app) resourceConnectionList() *cobra.Command {
	var shown propColumns
	cmd := &cobra.Command{
		Use: "list RESOURCE", Aliases: []string{"l"}, Short: "List the connections of the replicas of a resource", Args: exactly("RESOURCE"),
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			all, err := s.ResourceConnections(ctx, args[0])
			if err != nil {
				return err
			}
			t := newTable("Source", "Target", "Properties", "Port").named("Source", "Target")
			shown.into(t)
			for _, c := range all {
				t.row(shown.values(c.Props, c.NodeA, c.NodeB, shortProps(c.Props), portOf(c.Port))...)
			}
			return s.list(t)
		}),
	}
	pastable(cmd)
	shown.addTo(cmd.Flags(), "s")
	return cmd
}

func portOf(port *int32) string {
	if port == nil || *port == 0 {
		return ""
	}
	return fmt.Sprint(*port)
}

// shortProps returns properties by the last parts of their keys, a line for each.
func shortProps(all client.Properties) string {
	var lines []string
	for _, key := range slices.Sorted(maps.Keys(all)) {
		lines = append(lines, path.Base(key)+"="+all[key])
	}
	return strings.Join(lines, "\n")
}

func nodeConnectionProperties() owner {
	return owner{
		names: []string{"NODE_A", "NODE_B"},
		read: func(ctx context.Context, s *session, names []string) (client.Properties, error) {
			all, err := s.NodeConnections(ctx, names[0], names[1])
			if err != nil || len(all) == 0 {
				return nil, err
			}
			return all[0].Props, nil
		},
		write: func(ctx context.Context, s *session, names []string, modify client.PropsModify) (client.RcList, error) {
			return s.ModifyNodeConnection(ctx, names[0], names[1], client.NodeConnectionModify{PropsModify: modify})
		},
	}
}

func resourceConnectionProperties() owner {
	return owner{
		names: []string{"NODE_A", "NODE_B", "RESOURCE"},
		read: func(ctx context.Context, s *session, names []string) (client.Properties, error) {
			c, err := s.ResourceConnection(ctx, names[2], names[0], names[1])
			return c.Props, err
		},
		write: func(ctx context.Context, s *session, names []string, modify client.PropsModify) (client.RcList, error) {
			return s.ModifyResourceConnection(ctx, names[2], names[0], names[1], client.ResourceConnectionModify{PropsModify: modify})
		},
	}
}

// pathPrefix is before the name of a path in the properties of connections, which end with the name of a node.
const pathPrefix = "Paths/"

// connectionPath returns the commands for the paths of a kind of connection: each names a network interface of either node.
func (a *app) connectionPath(o owner) *cobra.Command {
	names := len(o.names)
	change := func(use, alias, short string, more []string, modify func(args []string) client.PropsModify) *cobra.Command {
		all := append(slices.Clone(o.names), more...)
		return &cobra.Command{
			Use: use + " " + strings.Join(all, " "), Aliases: []string{alias}, Short: short, Args: exactly(all...),
			RunE: a.run(func(ctx context.Context, s *session, args []string) error {
				return s.changed(o.write(ctx, s, args[:names], modify(args)))
			}),
		}
	}
	create := change("create", "c", "Add a path", []string{"PATH", "INTERFACE_A", "INTERFACE_B"}, func(args []string) client.PropsModify {
		prefix := pathPrefix + args[names] + "/"
		return client.PropsModify{OverrideProps: client.Properties{prefix + args[0]: args[names+1], prefix + args[1]: args[names+2]}}
	})
	remove := change("delete", "d", "Take a path away", []string{"PATH"}, func(args []string) client.PropsModify {
		return client.PropsModify{DeleteNamespaces: []string{pathPrefix + args[names]}}
	})
	show := &cobra.Command{
		Use: "list " + strings.Join(o.names, " "), Aliases: []string{"l"}, Short: "List paths", Args: exactly(o.names...),
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			all, err := o.read(ctx, s, args)
			if err != nil {
				return err
			}
			maps.DeleteFunc(all, func(key, _ string) bool { return !strings.HasPrefix(key, pathPrefix) })
			return s.properties(all)
		}),
	}
	pastable(show)
	return group("path", []string{"p"}, "Paths of a connection", create, show, remove)
}
