// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package freeze

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/inuse"
	"github.com/holdfast-storage/holdfast/internal/command"
)

// process is a process, also when its number was given to another one later.
type process struct {
	PID   int    `json:"pid"`
	Start string `json:"start"` // In ticks since boot, as /proc tells it.
}

// identify returns what a process is known by.
func identify(pid int) (process, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return process{}, err
	}
	// The name of the program, in brackets, may hold blanks and brackets.
	_, rest, _ := strings.Cut(string(text[strings.LastIndexByte(string(text), ')')+1:]), " ")
	fields := strings.Fields(rest)
	const state, start = 0, 19 // The 3rd and the 22nd field of the line.
	if len(fields) <= start {
		return process{}, fmt.Errorf("process %d: %q is not what the kernel should tell", pid, text)
	}
	if fields[state] == "Z" || fields[state] == "X" { // It has ended, and its parent was not told yet.
		return process{}, fmt.Errorf("process %d: %w", pid, unix.ESRCH)
	}
	return process{PID: pid, Start: fields[start]}, nil
}

// gone tells whether a process has ended. One that cannot be looked at is not gone.
func (p process) gone() bool {
	now, err := identify(p.PID)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH)
	}
	return now != p
}

// wait waits for the end of a process.
func (p process) wait(ctx context.Context) error {
	const look = 20 * time.Millisecond
	for !p.gone() {
		t := time.NewTimer(look)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return fmt.Errorf("wait for process %d to end: %w", p.PID, ctx.Err())
		}
	}
	return nil
}

// note says what is frozen, for an agent that comes later.
type note struct {
	Agent    process `json:"agent"`
	Guard    process `json:"guard"`
	Device   uint64  `json:"device"`
	Sequence string  `json:"sequence"` // Of the device.
	Type     string  `json:"type"`     // Of the filesystem.

	path string
}

const (
	noteSuffix  = ".json"
	draftSuffix = ".draft"
)

// write writes a new note. It appears whole or not at all. It need not survive a power cut: neither does a freeze.
func (n *note) write(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make a note: %w", err)
	}
	text, err := json.Marshal(n)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, uuid.NewString())
	if err := os.WriteFile(path+draftSuffix, text, 0o600); err != nil {
		return fmt.Errorf("make a note: %w", errors.Join(err, os.Remove(path+draftSuffix)))
	}
	if err := os.Rename(path+draftSuffix, path+noteSuffix); err != nil {
		return fmt.Errorf("make a note: %w", err)
	}
	n.path = path + noteSuffix
	return nil
}

// remove removes the note if it was written.
func (n *note) remove() error {
	if n.path == "" {
		return nil
	}
	if err := os.Remove(n.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Recover thaws what processes that have died since left frozen. It does nothing when an earlier call did it.
func (z *Freezer) Recover(ctx context.Context) error {
	z.recovery.Lock()
	defer z.recovery.Unlock()
	if z.clean {
		return nil
	}
	entries, err := os.ReadDir(z.c.Notes)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("look for frozen filesystems: %w", err)
	}
	var errs []error
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), noteSuffix) {
			errs = append(errs, z.recoverNote(ctx, filepath.Join(z.c.Notes, e.Name())))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("thaw what an earlier process left frozen: %w", err)
	}
	z.clean = true
	return nil
}

// recoverNote works off one note, unless its agent lives.
func (z *Freezer) recoverNote(ctx context.Context, path string) error {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	n := note{path: path}
	if err := json.Unmarshal(text, &n); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if !n.Agent.gone() {
		return nil
	}
	// It thaws now, because its connection is broken.
	if err := n.Guard.wait(ctx); err != nil {
		return err
	}
	if sequence(n.Device) != n.Sequence {
		return n.remove() // The device is gone, and the filesystem with it.
	}
	mounts, err := mountsOf(ctx, n.Device)
	if err != nil {
		return err
	}
	req, err := json.Marshal(recoverRequest{Device: n.Device, Type: n.Type, Mounts: mounts})
	if err != nil {
		return err
	}
	_, err = z.c.Runner.Run(ctx, command.Command{
		Program: z.c.Helper[0], Args: append(slices.Clone(z.c.Helper[1:]), recoverVerb, deviceName(n.Device)), Stdin: req, Limit: recoverLimit,
	})
	if err != nil {
		return err
	}
	return n.remove()
}

// recoverLimit bounds the opening of a filesystem that may be frozen.
const recoverLimit = 30 * time.Second

// mountsOf returns where a device is mounted.
func mountsOf(ctx context.Context, device uint64) ([]Mount, error) {
	table, err := new(inuse.Scanner).Scan(ctx)
	if err != nil {
		return nil, err
	}
	holders, err := table.Device(device)
	if err != nil {
		return nil, err
	}
	return Mounts(holders), nil
}

// Mounts returns the mounts among the users of a device.
func Mounts(holders []pool.Holder) []Mount {
	var mounts []Mount
	for _, h := range holders {
		if h.Kind == pool.Mounted {
			mounts = append(mounts, Mount{PID: h.PID, Point: h.Name})
		}
	}
	return mounts
}

// recoverRequest is what a helper is asked that thaws, as JSON on its standard input.
type recoverRequest struct {
	Device uint64  `json:"device"`
	Type   string  `json:"type"`
	Mounts []Mount `json:"mounts"`
}

// recoverDevice thaws the filesystem on a device, if it is frozen.
func recoverDevice(req recoverRequest) error {
	root, _, err := Open(req.Device, req.Mounts)
	if err != nil {
		if root, err = openUnseen(req, err); root == nil {
			return err
		}
	}
	defer func() { _ = root.Close() }()
	if err := thaw(root); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("thaw %s: %w", deviceName(req.Device), err)
	}
	return nil
}

// openUnseen opens a filesystem that is mounted nowhere although the kernel still has it, as it has one that was frozen and then unmounted. It returns
// nothing when the kernel does not have it.
func openUnseen(req recoverRequest, seen error) (*os.File, error) {
	device := deviceName(req.Device)
	fd, err := unix.Open(device, unix.O_RDONLY|unix.O_EXCL|unix.O_CLOEXEC, 0)
	if err == nil {
		return nil, unix.Close(fd) // Nobody claims it: there is no filesystem.
	}
	if !errors.Is(err, unix.EBUSY) {
		return nil, errors.Join(seen, err)
	}
	// To mount it again gives the very filesystem that is frozen.
	ctx, err := unix.Fsopen(req.Type, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, errors.Join(seen, err)
	}
	defer func() { _ = unix.Close(ctx) }()
	if err := errors.Join(unix.FsconfigSetString(ctx, "source", device), unix.FsconfigCreate(ctx)); err != nil {
		return nil, errors.Join(seen, fmt.Errorf("mount %s: %w", device, err))
	}
	mount, err := unix.Fsmount(ctx, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return nil, errors.Join(seen, fmt.Errorf("mount %s: %w", device, err))
	}
	defer func() { _ = unix.Close(mount) }()
	root, err := unix.Openat(mount, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, errors.Join(seen, err)
	}
	return os.NewFile(uintptr(root), device), nil
}
