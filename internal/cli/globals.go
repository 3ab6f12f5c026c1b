// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/client"
)

// app is the commands of one root: what they may touch and the global flags.
type app struct {
	env     Env
	globals globals
}

// globals are the flags that every command has.
type globals struct {
	controllers string
	timeout     int // seconds
	machine     bool
	output      string
	noColor     bool
	noUTF8      bool
	warnAsError bool
}

// Global flags have no short forms here, since commands use some of the letters themselves: see rewrite.
func (a *app) addGlobalFlags(root *cobra.Command) {
	f := root.PersistentFlags()
	f.StringVar(&a.globals.controllers, "controllers", "",
		"controllers to ask, separated by commas, each a host, host:port or URL; replaces LS_CONTROLLERS (default localhost)")
	f.IntVar(&a.globals.timeout, "timeout", 300, "seconds to wait for an answer (also -t)")
	f.BoolVar(&a.globals.machine, "machine-readable", false, "print the JSON of the API as the linstor client does (also -m)")
	f.StringVarP(&a.globals.output, "output", "o", "text", "text, or json for the JSON of the API")
	f.BoolVar(&a.globals.noColor, "no-color", false, "no colours")
	f.BoolVar(&a.globals.noUTF8, "no-utf8", false, "draw tables with ASCII characters")
	f.BoolVar(&a.globals.warnAsError, "warn-as-error", false, "exit with an error when there was a warning")
}

// shortGlobals are the short forms of global flags and what they stand for.
func shortGlobals(letter byte) (name string, takesValue, known bool) {
	switch letter {
	case 'm':
		return "machine-readable", false, true
	case 't':
		return "timeout", true, true
	default:
		return "", false, false
	}
}

// form is how answers are printed.
type form int

const (
	text    form = iota
	machine      // as the linstor client prints JSON
	plain        // JSON as the API gave it
)

func (a *app) form() (form, error) {
	switch {
	case a.globals.machine:
		return machine, nil
	case a.globals.output == "json":
		return plain, nil
	case a.globals.output == "text":
		return text, nil
	default:
		return text, usagef("output %q: want text or json", a.globals.output)
	}
}

const defaultController = "localhost"

// addresses returns the controllers to ask. The flag replaces the environment: whoever names a controller means that one.
func (a *app) addresses() []string {
	list := a.globals.controllers
	if list == "" {
		list = a.env.Getenv("LS_CONTROLLERS")
	}
	var addresses []string
	for address := range strings.SplitSeq(list, ",") {
		if address = strings.TrimSpace(address); address != "" {
			addresses = append(addresses, address)
		}
	}
	if len(addresses) == 0 {
		addresses = []string{defaultController}
	}
	return addresses
}

func (a *app) connect(trace func(client.Exchange)) (*client.Client, error) {
	if a.globals.timeout <= 0 {
		return nil, usagef("timeout %d: want a positive number of seconds", a.globals.timeout)
	}
	options := []client.Option{
		client.WithTimeout(time.Duration(a.globals.timeout) * time.Second),
		client.WithUserAgent("holdfast"),
		client.WithTrace(trace),
	}
	if a.env.HTTP != nil {
		options = append(options, client.WithHTTPClient(a.env.HTTP))
	}
	c, err := client.New(a.addresses(), options...)
	if err != nil {
		return nil, usageError{err}
	}
	return c, nil
}

// style says how tables are drawn. Pastable output is for mails and tickets.
func (a *app) style(pastable bool) style {
	s := style{}
	if pastable || !a.env.Terminal {
		return s
	}
	s.color = !a.globals.noColor && a.env.Getenv("NO_COLOR") == ""
	s.drawn = !a.globals.noUTF8 && a.utf8()
	return s
}

// utf8 reports whether the locale is one of UTF-8. The first variable that is set decides, as in the C library.
func (a *app) utf8() bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if locale := a.env.Getenv(name); locale != "" {
			locale = strings.ToLower(locale)
			return strings.Contains(locale, "utf-8") || strings.Contains(locale, "utf8")
		}
	}
	return false
}
