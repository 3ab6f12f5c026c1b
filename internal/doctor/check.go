// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-storage/holdfast/internal/command"
)

// versionLimit is how long a program has to say its version.
const versionLimit = 5 * time.Second

// program looks for a program by asking it for its version.
func (h Host) program(ctx context.Context, p program) Check {
	c := Check{Kind: Program, Name: p.name, State: Present}
	res, err := h.Runner.Run(ctx, command.Command{Program: p.name, Args: p.version, Limit: versionLimit})
	failure, failed := errors.AsType[*command.Error](err)
	switch {
	case failed && failure.Kind == command.NotInstalled:
		c.State, c.Fix = Absent, "install the package "+p.pkg
		return c
	case failed && failure.Kind != command.Exited: // Some programs say their version and exit with an error.
		c.State, c.Detail, c.Fix = Unknown, failure.Error(), "run it by hand: "+p.name+" "+strings.Join(p.version, " ")
		return c
	}
	c.Version = versionIn(string(res.Stdout)+"\n"+string(res.Stderr), p.pattern)
	return c.atLeast(p.least, fmt.Sprintf("install it from the package %s", p.pkg))
}

// atLeast returns the check of something that is there, when a version is needed of it. One that is not known is not taken for one that will do.
func (c Check) atLeast(version, fix string) Check {
	switch {
	case version == "" || c.State != Present:
	case c.Version == "":
		c.State, c.Detail = Unknown, cmp.Or(c.Detail, "there")+", and its version cannot be told"
		c.Fix = fmt.Sprintf("version %s or later is needed: %s", version, fix)
	case older(c.Version, version):
		c.State, c.Fix = TooOld, fmt.Sprintf("version %s or later is needed: %s", version, fix)
	}
	return c
}

// versionIn finds the version in what a program printed: the first group of a pattern, or the first thing that looks like one.
func versionIn(text, pattern string) string {
	match := regexp.MustCompile(cmp.Or(pattern, `(\d+\.\d+(?:\.\d+)*)`)).FindStringSubmatch(text)
	if match == nil {
		return ""
	}
	return match[1]
}

// older compares versions by their numbers.
func older(version, least string) bool {
	numbers := func(s string) []string {
		return strings.FieldsFunc(s, func(r rune) bool { return r < '0' || r > '9' })
	}
	have, want := numbers(version), numbers(least)
	for i, w := range want {
		if i >= len(have) {
			return true
		}
		a, _ := strconv.Atoi(have[i]) // Digits alone.
		b, _ := strconv.Atoi(w)       // The same.
		if a != b {
			return a < b
		}
	}
	return false
}

// module looks for a kernel module that is loaded, built in, or can be loaded.
func (h Host) module(ctx context.Context, m module, kernel string) Check {
	c := Check{Kind: Module, Name: m.name, State: Present}
	dir := "lib/modules/" + kernel
	switch loaded := h.exists("sys/module/" + m.name); {
	case loaded:
		c.Detail, c.Version = "loaded", h.line("sys/module/"+m.name+"/version")
		if m.least != "" && c.Version != "" && older(c.Version, m.least) {
			if there := h.moduleVersion(ctx, m.name); there != "" && !older(there, m.least) {
				return c.atLeast(m.least, fmt.Sprintf("%s is installed, and an earlier one is loaded: unload it with modprobe -r %s, then modprobe %s", there, m.name, m.name))
			}
		}
	case h.lists(dir+"/modules.builtin", m.name), m.list != "" && h.says(m.list, m.word):
		c.Detail = "built in"
	case h.lists(dir+"/modules.dep", m.name):
		c.Detail = "can be loaded"
		if m.least != "" {
			c.Version = h.moduleVersion(ctx, m.name)
		}
	case kernel == "" || !h.exists(dir):
		c.State, c.Detail, c.Fix = Unknown, "not loaded, and the modules of this kernel are not at /"+dir, "load it: modprobe "+m.name
	default:
		c.State, c.Fix = Absent, m.fix
	}
	return c.atLeast(m.least, m.fix)
}

// moduleVersion returns the version of a module that is not loaded, or "".
func (h Host) moduleVersion(ctx context.Context, name string) string {
	res, err := h.Runner.Run(ctx, command.Command{Program: "modinfo", Args: []string{"-F", "version", name}, Limit: versionLimit})
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(res.Stdout))
}

// lists reports whether a list of module files has one. Dashes and underscores are the same in their names.
func (h Host) lists(list, name string) bool {
	body, err := fs.ReadFile(h.Root, list)
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(body)) {
		file, _, _ := strings.Cut(strings.TrimSpace(line), ":")
		base := file[strings.LastIndexByte(file, '/')+1:]
		base, _, _ = strings.Cut(base, ".ko")
		if strings.ReplaceAll(base, "-", "_") == name {
			return true
		}
	}
	return false
}

// says reports whether a line of a file ends with a word.
func (h Host) says(file, word string) bool {
	body, err := fs.ReadFile(h.Root, file)
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(body)) {
		if fields := strings.Fields(line); len(fields) > 0 && fields[len(fields)-1] == word {
			return true
		}
	}
	return false
}

func (h Host) device(d device) Check {
	c := Check{Kind: Device, Name: d.path, State: Present}
	if !h.exists(strings.TrimPrefix(d.path, "/")) {
		c.State, c.Fix = Absent, d.fix
	}
	return c
}

// capSysAdmin is the number of the capability that mounts and devices need.
const capSysAdmin = 21

// rights looks at what this process may do.
func (h Host) rights() []Check {
	root := Check{Kind: Right, Name: "root", State: Present}
	admin := Check{Kind: Right, Name: "CAP_SYS_ADMIN", State: Present}
	status, err := fs.ReadFile(h.Root, "proc/self/status")
	if err != nil {
		root.State, root.Detail = Unknown, err.Error()
		admin.State, admin.Detail = Unknown, err.Error()
		return []Check{root, admin}
	}
	for line := range strings.Lines(string(status)) {
		key, value, _ := strings.Cut(line, ":")
		fields := strings.Fields(value)
		switch {
		case key == "Uid" && len(fields) > 1 && fields[1] != "0":
			root.State, root.Fix = Absent, "run it as root"
		case key == "CapEff" && len(fields) == 1:
			bits, err := strconv.ParseUint(fields[0], 16, 64)
			if err != nil || bits>>capSysAdmin&1 == 0 {
				admin.State, admin.Fix = Absent, "run it as root, in a container with --privileged or --cap-add SYS_ADMIN"
			}
		}
	}
	return []Check{root, admin}
}
