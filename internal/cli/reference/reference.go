// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package reference renders the pages about the commands from the commands themselves: Markdown for docs/cli, and pages for man.
//
// There is a page for each command below the root, with all commands below that, and one page about the whole. The same commands give
// the same pages.
package reference

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Pages are the contents of files by their names.
type Pages map[string]string

// manyOptions is from how many options on only the names of a command's options are given: those of DRBD, which have their own help.
const manyOptions = 40

// topLevel returns the commands below the root that have a page.
func topLevel(root *cobra.Command) []*cobra.Command {
	return slices.DeleteFunc(slices.Clone(root.Commands()), func(c *cobra.Command) bool {
		return !c.IsAvailableCommand() || c.Name() == "help" || c.Name() == "completion"
	})
}

// topics returns the pages of help that are no commands.
func topics(root *cobra.Command) []*cobra.Command {
	return slices.DeleteFunc(slices.Clone(root.Commands()), func(c *cobra.Command) bool {
		return !c.IsAdditionalHelpTopicCommand() || c.Name() == "topics"
	})
}

// leaves returns a command and those below it that can be run, in order.
func leaves(c *cobra.Command) []*cobra.Command {
	var out []*cobra.Command
	if c.Runnable() {
		out = append(out, c)
	}
	for _, below := range c.Commands() {
		if below.IsAvailableCommand() {
			out = append(out, leaves(below)...)
		}
	}
	return out
}

// short returns how a command is called with short forms alone, or "" when it has none.
func short(c *cobra.Command) string {
	var words []string
	differs := false
	for ; c.HasParent(); c = c.Parent() {
		word := c.Name()
		for _, alias := range c.Aliases {
			if len(alias) < len(word) {
				word = alias
			}
		}
		differs = differs || word != c.Name()
		words = append(words, word)
	}
	if !differs {
		return ""
	}
	slices.Reverse(words)
	return strings.Join(words, " ")
}

// usage returns the line of usage without what every command has.
func usage(c *cobra.Command) string { return strings.TrimSuffix(c.UseLine(), " [flags]") }

// option is a flag as pages show it.
type option struct{ form, text string }

// options returns the flags of a command that are its own.
func options(c *cobra.Command) []option {
	var out []option
	c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && f.Name != "help" {
			out = append(out, shown(f))
		}
	})
	return out
}

func shown(f *pflag.Flag) option {
	kind, text := pflag.UnquoteUsage(f)
	form := "--" + f.Name
	if f.Shorthand != "" {
		form = "-" + f.Shorthand + ", " + form
	}
	if kind != "" {
		form += " " + kind
	}
	if d := f.DefValue; d != "" && d != "false" && d != "[]" && d != "0" && !strings.Contains(text, "default") {
		text += " (default " + d + ")"
	}
	return option{form, text}
}

// about returns what a command says of itself.
func about(c *cobra.Command) string {
	text := strings.TrimSpace(cmp.Or(c.Long, c.Short))
	if !strings.HasSuffix(text, ".") && !strings.Contains(text, "\n\n") {
		text += "."
	}
	return text
}

// names returns the names of options.
func names(all []option) string {
	out := make([]string, len(all))
	for i, o := range all {
		out[i] = strings.Fields(o.form)[0]
	}
	return strings.Join(out, ", ")
}

// exitCodes are what the program ends with.
func exitCodes() [][2]string {
	return [][2]string{
		{"0", "done"},
		{"1", "something else went wrong, or the command was interrupted"},
		{"2", "the arguments are wrong; nothing was done"},
		{"3", "what was to be shown does not exist"},
		{"10", "the controller refused, or warned with --warn-as-error"},
		{"20", "no controller answered"},
		{"21", "a controller did not answer in time"},
	}
}

// variables are what the program reads from its environment.
func variables() [][2]string {
	return [][2]string{
		{"LS_CONTROLLERS", "controllers to ask, separated by commas"},
		{"LS_CLIENT_NAME", "value of the global option --name, such as LS_CLIENT_TIMEOUT"},
		{"HOLDFAST_TOKEN", "token to show to the controller"},
		{"HOLDFAST_SOCKET", "where the agent of this host listens, for hold"},
		{"NO_COLOR", "no colours, whatever its value"},
	}
}

func list(rows [][2]string, format string) string {
	var b strings.Builder
	for _, r := range rows {
		fmt.Fprintf(&b, format, r[0], r[1])
	}
	return b.String()
}
