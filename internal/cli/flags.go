// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-storage/holdfast/client"
)

// list is a flag that takes a list. It is nil until the flag is given, and empty when it is given without elements.
type list []string

// Set adds elements, separated by commas.
func (l *list) Set(text string) error {
	if *l == nil {
		*l = list{}
	}
	for element := range strings.SplitSeq(text, ",") {
		if element = strings.TrimSpace(element); element != "" {
			*l = append(*l, element)
		}
	}
	return nil
}

func (l *list) String() string       { return strings.Join(*l, ",") }
func (*list) Type() string           { return "list" }
func (*list) takes(int, string) bool { return true }

// addTo declares the flag with an optional short form.
func (l *list) addTo(f *pflag.FlagSet, name, short, usage string) {
	f.VarP(l, name, short, usage)
}

// commas is a list in one argument, as in LINSTOR: drbd,luks,storage. It is nil until the flag is given.
type commas []string

// Set replaces the list.
func (c *commas) Set(text string) error {
	*c = commas{}
	for element := range strings.SplitSeq(text, ",") {
		if element = strings.TrimSpace(element); element != "" {
			*c = append(*c, element)
		}
	}
	return nil
}

func (c *commas) String() string { return strings.Join(*c, ",") }
func (*commas) Type() string     { return "list" }

// upper returns the elements in capitals, as the API names kinds, and nil for an absent list.
func upper[T ~string](elements []string) []T {
	if elements == nil {
		return nil
	}
	out := make([]T, len(elements))
	for i, e := range elements {
		out[i] = T(strings.ToUpper(e))
	}
	return out
}

// toggle is a flag that is true by itself, or takes true or false.
type toggle struct{ value *bool }

// Set reads a boolean as people write it.
func (t *toggle) Set(text string) error {
	value, ok := boolean(text)
	if !ok {
		return usagef("%q: want true or false", text)
	}
	t.value = &value
	return nil
}

func (t *toggle) String() string {
	if t.value == nil {
		return ""
	}
	return strconv.FormatBool(*t.value)
}

func (*toggle) Type() string { return "[bool]" }

func (*toggle) takes(taken int, next string) bool {
	_, ok := boolean(next)
	return taken == 0 && ok
}

func (t *toggle) addTo(f *pflag.FlagSet, name, usage string) {
	f.VarPF(t, name, "", usage).NoOptDefVal = "true"
}

func boolean(text string) (value, ok bool) {
	switch strings.ToLower(text) {
	case "true", "yes", "on":
		return true, true
	case "false", "no", "off":
		return false, true
	default:
		return false, false
	}
}

// number is an optional number of 32 bits. It is nil until the flag is given.
type number struct{ value *client.Int32 }

// Set reads a number from 0.
func (n *number) Set(text string) error {
	v, err := strconv.ParseInt(text, 10, 32)
	if err != nil || v < 0 {
		return usagef("%q: want a whole number from 0 to 2147483647", text)
	}
	n.value = new(client.Int32(v))
	return nil
}

func (n *number) String() string {
	if n.value == nil {
		return ""
	}
	return strconv.Itoa(int(*n.value))
}

func (*number) Type() string { return "number" }

// port is a number that is a port.
type port struct{ number }

// Set reads a port.
func (p *port) Set(text string) error {
	if err := p.number.Set(text); err != nil || *p.value < 1 || *p.value > 65535 {
		return usagef("%q: want a port from 1 to 65535", text)
	}
	return nil
}

func (*port) Type() string { return "port" }

// choice is one of a few words, in any case of letters.
type choice struct {
	value string
	among []string
}

// Set accepts a word of the choice.
func (c *choice) Set(text string) error {
	i := slices.IndexFunc(c.among, func(word string) bool { return strings.EqualFold(word, text) })
	if i < 0 {
		return usagef("%q: want %s", text, strings.Join(c.among, " or "))
	}
	c.value = c.among[i]
	return nil
}

func (c *choice) String() string { return c.value }
func (c *choice) Type() string   { return strings.Join(c.among, "|") }

// optional returns text, or nil when the flag was not given.
func optional(cmd *cobra.Command, name, text string) *string {
	if !cmd.Flags().Changed(name) {
		return nil
	}
	return &text
}

// compatible declares flags that LINSTOR has and that change nothing here.
func compatible(cmd *cobra.Command, name, short string) {
	cmd.Flags().BoolP(name, short, false, "accepted for compatibility")
	_ = cmd.Flags().MarkHidden(name) // It was declared in the line before.
}

// Arguments.

// exactly wants one argument for each name.
func exactly(names ...string) cobra.PositionalArgs { return between(len(names), len(names), names...) }

// between wants from least to most arguments; a most below zero is no bound.
func between(least, most int, names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < least {
			return usagef("too few arguments: %s is missing", names[min(len(args), len(names)-1)])
		}
		if most >= 0 && len(args) > most {
			return usagef("too many arguments: %q is not understood", args[most])
		}
		return nil
	}
}

// nothing wants no arguments.
func nothing(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("too many arguments: %q is not understood", args[0])
	}
	return nil
}

// volumeNumber reads the number of a volume.
func volumeNumber(text string) (int, error) {
	v, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return 0, usagef("volume number %q: want a whole number from 0 to 65535", text)
	}
	return int(v), nil
}

// group returns a command that only holds others.
func group(name string, aliases []string, short string, commands ...*cobra.Command) *cobra.Command {
	g := &cobra.Command{Use: name, Aliases: aliases, Short: short, Args: nothing}
	g.AddCommand(commands...)
	return g
}
