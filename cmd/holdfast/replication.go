// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent"
	"github.com/holdfast-storage/holdfast/internal/agent/drbd"
	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/inuse"
	"github.com/holdfast-storage/holdfast/internal/command"
)

// lacksDRBD tells what this host lacks for the layer DRBD; empty when it has all. A module of version 9
// that is there and not loaded is loaded. One that is too old is not: it would stand in the way of the
// right one.
func lacksDRBD(ctx context.Context, runner command.Runner, sys string) string {
	for _, program := range []string{"drbdadm", "drbdsetup", "drbdmeta"} {
		_, err := run(ctx, runner, program, "--version")
		if failed, ok := errors.AsType[*command.Error](err); ok && failed.Kind == command.NotInstalled {
			return "the program " + program + " is not installed: install the package drbd-utils"
		}
	}
	version := moduleVersion(ctx, runner, sys)
	switch {
	case version == "":
		return "the kernel module drbd is not there: install the package drbd-dkms of LINBIT, for this kernel"
	case !strings.HasPrefix(version, "9."):
		return fmt.Sprintf("the kernel module drbd is of version %s, and 9 is needed: install the package drbd-dkms of LINBIT", version)
	}
	for _, module := range []string{"drbd", "drbd_transport_tcp"} {
		if loaded(sys, module) {
			continue
		}
		_, err := run(ctx, runner, "modprobe", module)
		if !loaded(sys, module) { // That alone tells.
			return fmt.Sprintf("the kernel module %s cannot be loaded: %v", module, err)
		}
	}
	return ""
}

func loaded(sys, module string) bool {
	_, err := os.Stat(filepath.Join(sys, "module", module))
	return err == nil
}

// moduleVersion is the version of DRBD that is loaded, or else would be; empty when there is none.
func moduleVersion(ctx context.Context, runner command.Runner, sys string) string {
	text, err := os.ReadFile(filepath.Join(sys, "module", "drbd", "version"))
	if err == nil {
		return strings.TrimSpace(string(text))
	}
	found, err := run(ctx, runner, "modinfo", "-F", "version", "drbd")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(found)
}

// defaultState is the folder of what outlives a restart when the agent is given none.
const defaultState = "/var/lib/holdfast/agent"

// replicate lets a machine replicate volumes by DRBD.
func replicate(ctx context.Context, machine *agent.Machine, users *inuse.Scanner, runner command.Runner, state string, log *slog.Logger) error {
	uname, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("ask for the name of this host: %w", err)
	}
	d := drbd.New(drbd.Settings{Runner: runner, Users: func(ctx context.Context, device string) ([]pool.Holder, error) {
		return usersOf(ctx, users, device)
	}})
	resume(ctx, d, log)
	machine.Replicate(agent.Replication{
		DRBD: d, Events: &drbd.Watcher{Runner: runner, Log: log}, Uname: uname, Notes: filepath.Join(cmp.Or(state, defaultState), "formatting"),
	})
	return nil
}

// usersOf returns who uses a block device, which is there.
func usersOf(ctx context.Context, scanner *inuse.Scanner, device string) ([]pool.Holder, error) {
	number, ok, err := inuse.Number(device)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("%s is not there", device)
	}
	table, err := scanner.Scan(ctx)
	if err != nil {
		return nil, err
	}
	return table.Device(number)
}

// resume lets the I/O go on that an agent has left held back which was killed together with its guard.
func resume(ctx context.Context, d *drbd.DRBD, log *slog.Logger) {
	const patience = 10 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := d.Recover(ctx); err != nil {
		log.Error("I/O that an earlier agent may have left held back could not be resumed", "error", err)
	}
}
