// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-storage/holdfast/client"
	"github.com/holdfast-storage/holdfast/internal/props"
)

// Completion asks the controller for the names that there are. What a word stands for is read from the line of usage of its
// command: NODE, RESOURCE, GROUP, STORAGE_POOL, JOB, KEY and so on; NAME is of the kind that the command's group is about, and
// new names, those of commands that create, cannot be completed.

// completionPatience is how long a shell waits for names.
const completionPatience = time.Second

// isCompletion reports whether a shell asks for completions.
func isCompletion(args []string) bool {
	return len(args) > 0 && (args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd)
}

// addCompletions makes all commands below root able to complete their arguments and flags.
func (a *app) addCompletions(ctx context.Context, root, group *cobra.Command) {
	for _, c := range group.Commands() {
		a.addCompletions(ctx, root, c)
		if !c.Runnable() || isBuiltIn(c) {
			continue
		}
		if c.ValidArgsFunction == nil {
			c.ValidArgsFunction = func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
				a.adopt(root)
				return a.completeArgument(ctx, cmd, args, toComplete), cobra.ShellCompDirectiveNoFileComp
			}
		}
		allFlags(c).VisitAll(func(f *pflag.Flag) {
			// A flag that has a completion already keeps it.
			_ = c.RegisterFlagCompletionFunc(f.Name, func(cmd *cobra.Command, _ []string, toComplete string) ([]string, cobra.ShellCompDirective) {
				a.adopt(root)
				names, files := a.completeFlag(ctx, cmd, f)
				if files {
					return nil, cobra.ShellCompDirectiveDefault
				}
				return starting(names, toComplete), cobra.ShellCompDirectiveNoFileComp
			})
		})
	}
}

// adopt takes over the global flags as they were parsed.
func (a *app) adopt(root *cobra.Command) {
	own := &cobra.Command{}
	a.addGlobalFlags(own)
	own.PersistentFlags().VisitAll(func(f *pflag.Flag) {
		if parsed := root.PersistentFlags().Lookup(f.Name); parsed != nil {
			_ = f.Value.Set(parsed.Value.String()) // The same kind of flag took it.
		}
	})
}

// starting returns the names that begin as a word does, in any case of letters.
func starting(names []string, word string) []string {
	var out []string
	for _, name := range names {
		if len(name) >= len(word) && strings.EqualFold(name[:len(word)], word) {
			out = append(out, name)
		}
	}
	return out
}

// operand is an argument that a line of usage names.
type operand struct {
	name string
	many bool
}

// operands reads those of a line of usage: create [NODE...] RESOURCE.
func operands(use string) []operand {
	var out []operand
	for _, word := range strings.Fields(use)[1:] {
		name, many := strings.CutSuffix(strings.Trim(word, "[]"), "...")
		out = append(out, operand{name, many})
	}
	return out
}

func (a *app) completeArgument(ctx context.Context, cmd *cobra.Command, args []string, toComplete string) []string {
	var out []string
	for i, o := range operands(cmd.Use) {
		if i < len(args) && !o.many {
			continue
		}
		for _, name := range starting(a.namesFor(ctx, cmd, o.name, args), toComplete) {
			if !slices.Contains(args, name) || !o.many {
				out = append(out, name)
			}
		}
		if !o.many {
			break
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// namesFor returns what an operand of a command can be.
func (a *app) namesFor(ctx context.Context, cmd *cobra.Command, operand string, args []string) []string {
	group := cmd.Parent().Name()
	if operand == "NAME" {
		if cmd.Name() == "create" || cmd.Name() == "spawn-resources" {
			return nil
		}
		operand = map[string]string{
			"node": "NODE", "resource-definition": "RESOURCE", "resource-group": "GROUP", "storage-pool": "STORAGE_POOL",
			"storage-pool-definition": "STORAGE_POOL", "key-value-store": "STORE",
		}[group]
	}
	switch operand {
	case "NODE", "NODE_A", "NODE_B":
		return a.ask(ctx, nodeNames)
	case "RESOURCE":
		return a.ask(ctx, definitionNames)
	case "GROUP":
		return a.ask(ctx, groupNames)
	case "STORAGE_POOL":
		return a.ask(ctx, poolNames)
	case "STORE":
		return a.ask(ctx, storeNames)
	case "JOB":
		return a.ask(ctx, jobNames)
	case "VOLUME_NR":
		return []string{"0"}
	case "LEVEL":
		return logLevels()
	case "PROVIDER":
		return []string{"lvm", "lvmthin", "zfs", "zfsthin"}
	case "KEY":
		return propertyKeys(group)
	case "VALUE":
		return propertyValues(args)
	default:
		return nil
	}
}

func storeNames(ctx context.Context, c *client.Client) ([]string, error) {
	all, err := c.KeyValueStores(ctx)
	return namesIn(all, func(s client.KeyValueStore) string { return s.Name }), err
}

func jobNames(ctx context.Context, c *client.Client) ([]string, error) {
	all, err := c.Jobs(ctx, client.JobFilter{})
	return namesIn(all, func(j client.Job) string { return j.ID }), err
}

// ask reads names from the controller, and none when it does not answer at once: a shell has nowhere to show why.
func (a *app) ask(ctx context.Context, read func(context.Context, *client.Client) ([]string, error)) []string {
	c, err := a.connect(nil)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, completionPatience)
	defer cancel()
	names, err := read(ctx, c)
	if err != nil {
		return nil
	}
	return names
}

// propertyKeys returns the keys that can be set for the objects that a group of commands is about.
func propertyKeys(group string) []string {
	scope, known := map[string]props.Scope{
		"controller": props.Controller, "node": props.Node, "storage-pool": props.Pool, "resource-group": props.Group,
		"volume-group": props.VolumeGroup, "resource-definition": props.Definition, "volume-definition": props.VolumeDefinition,
		"resource": props.Resource, "volume": props.Volume, "node-connection": props.NodeConnection, "resource-connection": props.ResourceConnection,
		"snapshot": props.Snapshot,
	}[group]
	if !known {
		return nil
	}
	var keys []string
	for info := range props.All(scope) {
		if !info.Internal && !strings.ContainsAny(info.Key, "<*") {
			keys = append(keys, info.Key)
		}
	}
	return keys
}

// propertyValues returns the values that the key before can have, where they are words.
func propertyValues(args []string) []string {
	if len(args) == 0 {
		return nil
	}
	info, known := props.Lookup(args[len(args)-1])
	switch {
	case !known:
		return nil
	case info.Type == props.YesNo:
		return []string{"yes", "no"}
	case info.Type == props.TrueFalse:
		return []string{"true", "false"}
	default:
		return info.Values
	}
}

// completeFlag returns what a flag can be, or that it is a file.
func (a *app) completeFlag(ctx context.Context, cmd *cobra.Command, f *pflag.Flag) (names []string, files bool) {
	if c, ok := f.Value.(*choice); ok {
		return c.among, false
	}
	switch f.Name {
	case "nodes", "target", "do-not-target":
		return a.ask(ctx, nodeNames), false
	case "storage-pool", "storage-pools", "diskless-storage-pool":
		return a.ask(ctx, poolNames), false
	case "resources", "resource-definitions", "do-not-place-with":
		return a.ask(ctx, definitionNames), false
	case "resource-groups", "resource-group":
		return a.ask(ctx, groupNames), false
	case "layer-list":
		return []string{"storage", "drbd,storage", "luks,storage", "drbd,luks,storage"}, false
	case "providers":
		return []string{"lvm", "lvm_thin", "zfs", "zfs_thin", "file", "file_thin"}, false
	case "states":
		return []string{"waiting", "running", "done", "failed", "cancelled"}, false
	case "output":
		return []string{"text", "wide", "name", "json", "yaml"}, false
	case "diskless-on-remaining":
		return []string{"true", "false"}, false
	case "show-props", "props":
		return propertyKeys(cmd.Parent().Name()), false
	case "cafile", "certfile", "keyfile", "token-file", "from-file", "config", "data", "state", "join-file", "dir":
		return nil, true
	default:
		return nil, false
	}
}

// completable brings the arguments of a request for completions into cobra's grammar. The last word is the one to complete; where
// an option that takes a list stands open, the word is one more of its elements.
func completable(root *cobra.Command, args []string) []string {
	if len(args) < 2 {
		return args
	}
	before, word := leadingGlobals(root, args[1:len(args)-1]), args[len(args)-1]
	cmd, rest, err := root.Find(before)
	if err != nil || cmd == root {
		return append(append([]string{args[0]}, before...), word)
	}
	flags := allFlags(cmd)
	open := ""
	for i, given := range slices.Backward(rest) {
		if strings.HasPrefix(given, "-") {
			if value, ok := valueOf(lookup(flags, given)).(greedy); ok && value.takes(len(rest)-1-i, word) {
				open = lookup(flags, given).Name
			}
			break
		}
	}
	out := append([]string{args[0]}, strings.Fields(cmd.CommandPath())[1:]...)
	if open != "" && !strings.HasPrefix(word, "-") {
		return append(append(out, tie(flags, slices.Clone(rest))...), "--"+open+"="+word)
	}
	if n := len(rest); n > 0 {
		if flag := lookup(flags, rest[n-1]); flag != nil && flag.NoOptDefVal == "" { // Its value is the word.
			return append(append(append(out, tie(flags, rest[:n-1])...), rest[n-1]), word)
		}
	}
	return append(append(out, tie(flags, rest)...), word)
}
