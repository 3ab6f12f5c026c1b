// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package drbd

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Command is one command of drbdsetup or drbdmeta that drbdadm would run. Its arguments may hold secrets: they are not for people.
type Command struct {
	Program string // The base name.
	Verb    string
	Args    []string // After the verb.
}

// parseCommands reads what "drbdadm -d" prints: one command in each line, quoted for a shell.
func parseCommands(text string) ([]Command, error) {
	var commands []Command
	for line := range strings.Lines(text) {
		words, err := split(strings.TrimSuffix(line, "\n"))
		if err != nil {
			return nil, err // And not the line: it may hold a secret.
		}
		if len(words) == 0 {
			continue
		}
		c := Command{Program: path.Base(words[0]), Args: words[1:]}
		switch c.Program {
		case "drbdsetup":
			if len(words) < 2 {
				return nil, errors.New("drbdadm's dry run has drbdsetup without a verb")
			}
			c.Verb, c.Args = words[1], words[2:]
		case "drbdmeta": // drbdmeta MINOR FORMAT DEVICE WHERE VERB
			if len(words) < 6 {
				return nil, errors.New("drbdadm's dry run has drbdmeta without a verb")
			}
			c.Verb = words[len(words)-1]
		default:
			return nil, fmt.Errorf("drbdadm's dry run has the program %q", c.Program)
		}
		commands = append(commands, c)
	}
	return commands, nil
}

// split splits a line as a shell does, for the two ways in which drbdadm quotes.
func split(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	in, quote, escaped := false, byte(0), false
	for _, c := range []byte(line) {
		switch {
		case escaped:
			word.WriteByte(c)
			escaped = false
		case c == '\\' && quote != '\'':
			in, escaped = true, true
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteByte(c)
		case c == '\'' || c == '"':
			in, quote = true, c
		case c == ' ' || c == '\t':
			if in {
				words = append(words, word.String())
				word.Reset()
				in = false
			}
		default:
			word.WriteByte(c)
			in = true
		}
	}
	if quote != 0 || escaped {
		return nil, errors.New("drbdadm's dry run has a line that ends in a quote")
	}
	if in {
		words = append(words, word.String())
	}
	return words, nil
}

// number returns an argument that is a number, -1 when there is none.
func (c Command) number(i int) int {
	if i >= len(c.Args) {
		return -1
	}
	n, err := strconv.Atoi(c.Args[i])
	if err != nil {
		return -1
	}
	return n
}

// gives are the verbs that take nothing away from a resource that runs: they may be run at any time. A change of an
// address is a disconnect with a new path after it.
var gives = []string{ //nolint:gochecknoglobals // A constant that Go cannot spell.
	"new-resource", "new-minor", "new-peer", "new-path", "del-path", "connect", "disconnect", "attach", "apply-al",
	"resource-options", "net-options", "disk-options", "peer-device-options",
}

// review refuses what drbdadm would do beyond giving: it deletes peers and volumes that a file does not name, and does not look who uses them. What is to go
// goes by steps of its own, before.
func review(w *Want, commands []Command) error {
	for i, c := range commands {
		if !slices.Contains(gives, c.Verb) {
			return &UnwantedError{Resource: w.Name, Command: c.shown()}
		}
		switch c.Verb {
		case "disconnect", "del-path":
			id := c.number(1)
			if !w.hasPeer(id) || !slices.ContainsFunc(commands[i:], func(n Command) bool { return n.Verb == "new-path" && n.number(1) == id }) {
				return &UnwantedError{Resource: w.Name, Command: c.shown()}
			}
		case "new-minor":
			number, minor := c.number(2), c.number(1)
			if v, ok := w.volume(number); !ok || v.Destroy || v.Minor != minor {
				return &UnwantedError{Resource: w.Name, Command: c.shown()}
			}
		}
	}
	return nil
}

// shown is a command without its options, which may hold secrets.
func (c Command) shown() string {
	words := []string{c.Program, c.Verb}
	for _, a := range c.Args {
		if strings.HasPrefix(a, "--") && a != "--diskless" {
			break
		}
		words = append(words, a)
	}
	return strings.Join(words, " ")
}
