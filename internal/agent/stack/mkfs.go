// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-storage/holdfast/internal/command"
)

// formatLimit bounds mkfs, which writes some gigabytes on a very large volume.
const formatLimit = 30 * time.Minute

// Make makes the filesystem on a device, and with that gives up what lies on it. It is for layers above the volumes of pools: those are formatted by Apply.
func (f Filesystem) Make(ctx context.Context, runner command.Runner, device string) error {
	m, err := makerOf(f.Type)
	if err != nil {
		return err
	}
	args, err := m.args(f.MkfsParams)
	if err != nil {
		return err
	}
	return m.run(ctx, runner, args, device)
}

// run formats a device.
func (m mkfs) run(ctx context.Context, runner command.Runner, args []string, device string) error {
	_, err := runner.Run(ctx, command.Command{Program: m.program, Args: append(slices.Clone(args), device), Limit: formatLimit})
	if failed, ok := errors.AsType[*command.Error](err); ok && failed.Kind == command.NotInstalled {
		return fmt.Errorf("%w: install %s on this host", err, m.pack)
	}
	return err
}

// mkfs is a program that makes filesystems.
type mkfs struct {
	program string
	pack    string   // The package of a distribution that has it.
	base    []string // Overwrite without asking, quietly; no discards, as the volume is new.
	valued  string   // Short options that take a value.
	flags   string   // Short options that do not.
	long    map[string]bool
	extra   string // A short option of which the last one replaces the others; those of base are kept in front of its values.
}

// makerOf returns the program for a type of filesystem.
//
// Only options that say how the filesystem is to be are let through. Left out are those that name other files or devices (a user of the API could have
// the agent read or overwrite them), that only pretend (the volume would be finished without a filesystem), or that take long.
func makerOf(fstype string) (mkfs, error) {
	switch fstype {
	case "ext4":
		return mkfs{
			program: "mkfs.ext4", pack: "e2fsprogs", base: []string{"-F", "-q", "-E", "nodiscard,lazy_itable_init=1"},
			valued: "bCeEgGiIJLmMNOTU", flags: "DFjqv", extra: "E",
		}, nil
	case "xfs":
		return mkfs{program: "mkfs.xfs", pack: "xfsprogs", base: []string{"-f", "-q", "-K"}, valued: "bdilLmnrs", flags: "fKq"}, nil
	case "btrfs":
		return mkfs{
			program: "mkfs.btrfs", pack: "btrfs-progs", base: []string{"-f", "-q", "-K"}, valued: "dLmnORsU", flags: "fKMqv",
			long: map[string]bool{
				"data": true, "label": true, "metadata": true, "nodesize": true, "features": true, "runtime-features": true, "sectorsize": true,
				"uuid": true, "csum": true, "checksum": true, "force": false, "nodiscard": false, "mixed": false, "quiet": false,
			},
		}, nil
	}
	return mkfs{}, fmt.Errorf("file system type %q is not known: use ext4, xfs or btrfs", fstype)
}

// args returns the arguments of the program but for the device.
func (m mkfs) args(params string) ([]string, error) {
	words, err := splitWords(params)
	if err != nil {
		return nil, fmt.Errorf("options of %s: %w", m.program, err)
	}
	args := append([]string{}, m.base...)
	for len(words) > 0 {
		word := words[0]
		words = words[1:]
		var taken []string
		switch {
		case strings.HasPrefix(word, "--"):
			taken, words, err = m.longOption(word, words)
		case strings.HasPrefix(word, "-") && word != "-":
			taken, words, err = m.shortOptions(word, words)
		default:
			err = fmt.Errorf("%q is not an option", word)
		}
		if err != nil {
			return nil, fmt.Errorf("options of %s: %w", m.program, err)
		}
		args = append(args, taken...)
	}
	return args, nil
}

// shortOptions takes options that stand together in a word, the last of them perhaps with its value in the word or after it.
func (m mkfs) shortOptions(word string, rest []string) (taken, left []string, err error) {
	for i := 1; i < len(word); i++ {
		name := word[i : i+1]
		switch {
		case strings.Contains(m.flags, name):
			taken = append(taken, "-"+name)
		case strings.Contains(m.valued, name):
			value := word[i+1:]
			if value == "" {
				if len(rest) == 0 {
					return nil, nil, fmt.Errorf("option -%s lacks its value", name)
				}
				value, rest = rest[0], rest[1:]
			}
			if err := harmless("-"+name, value); err != nil {
				return nil, nil, err
			}
			if name == m.extra {
				value = m.baseValue(name) + "," + value
			}
			return append(taken, "-"+name, value), rest, nil
		default:
			return nil, nil, fmt.Errorf("option -%s is not allowed", name)
		}
	}
	return taken, rest, nil
}

// baseValue returns the value that an option has in base.
func (m mkfs) baseValue(name string) string {
	for i, b := range m.base {
		if b == "-"+name {
			return m.base[i+1]
		}
	}
	return ""
}

func (m mkfs) longOption(word string, rest []string) (taken, left []string, err error) {
	name, value, joined := strings.Cut(word[2:], "=")
	valued, known := m.long[name]
	switch {
	case !known || joined && !valued:
		return nil, nil, fmt.Errorf("option --%s is not allowed", name)
	case !valued:
		return []string{word}, rest, nil
	case !joined && len(rest) == 0:
		return nil, nil, fmt.Errorf("option --%s lacks its value", name)
	case !joined:
		value, rest = rest[0], rest[1:]
	}
	if err := harmless("--"+name, value); err != nil {
		return nil, nil, err
	}
	return []string{"--" + name, value}, rest, nil
}

// harmless refuses values that lead to other files or devices, or to another place on this one.
func harmless(option, value string) error {
	if option == "-L" || option == "--label" || option == "-M" {
		return nil // A text that is only stored.
	}
	if strings.Contains(value, "/") {
		return fmt.Errorf("value %q of option %s names a path, which is not allowed", value, option)
	}
	for sub := range strings.SplitSeq(value, ",") {
		key, _, _ := strings.Cut(sub, "=")
		switch strings.TrimSpace(key) {
		case "device", "file", "journal_dev", "logdev", "name", "offset", "rtdev":
			return fmt.Errorf("%s in option %s is not allowed", key, option)
		}
	}
	return nil
}
