// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// The linstor client takes options from a file and from LS_CLIENT_ variables. Both are read here as well, so that a host
// that is set up for it is set up for Holdfast.

// clientVariables are the variables that stand for global flags.
func clientVariables() []string {
	return []string{
		"controllers", "timeout", "machine-readable", "output-version", "no-color", "no-utf8", "warn-as-error", "verbose",
		"user", "password", "certfile", "keyfile", "cafile", "allow-insecure-auth", "disable-config",
	}
}

// takeDefaults sets global flags from the variables, and where they say nothing from the file. Arguments come later and win.
func (a *app) takeDefaults(root *cobra.Command, args []string) error {
	said := map[string]bool{}
	for _, name := range clientVariables() {
		variable := "LS_CLIENT_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		if value, set := a.env.lookup(variable); set {
			said[name] = true
			if err := setDefault(root, name, value, variable); err != nil {
				return err
			}
		}
	}
	if slices.Contains(args, "--disable-config") {
		return nil
	}
	if off := root.PersistentFlags().Lookup("disable-config"); off == nil || off.Value.String() == "true" {
		return nil
	}
	path, settings := a.clientConfig()
	for _, s := range settings {
		if said[s.key] {
			continue
		}
		if err := setDefault(root, s.key, s.value, path); err != nil {
			return err
		}
	}
	return nil
}

// lookup returns a variable. One that is empty is not set: it cannot be told apart.
func (e Env) lookup(name string) (string, bool) {
	value := e.Getenv(name)
	return value, value != ""
}

// setDefault sets a global flag unless it is not known here: the file may hold options of newer clients.
func setDefault(root *cobra.Command, name, value, from string) error {
	flag := root.PersistentFlags().Lookup(name)
	if flag == nil {
		return nil
	}
	if value == "" {
		value = flag.NoOptDefVal
	}
	if err := flag.Value.Set(value); err != nil {
		return usagef("%s: %s %q: %w", from, name, value, err)
	}
	return nil
}

type setting struct{ key, value string }

// clientConfig returns the options of the section [global] of the user's file, or else that of the host, and its path.
func (a *app) clientConfig() (string, []setting) {
	const name = "linstor-client.conf"
	var paths []string
	if home := a.env.Getenv("HOME"); home != "" {
		paths = append(paths, filepath.Join(home, ".config", "linstor", name))
	}
	for _, path := range append(paths, filepath.Join("/etc/linstor", name)) {
		if body, err := a.env.ReadFile(path); err == nil {
			return path, globalSection(string(body))
		}
	}
	return "", nil
}

// globalSection reads the section [global] of an INI file.
func globalSection(text string) []setting {
	var out []setting
	inside := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || line[0] == '#' || line[0] == ';':
		case line[0] == '[':
			inside = strings.EqualFold(line, "[global]")
		case inside:
			key, value, _ := strings.Cut(line, "=")
			if before, after, colon := strings.Cut(line, ":"); colon && len(before) < len(key) {
				key, value = before, after
			}
			out = append(out, setting{strings.ToLower(strings.TrimSpace(key)), strings.TrimSpace(value)})
		}
	}
	return out
}
