// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package numbers tells which numbers of a host are taken by others, so that the controller does not give them to resources:
// TCP ports that someone listens on, and minors of DRBD devices.
//
// What is ours is told apart by [Watcher].Ours. A look reads some files of the kernel's and runs no program. A file that cannot
// be read counts as empty: a number that is taken all the same is noticed when the resource is set up, and named there.
package numbers

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// lowest is the first port that is looked at: those below are for services of the system, and in no range of ours.
const lowest = 1024

// most bounds how many numbers of a kind are told of. A host on which more are taken has other troubles.
const most = 4096

// Watcher looks at the numbers of this host.
type Watcher struct {
	Proc  string        // where proc is mounted; /proc when empty
	Sys   string        // where sysfs is mounted; /sys when empty
	Every time.Duration // between two looks; 30 s when zero

	// Ours tells the numbers that resources of ours have. Nil: none has any.
	Ours func() (ports, minors []uint32)
}

// Watch calls changed with the taken TCP ports and DRBD minors, each in order, at first and then when they have changed, until
// ctx ends.
func (w *Watcher) Watch(ctx context.Context, changed func(ports, minors []uint32)) {
	tick := time.NewTicker(cmp.Or(w.Every, 30*time.Second))
	defer tick.Stop()
	var ports, minors []uint32
	for first := true; ; first = false {
		p, m := w.Look()
		if first || !slices.Equal(p, ports) || !slices.Equal(m, minors) {
			ports, minors = p, m
			changed(slices.Clone(p), slices.Clone(m))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// Look returns what is taken now, each kind in order.
func (w *Watcher) Look() (ports, minors []uint32) {
	listening := map[uint32]bool{}
	for _, table := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile(filepath.Join(cmp.Or(w.Proc, "/proc"), "net", table))
		if err != nil {
			continue // Not there without IPv6.
		}
		for _, port := range Listening(text) {
			if port >= lowest {
				listening[port] = true
			}
		}
	}
	devices := map[uint32]bool{}
	entries, _ := os.ReadDir(filepath.Join(cmp.Or(w.Sys, "/sys"), "block")) // Empty when it cannot be read.
	for _, e := range entries {
		if text, is := strings.CutPrefix(e.Name(), "drbd"); is {
			if n, err := strconv.ParseUint(text, 10, 20); err == nil {
				devices[uint32(n)] = true
			}
		}
	}
	if w.Ours != nil {
		ourPorts, ourMinors := w.Ours()
		for _, p := range ourPorts {
			delete(listening, p)
		}
		for _, m := range ourMinors {
			delete(devices, m)
		}
	}
	return sorted(listening), sorted(devices)
}

// Listening returns the ports of the listening sockets in a table of the kernel's, /proc/net/tcp or tcp6. Lines in another form
// are passed over.
func Listening(table []byte) []uint32 {
	const listen = "0A"
	var ports []uint32
	lines := bufio.NewScanner(bytes.NewReader(table))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 4 || fields[3] != listen {
			continue
		}
		_, text, ok := strings.Cut(fields[1], ":")
		port, err := strconv.ParseUint(text, 16, 16)
		if ok && err == nil {
			ports = append(ports, uint32(port))
		}
	}
	return ports
}

func sorted(set map[uint32]bool) []uint32 {
	list := slices.Sorted(maps.Keys(set))
	return list[:min(len(list), most)]
}
