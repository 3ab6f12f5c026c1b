// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// usageTemplate is the help of all commands. Global options are told once, by the help of the root.
const usageTemplate = `Usage:{{if .Runnable}}
  {{.UseLine}}{{end}}{{if .HasAvailableSubCommands}}
  {{.CommandPath}} COMMAND{{end}}{{if gt (len .Aliases) 0}}

Short forms:
  {{.NameAndAliases}}{{end}}{{if .HasExample}}

Examples:
{{.Example}}{{end}}{{if .HasAvailableSubCommands}}{{$cmds := .Commands}}{{range $group := .Groups}}

{{.Title}}{{range $cmds}}{{if (and (eq .GroupID $group.ID) .IsAvailableCommand)}}
  {{rpad .NameAndAliases 31}} {{.Short}}{{end}}{{end}}{{end}}{{if not .AllChildCommandsHaveGroup}}

Commands:{{range $cmds}}{{if (and (eq .GroupID "") .IsAvailableCommand)}}
  {{rpad .NameAndAliases 31}} {{.Short}}{{end}}{{end}}{{end}}{{end}}{{if .HasAvailableLocalFlags}}

Options:
{{.LocalFlags.FlagUsagesWrapped 120 | trimTrailingWhitespaces}}{{end}}{{if .HasParent}}

'{{.Root.Name}} --help' has the options that all commands have.{{else}}

'{{.Name}} COMMAND --help' says more about a command, '{{.Name}} help topics' what to do on the first day.{{end}}
`

// kinds are the groups in which the help of the root shows commands, and what is in each.
func kinds() []struct {
	id, title string
	commands  []string
} {
	return []struct {
		id, title string
		commands  []string
	}{
		{"start", "Start and look after it:", []string{"up", "controller", "agent", "status", "doctor", "job", "advise", "error-reports", "orphans", "db", "bench"}},
		{"places", "Hosts and where volumes lie:", []string{"node", "storage-pool", "storage-pool-definition", "physical-storage", "node-connection", "space-reporting", "pool", "hold"}},
		{"volumes", "Volumes:", []string{
			"resource-group", "volume-group", "resource-definition", "volume-definition", "resource", "volume", "snapshot",
			"resource-connection", "explain",
		}},
	}
}

// arrange gives the commands of the root their groups, and sets how help looks.
func arrange(root *cobra.Command) {
	root.SetUsageTemplate(usageTemplate)
	for _, kind := range kinds() {
		for _, c := range root.Commands() {
			if !slices.Contains(kind.commands, c.Name()) {
				continue
			}
			if !root.ContainsGroup(kind.id) {
				root.AddGroup(&cobra.Group{ID: kind.id, Title: kind.title})
			}
			c.GroupID = kind.id
		}
	}
	root.SetHelpCommand(helpCommand())
}

// helpCommand is help COMMAND and help TOPIC.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND|TOPIC]", Short: "Show the help of a command or of a topic; 'help topics' lists these",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
			at, _, err := cmd.Root().Find(args)
			if err != nil {
				at = cmd.Root()
			}
			names := namesIn(at.Commands(), (*cobra.Command).Name)
			return starting(names, toComplete), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			at := cmd.Root()
			for _, word := range args {
				next := child(at, word)
				if next == nil {
					if meant := nearest(word, commandNames(at)); meant != "" {
						return usagef("there is no help about %q; did you mean %s?", strings.Join(args, " "), meant)
					}
					return usagef("there is no help about %q; see '%s --help' and '%s help topics'", strings.Join(args, " "), at.CommandPath(), cmd.Root().Name())
				}
				at = next
			}
			return showHelp(at)
		},
	}
}

// commandNames returns the names of the commands of a group, with their short forms.
func commandNames(group *cobra.Command) []string {
	var names []string
	for _, c := range group.Commands() {
		if !c.Hidden {
			names = append(append(names, c.Name()), c.Aliases...)
		}
	}
	return names
}

// showHelp prints the help of a command, or the page of a topic.
func showHelp(c *cobra.Command) error {
	if c.IsAdditionalHelpTopicCommand() {
		_, err := fmt.Fprintln(c.OutOrStdout(), c.Long)
		return err
	}
	c.InitDefaultHelpFlag()
	return c.Help()
}
