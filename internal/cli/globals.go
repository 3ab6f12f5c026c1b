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
	linstor bool // the program answers as the linstor client: see the package comment
}

// globals are the flags that every command has.
type globals struct {
	controllers   string
	timeout       int // seconds
	machine       bool
	machineForm   choice
	output        string
	bytes         bool
	noColor       bool
	noUTF8        bool
	warnAsError   bool
	verbose       bool
	yes           bool
	curl          bool
	disableConfig bool
	credentials
}

// Global flags have no short forms here, since commands use some of the letters themselves: see rewrite.
func (a *app) addGlobalFlags(root *cobra.Command) {
	f := root.PersistentFlags()
	g := &a.globals
	f.StringVar(&g.controllers, "controllers", "",
		"controllers to ask, separated by commas, each a host, host:port or URL; replaces LS_CONTROLLERS (default localhost)")
	f.IntVar(&g.timeout, "timeout", 300, "seconds to wait for an answer (also -t)")
	f.BoolVar(&g.machine, "machine-readable", false, "print the JSON of the API as the linstor client does (also -m)")
	g.machineForm = choice{"v1", []string{"v0", "v1"}}
	f.Var(&g.machineForm, "output-version", "form of -m; both are the JSON of the API here")
	f.StringVarP(&g.output, "output", "o", "text", "text, wide for more columns, name for names alone, or json or yaml for what the API says")
	f.BoolVar(&g.bytes, "bytes", false, "print sizes in bytes, exactly")
	f.BoolVar(&g.noColor, "no-color", false, "no colours")
	f.BoolVar(&g.noUTF8, "no-utf8", false, "draw tables with ASCII characters")
	f.BoolVar(&g.warnAsError, "warn-as-error", false, "exit with an error when there was a warning")
	f.BoolVar(&g.verbose, "verbose", false, "say which controller is asked, and all details of its answers (also -V)")
	f.BoolVar(&g.yes, "yes", false, "do not ask before something is destroyed")
	f.BoolVar(&g.curl, "curl", false, "print the command of curl that does the same, and send nothing")
	f.BoolVar(&g.disableConfig, "disable-config", false, "read no options from linstor-client.conf")
	g.addTo(f)
}

// shortGlobals are the short forms of global flags and what they stand for.
func shortGlobals(letter byte) (name string, takesValue, known bool) {
	switch letter {
	case 'm':
		return "machine-readable", false, true
	case 't':
		return "timeout", true, true
	case 'u':
		return "user", true, true
	case 'P':
		return "password", true, true
	case 'V':
		return "verbose", false, true
	default:
		return "", false, false
	}
}

// form is how answers are printed.
type form int

const (
	text    form = iota // tables and sentences, also in the outputs wide and name
	machine             // as the linstor client prints JSON
	plain               // JSON as the API gave it
	yaml                // the same as YAML
)

func (a *app) form() (form, error) {
	g := &a.globals
	switch {
	case g.machine && g.output != "text" && g.output != "json":
		return text, usagef("-m and --output %s exclude each other", g.output)
	case g.machine:
		return machine, nil
	case g.output == "json":
		return plain, nil
	case g.output == "yaml":
		return yaml, nil
	case g.output == "text" || g.output == "wide" || g.output == "name":
		return text, nil
	default:
		return text, usagef("output %q: want text, wide, name, json or yaml", g.output)
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

// connect returns a client of the controllers. Trace, unless nil, sees each answer.
func (a *app) connect(trace func(client.Exchange), more ...client.Option) (*client.Client, error) {
	return a.connectTo(a.addresses(), trace, more...)
}

func (a *app) connectTo(addresses []string, trace func(client.Exchange), more ...client.Option) (*client.Client, error) {
	if a.globals.timeout <= 0 {
		return nil, usagef("timeout %d: want a positive number of seconds", a.globals.timeout)
	}
	options := []client.Option{
		client.WithTimeout(time.Duration(a.globals.timeout) * time.Second),
		client.WithUserAgent("holdfast"),
		client.WithTrace(trace),
	}
	own, err := a.authorized(addresses)
	if err != nil {
		return nil, err
	}
	options = append(options, own...)
	if a.env.HTTP != nil {
		options = append(options, client.WithHTTPClient(a.env.HTTP))
	}
	c, err := client.New(addresses, append(options, more...)...)
	if err != nil {
		return nil, usageError{err}
	}
	return c, nil
}

// style says how tables are drawn. Pastable output is for mails and tickets.
func (a *app) style(pastable bool) style {
	s := style{bytes: a.globals.bytes, wide: a.globals.output == "wide", names: a.globals.output == "name"}
	if pastable || !a.env.Terminal {
		return s
	}
	s.color = !a.globals.noColor && a.env.Getenv("NO_COLOR") == "" && a.env.Getenv("TERM") != "dumb"
	s.drawn = !a.globals.noUTF8 && a.utf8()
	s.width = a.env.Width()
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
