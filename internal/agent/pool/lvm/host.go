// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package lvm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/agent/pool/turn"
	"github.com/holdfast-storage/holdfast/internal/command"
)

const (
	// maxCommands is how many programs of LVM run at once, whatever number of volumes is worked on: each one reads all metadata, and those that
	// change a group wait for each other anyway.
	maxCommands = 4
	// defaultLimit is how long one of them may take. One that takes longer waits for a lock or for a device.
	defaultLimit = 40 * time.Second
	// lockFolder is where LVM locks groups.
	lockFolder = "/run/lock/lvm"
)

// Host runs the programs of LVM for all pools of a host. There is one for each host, so that its limits hold.
type Host struct {
	// Limit is how long one program may take. Zero: 40 seconds. It must not change after the first call.
	Limit time.Duration

	runner command.Runner
	slots  chan struct{}

	mu     sync.Mutex
	groups map[string]*group
	filter string // Once it was learned.
}

// group is a lane: what changes a group is done one after the other, and what is asked of it is asked once for all who wait. So a group that hangs
// holds up no other.
type group struct {
	lane chan struct{}
	torn bool     // A program may have been killed. For who has the lane.
	thin []string // The thin pools of ours in it. Under the lock of the host.
	look turn.Look[Report]
}

// NewHost returns the host that runner runs programs on.
func NewHost(runner command.Runner) *Host {
	return &Host{runner: runner, slots: make(chan struct{}, maxCommands), groups: map[string]*group{}}
}

func (h *Host) group(name string) *group {
	h.mu.Lock()
	defer h.mu.Unlock()
	g := h.groups[name]
	if g == nil {
		g = &group{lane: make(chan struct{}, 1), torn: true}
		g.look.Do = func(ctx context.Context) (Report, error) {
			res, err := h.run(ctx, name, "lvm", reportArgs(name)...)
			if err != nil {
				return Report{}, err
			}
			return ParseReport(res.Stdout)
		}
		h.groups[name] = g
	}
	return g
}

// useThinPool notes that a thin pool of a group is ours.
func (h *Host) useThinPool(name, thinPool string) {
	g := h.group(name)
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.Contains(g.thin, thinPool) {
		g.thin = append(g.thin, thinPool)
	}
}

// thinPools returns the thin pools of a group that are ours.
func (h *Host) thinPools(name string) []string {
	g := h.group(name)
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(g.thin)
}

// report returns what LVM says of a group, after the call began.
func (h *Host) report(ctx context.Context, name string) (Report, error) {
	return h.group(name).look.Get(ctx)
}

// change runs a program that changes a group. It ends when the program does, also when ctx is over before: a program of LVM that is killed may
// leave devices suspended.
func (h *Host) change(ctx context.Context, name, program string, args ...string) error {
	g := h.group(name)
	select {
	case g.lane <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-g.lane }()
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	if err := h.mend(ctx, name, g); err != nil {
		return err
	}
	_, err := h.run(ctx, name, program, args...)
	if failed, ok := errors.AsType[*command.Error](err); ok && failed.Kind != command.Exited {
		g.torn = true
	}
	return err
}

// run runs a program when fewer than maxCommands do.
func (h *Host) run(ctx context.Context, name, program string, args ...string) (command.Result, error) {
	select {
	case h.slots <- struct{}{}:
	case <-ctx.Done():
		return command.Result{}, ctx.Err()
	}
	defer func() { <-h.slots }()
	limit := cmp.Or(h.Limit, defaultLimit)
	c := command.Command{Program: program, Args: args, Limit: limit, Env: []string{"LVM_SUPPRESS_FD_WARNINGS=1"}}
	if program != "dmsetup" {
		filter, err := h.devices(ctx)
		if err != nil {
			return command.Result{}, err
		}
		first := 0
		if program == "lvm" {
			first = 1
		}
		c.Args = append(append(append([]string{}, args[:first]...), "--config", filter), args[first:]...)
		if first == 1 {
			c.Args = joinConfig(c.Args)
		}
	}
	res, err := h.runner.Run(ctx, c)
	if failed, ok := errors.AsType[*command.Error](err); ok && failed.Kind == command.TimedOut {
		return res, &HungError{Group: name, Program: program, After: limit, Holder: lockHolder(name), Err: err}
	}
	return res, err
}

// joinConfig makes one --config of two, which is all that LVM takes.
func joinConfig(args []string) []string {
	var config []string
	rest := make([]string, 0, len(args))
	for i := 0; i < len(args); i++ {
		if args[i] == "--config" && i+1 < len(args) {
			config = append(config, args[i+1])
			i++
			continue
		}
		rest = append(rest, args[i])
	}
	return append([]string{rest[0], "--config", strings.Join(config, " ")}, rest[1:]...)
}

// rejected are the devices that LVM never looks into: what lies on volumes belongs to their users, who may have groups of their own in there, and a
// DRBD device that is not connected holds up who opens it.
const rejected = `"r|^/dev/drbd|","r|^/dev/zd[0-9]|","r|^/dev/zvol/|"`

// devices returns the setting that keeps LVM from what is rejected, on top of what the host's own configuration says.
func (h *Host) devices(ctx context.Context) (string, error) {
	h.mu.Lock()
	known := h.filter
	h.mu.Unlock()
	if known != "" {
		return known, nil
	}
	res, err := h.runner.Run(ctx, command.Command{Program: "lvmconfig", Args: []string{"--type", "full", "devices/global_filter"}, Limit: cmp.Or(h.Limit, defaultLimit)})
	if err != nil {
		return "", fmt.Errorf("ask for the configuration of LVM: %w", err)
	}
	own := strings.TrimSpace(string(res.Stdout))
	own = strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(own, "global_filter="), "["), "]")
	filter := "devices{global_filter=[" + rejected
	if own != "" && own != `"a|.*|"` { // That accepts by any name of a device, also one that is not rejected.
		filter += "," + own
	}
	filter += "] scan_lvs=0}"
	h.mu.Lock()
	defer h.mu.Unlock()
	h.filter = filter
	return filter, nil
}

// HungError says that a program of LVM did not end in time.
type HungError struct {
	Group   string
	Program string
	After   time.Duration
	Holder  string // Who holds the lock of the group, where it is known.
	Err     error
}

func (e *HungError) Error() string {
	if e.Holder != "" {
		return fmt.Sprintf("volume group %s: %s did not end after %s: %s holds the lock of the group", e.Group, e.Program, e.After, e.Holder)
	}
	return fmt.Sprintf("volume group %s: %s did not end after %s: a device of the group does not answer, or another program holds its lock", e.Group, e.Program, e.After)
}

// Unwrap returns the cause.
func (e *HungError) Unwrap() error { return e.Err }

// lockHolder names the process that holds the lock of a group, as far as the kernel tells.
func lockHolder(group string) string {
	var st unix.Stat_t
	if err := unix.Stat(lockFolder+"/V_"+group, &st); err != nil {
		return ""
	}
	text, err := os.ReadFile("/proc/locks")
	if err != nil {
		return ""
	}
	pid := holderOf(string(text), unix.Major(st.Dev), unix.Minor(st.Dev), st.Ino)
	if pid == 0 {
		return ""
	}
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return fmt.Sprintf("a program that was started by the process with pid %d, which has ended,", pid)
	}
	return fmt.Sprintf("%s (pid %d)", strings.TrimSpace(string(comm)), pid)
}

// holderOf finds who holds a file locked in the text of /proc/locks, or 0.
func holderOf(text string, major, minor uint32, inode uint64) int {
	want := fmt.Sprintf("%02x:%02x:%d", major, minor, inode)
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 6 || words[1] == "->" || words[5] != want { // Behind an arrow are those who wait.
			continue
		}
		if pid, err := strconv.Atoi(words[4]); err == nil && pid > 0 {
			return pid
		}
	}
	return 0
}
