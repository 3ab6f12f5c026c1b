// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package doctor looks at a host and says what it can do for Holdfast: which programs, kernel modules, devices and rights are there, and
// what that allows.
//
// # Vocabulary
//
// A check looks at one thing; it is present, absent, too old, or cannot be told. An ability is what a host can do, such as serving
// thin LVM pools or DRBD replicas. It is usable when all checks that it needs are present.
//
// The doctor changes nothing: it loads no module and makes no device. [Examine] may be called by many goroutines at once.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/internal/command"
)

// Host is what the doctor looks at. Its fields are all required.
type Host struct {
	Root   fs.FS // the tree at /: proc, sys, dev, lib/modules and run are read
	Runner command.Runner
}

// This is the host that the program runs on.
func This() Host { return Host{Root: os.DirFS("/"), Runner: &command.Exec{}} }

// State is what a check has found.
type State string

// The states of a check.
const (
	Present State = "present"
	Absent  State = "absent"
	TooOld  State = "too old"
	Unknown State = "unknown" // It could not be found out.
)

// Kind is what a check is about.
type Kind string

// The kinds of checks.
const (
	Program Kind = "program"
	Module  Kind = "module"
	Device  Kind = "device"
	Right   Kind = "right"
)

// Check is one thing that was looked at.
type Check struct {
	Kind    Kind   `json:"kind"`
	Name    string `json:"name"`
	State   State  `json:"state"`
	Version string `json:"version,omitempty"` // where it has one that is known
	Detail  string `json:"detail,omitempty"`  // what was found
	Fix     string `json:"fix,omitempty"`     // what to do, unless it is present
}

// Ability is something that the host can do, or cannot.
type Ability struct {
	Name   string   `json:"name"`            // as the API names it: LVM_THIN, DRBD; or ext4, NFS, images
	What   string   `json:"what"`            // what it is for
	Usable bool     `json:"usable"`          // Everything that it needs is present.
	Lacks  []string `json:"lacks,omitempty"` // what it needs and is not present, and what to do about each

	// Missing are those of Lacks that are known to be absent or too old: without them it cannot work.
	Missing []string `json:"-"`
}

// Report is all that was found.
type Report struct {
	Kernel    string    `json:"kernel,omitempty"`
	Abilities []Ability `json:"abilities"`
	Checks    []Check   `json:"checks"`
}

// Examine looks at a host. What cannot be found out is in the report; an error is only ctx's.
func Examine(ctx context.Context, h Host) (Report, error) {
	return h.examine(ctx, abilities(), func(string) bool { return true })
}

// Able looks only at what some abilities need, and returns the reports on them, in the order of the table. A name that is not
// in it is an error.
func Able(ctx context.Context, h Host, names ...string) ([]Ability, error) {
	var of []ability
	needed := map[string]bool{}
	for _, a := range abilities() {
		if slices.Contains(names, a.name) {
			of = append(of, a)
			for _, n := range a.needs {
				needed[n] = true
			}
		}
	}
	if len(of) != len(names) {
		return nil, fmt.Errorf("not all of %s are abilities of a host", strings.Join(names, ", "))
	}
	r, err := h.examine(ctx, of, func(name string) bool { return needed[name] })
	return r.Abilities, err
}

// examine makes the checks that are wanted, and judges abilities by them.
func (h Host) examine(ctx context.Context, of []ability, wanted func(name string) bool) (Report, error) {
	r := Report{Kernel: h.line("proc/sys/kernel/osrelease")}
	for _, p := range programs() {
		if wanted(p.name) {
			r.Checks = append(r.Checks, h.program(ctx, p))
		}
		if err := ctx.Err(); err != nil {
			return Report{}, err
		}
	}
	for _, m := range modules() {
		if wanted(m.name) {
			r.Checks = append(r.Checks, h.module(ctx, m, r.Kernel))
		}
	}
	if err := ctx.Err(); err != nil {
		return Report{}, err
	}
	for _, d := range devices() {
		if wanted(d.path) {
			r.Checks = append(r.Checks, h.device(d))
		}
	}
	r.Checks = append(r.Checks, h.rights()...)
	for _, a := range of {
		r.Abilities = append(r.Abilities, judge(a, r.Checks))
	}
	return r, nil
}

// judge says whether the host has an ability.
func judge(a ability, checks []Check) Ability {
	out := Ability{Name: a.name, What: a.what, Usable: true}
	for _, c := range checks {
		if !slices.Contains(a.needs, c.Name) || c.State == Present {
			continue
		}
		out.Usable = false
		lack := string(c.Kind) + " " + c.Name + ": " + string(c.State)
		if c.Fix != "" {
			lack += "; " + c.Fix
		}
		out.Lacks = append(out.Lacks, lack)
		if c.State != Unknown {
			out.Missing = append(out.Missing, lack)
		}
	}
	return out
}

// line returns the first line of a file, or "".
func (h Host) line(name string) string {
	body, err := fs.ReadFile(h.Root, name)
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(body), "\n")
	return strings.TrimSpace(first)
}

// exists reports whether a file is there, whatever it is.
func (h Host) exists(name string) bool {
	_, err := fs.Stat(h.Root, name)
	return err == nil || !errors.Is(err, fs.ErrNotExist)
}
