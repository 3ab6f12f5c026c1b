// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strings"

	"github.com/spf13/cobra"
)

// listCommands prints all commands, as the linstor client does.
func (a *app) listCommands() *cobra.Command {
	var tree bool
	cmd := &cobra.Command{
		Use: "list-commands", Aliases: []string{"commands", "list"}, Short: "List all commands with their short forms", Args: nothing,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var out strings.Builder
			writeCommands(&out, cmd.Root(), "", tree)
			_, err := cmd.OutOrStdout().Write([]byte(out.String()))
			return err
		},
	}
	cmd.Flags().BoolVarP(&tree, "tree", "t", false, "indent commands below their groups")
	return cmd
}

// writeCommands writes the commands below a group, a line for each.
func writeCommands(out *strings.Builder, group *cobra.Command, before string, tree bool) {
	for _, c := range group.Commands() {
		if !c.IsAvailableCommand() {
			continue
		}
		name := before + c.Name()
		out.WriteString(name)
		if len(c.Aliases) > 0 {
			out.WriteString(" (" + strings.Join(c.Aliases, ", ") + ")")
		}
		out.WriteByte('\n')
		next := name + " "
		if tree {
			next = strings.Repeat(" ", len(before)-len(strings.TrimLeft(before, " "))+4)
		}
		writeCommands(out, c, next, tree)
	}
}
