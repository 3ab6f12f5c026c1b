// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// greedy is a flag that takes the arguments that follow it.
type greedy interface {
	pflag.Value
	// takes reports whether the flag takes next, too, after it took some.
	takes(taken int, next string) bool
}

// rewrite brings arguments from LINSTOR's grammar into cobra's: short forms of global flags become long ones, and what
// follows a greedy flag is tied to it. It returns the command that is meant; on an error that is the last one understood.
func rewrite(root *cobra.Command, args []string) (*cobra.Command, []string, error) {
	if isCompletion(args) {
		return root, completable(root, args), nil
	}
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	args = leadingGlobals(root, args)
	cmd, rest, err := root.Find(args)
	if err != nil {
		return root, nil, unknownCommand(root, args)
	}
	if cmd.IsAdditionalHelpTopicCommand() {
		return cmd, append([]string{"help"}, strings.Fields(cmd.CommandPath())[1:]...), nil
	}
	if cmd == root || cmd.DisableFlagParsing || isBuiltIn(cmd) {
		return cmd, args, nil
	}
	if !cmd.Runnable() && !slices.ContainsFunc(rest, isHelp) {
		return cmd, nil, missingCommand(cmd, rest)
	}
	flags := allFlags(cmd)
	path := strings.Fields(cmd.CommandPath())[1:]
	return cmd, slices.Concat(path, tie(flags, rest)), nil
}

// allFlags returns the flags of a command with those that it inherits.
func allFlags(cmd *cobra.Command) *pflag.FlagSet {
	cmd.InitDefaultHelpFlag()
	_ = cmd.InheritedFlags() // Merges them into Flags.
	return cmd.Flags()
}

// isBuiltIn reports whether cobra made the command: help and the shell completion.
func isBuiltIn(cmd *cobra.Command) bool {
	for ; cmd.HasParent(); cmd = cmd.Parent() {
		if cmd.Name() == "help" || cmd.Name() == "completion" {
			return true
		}
	}
	return false
}

func isHelp(arg string) bool { return arg == "-h" || arg == "--help" }

// wrongFlag explains a mistake in the flags of a command.
func wrongFlag(cmd *cobra.Command, err error) error {
	text := err.Error()
	if name, unknown := strings.CutPrefix(text, "unknown flag: --"); unknown {
		var names []string
		allFlags(cmd).VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				names = append(names, f.Name)
			}
		})
		if meant := nearest(name, names); meant != "" {
			return usagef("%s; did you mean --%s?", text, meant)
		}
	}
	if rest, unknown := strings.CutPrefix(text, "unknown shorthand flag: '"); unknown && rest[0] >= '0' && rest[0] <= '9' {
		_, word, _ := strings.Cut(rest, " in ")
		return usagef("%q: a number cannot be negative here", word)
	}
	return usageError{err}
}

// unknownCommand explains a first word that is no command.
func unknownCommand(root *cobra.Command, args []string) error {
	i := slices.IndexFunc(args, func(arg string) bool { return !strings.HasPrefix(arg, "-") && child(root, arg) == nil })
	word := args[max(i, 0)]
	if meant := nearest(word, commandNames(root)); meant != "" {
		return usagef("unknown command %q; did you mean %s?", word, meant)
	}
	return usagef("unknown command %q; '%s --help' lists all", word, root.CommandPath())
}

// missingCommand explains a group of commands without the command.
func missingCommand(group *cobra.Command, rest []string) error {
	var names []string
	for _, c := range group.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	known := strings.Join(names, ", ")
	for _, arg := range rest {
		if meant := nearest(arg, commandNames(group)); meant != "" && !strings.HasPrefix(arg, "-") {
			return usagef("%s has no command %q; did you mean %s?", group.CommandPath(), arg, meant)
		}
		if !strings.HasPrefix(arg, "-") {
			return usagef("%s has no command %q; it has %s", group.CommandPath(), arg, known)
		}
	}
	return usagef("%s needs a command: %s", group.CommandPath(), known)
}

// leadingGlobals makes the short global flags before a command long. It stops where it does not know what follows. The
// result is never nil: cobra would take the arguments of the process.
func leadingGlobals(root *cobra.Command, args []string) []string {
	out := []string{}
	for at := root; len(args) > 0; {
		arg, rest := args[0], args[1:]
		if long, ok := longGlobal(arg); ok {
			arg = long
		} else if !strings.HasPrefix(arg, "-") {
			if at = child(at, arg); at == nil || !at.HasSubCommands() {
				break
			}
		}
		out, args = append(out, arg), rest
		if flag := lookup(root.PersistentFlags(), arg); flag != nil && flag.NoOptDefVal == "" && len(args) > 0 {
			out, args = append(out, args[0]), args[1:]
		}
	}
	return append(out, args...)
}

// child returns the command of a group, or nil.
func child(group *cobra.Command, name string) *cobra.Command {
	for _, c := range group.Commands() {
		if c.Name() == name || c.HasAlias(name) {
			return c
		}
	}
	return nil
}

// longGlobal returns the long form of a short global flag: -m, -t, -t5.
func longGlobal(arg string) (string, bool) {
	if len(arg) < 2 || arg[0] != '-' || arg[1] == '-' {
		return "", false
	}
	name, takesValue, known := shortGlobals(arg[1])
	switch {
	case !known:
		return "", false
	case len(arg) == 2:
		return "--" + name, true
	case takesValue:
		return "--" + name + "=" + strings.TrimPrefix(arg[2:], "="), true
	default:
		return "", false
	}
}

// tie rewrites what follows the command.
func tie(flags *pflag.FlagSet, args []string) []string {
	var out []string
	for i := 0; i < len(args); {
		arg := args[i]
		i++
		if arg == "--" {
			return append(append(out, arg), args[i:]...)
		}
		arg = spelledOut(flags, arg)
		flag := lookup(flags, arg)
		value, isGreedy := valueOf(flag).(greedy)
		switch {
		case flag == nil:
			if long, ok := longGlobal(arg); ok && flags.ShorthandLookup(arg[1:2]) == nil {
				arg = long
			}
			out = append(out, arg)
		case isGreedy:
			taken := 0
			for i < len(args) && !strings.HasPrefix(args[i], "-") && value.takes(taken, args[i]) {
				out = append(out, "--"+flag.Name+"="+args[i])
				taken++
				i++
			}
			if taken == 0 {
				out = append(out, "--"+flag.Name+"="+flag.NoOptDefVal)
			}
		case flag.NoOptDefVal == "" && i < len(args): // Its value is no flag, whatever it looks like.
			out = append(out, arg, args[i])
			i++
		default:
			out = append(out, arg)
		}
	}
	return out
}

// spelledOut returns a long option in full: its beginning is enough where no other begins so.
func spelledOut(flags *pflag.FlagSet, arg string) string {
	name, long := strings.CutPrefix(arg, "--")
	name, value, hasValue := strings.Cut(name, "=")
	if !long || name == "" || flags.Lookup(name) != nil {
		return arg
	}
	var meant []string
	flags.VisitAll(func(f *pflag.Flag) {
		if strings.HasPrefix(f.Name, name) {
			meant = append(meant, f.Name)
		}
	})
	if other := otherOption(name); other != "" && flags.Lookup(other) != nil {
		meant = []string{other}
	}
	if len(meant) != 1 {
		return arg
	}
	arg = "--" + meant[0]
	if hasValue {
		arg += "=" + value
	}
	return arg
}

func valueOf(flag *pflag.Flag) pflag.Value {
	if flag == nil {
		return nil
	}
	return flag.Value
}

// lookup returns the flag that arg is, if arg is a flag and nothing else: no value is part of it.
func lookup(flags *pflag.FlagSet, arg string) *pflag.Flag {
	if name, long := strings.CutPrefix(arg, "--"); long {
		return flags.Lookup(name)
	}
	if len(arg) == 2 && arg[0] == '-' && arg[1] < 0x80 {
		return flags.ShorthandLookup(arg[1:])
	}
	return nil
}
