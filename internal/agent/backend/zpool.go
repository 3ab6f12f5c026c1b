// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent/device"
	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/command"
	"github.com/holdfast-storage/holdfast/internal/errs"
)

// propOfZpool is the property of the root dataset of a zpool that was made here; its value is the mark of the making.
const propOfZpool = "holdfast:backend"

// zpools makes zpools.
type zpools struct {
	finder *device.Finder
	run    Programs
}

// exists implements maker.
func (z zpools) exists(ctx context.Context, w spec) (bool, error) {
	mark, there, err := z.mark(ctx, w.Name)
	if err != nil || !there {
		return false, err
	}
	if !strings.HasPrefix(mark, markOf(w.Provider)) {
		return false, taken("zpool", w.Name, "it was not made here for the provider %s", w.Provider)
	}
	disks, err := z.disks(ctx, w.Name)
	if err != nil {
		return false, err
	}
	if !sameDevices(disks, w.Devices) {
		return false, taken("zpool", w.Name, "it consists of %s", strings.Join(disks, ", "))
	}
	return true, nil
}

// mark returns the mark of a zpool, or "-" when it has none, and whether the zpool is there.
func (z zpools) mark(ctx context.Context, name string) (mark string, there bool, err error) {
	res, err := z.run.Run(ctx, name, "zfs", "get", "-H", "-o", "value", propOfZpool, name)
	if command.Said(err, "does not exist") {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("look for a zpool %s: %w", name, err)
	}
	return strings.TrimSpace(string(res.Stdout)), true, nil
}

// disks returns the devices that a zpool consists of: of a partition that ZFS made, the disk.
func (z zpools) disks(ctx context.Context, name string) ([]string, error) {
	res, err := z.run.Run(ctx, name, "zpool", "list", "-v", "-H", "-P", "-L", name)
	if err != nil {
		return nil, fmt.Errorf("look what zpool %s consists of: %w", name, err)
	}
	blocks, err := z.finder.Blocks(ctx)
	if err != nil {
		return nil, err
	}
	var list []string
	for line := range strings.Lines(string(res.Stdout)) {
		words := strings.Fields(line)
		if len(words) == 0 || !strings.HasPrefix(words[0], "/dev/") {
			continue
		}
		disk := words[0]
		if parent, ok := whole(blocks, disk); ok {
			disk = parent
		}
		list = append(list, disk)
	}
	return list, nil
}

// Types of the partitions that ZFS makes of a disk, as the table has them: for its data, and one that is reserved.
const (
	typeData     = "6a898cc3-1dd2-11b2-99a6-080020736631"
	typeReserved = "6a945a3b-1dd2-11b2-99a6-080020736631"
)

// partitioned tells whether ZFS has made all partitions of a device.
func partitioned(b device.Block) bool {
	return len(b.Children) > 0 && !slices.ContainsFunc(b.Children, func(c device.Block) bool {
		t := strings.ToLower(c.PartType)
		return c.Type != "part" || len(c.Children) > 0 || t != typeData && t != typeReserved
	})
}

// whole returns the disk of a partition, when ZFS has made all its partitions.
func whole(list []device.Block, path string) (string, bool) {
	for _, b := range list {
		if partitioned(b) && slices.ContainsFunc(b.Children, func(c device.Block) bool { return c.Path == path }) {
			return b.Path, true
		}
	}
	return "", false
}

// make implements maker.
func (z zpools) make(ctx context.Context, r record) error {
	w := r.spec()
	// Without -f, zpool refuses a disk that has no partition table.
	args := append([]string{"create", "-f", "-m", "none", "-O", propOfZpool + "=" + r.mark(), w.Name}, w.Devices...)
	if _, err := z.run.Run(ctx, w.Name, "zpool", args...); err != nil {
		return fmt.Errorf("make the zpool %s of %s: %w", w.Name, strings.Join(w.Devices, ", "), err)
	}
	return nil
}

// undo implements maker.
func (z zpools) undo(ctx context.Context, r record) error {
	z.finder.Settle(ctx)
	blocks, err := z.finder.Blocks(ctx)
	if err != nil {
		return err
	}
	if err := z.destroy(ctx, r, blocks); err != nil {
		return err
	}
	for _, m := range r.Members {
		if err := z.wipe(ctx, r, m, blocks); err != nil {
			return err
		}
	}
	z.finder.Settle(ctx)
	return nil
}

// destroy destroys the zpool of a making, unless someone has made something in it. One that a crash of the host has left without its
// being known here is taken in first, to see whose it is.
func (z zpools) destroy(ctx context.Context, r record, blocks []device.Block) error {
	mark, there, err := z.mark(ctx, r.Name)
	if err != nil {
		return err
	}
	imported := false
	if !there {
		if imported, err = z.take(ctx, r, blocks); err != nil || !imported {
			return err
		}
		if mark, there, err = z.mark(ctx, r.Name); err != nil {
			return err
		}
	}
	if there && mark != r.mark() {
		if !imported {
			return nil
		}
		if _, err := z.run.Run(ctx, r.Name, "zpool", "export", r.Name); err != nil {
			return fmt.Errorf("the zpool %s of others was imported, and is so still: %w", r.Name, err)
		}
		return errs.New(errs.InUse, errs.Node, "the devices of zpool %s are left", r.Name).Because("others have made a zpool of that name on them")
	}
	res, err := z.run.Run(ctx, r.Name, "zfs", "list", "-H", "-r", "-t", "all", "-o", "name", r.Name)
	if err != nil {
		return fmt.Errorf("the zpool %s is left: %w", r.Name, err)
	}
	for line := range strings.Lines(string(res.Stdout)) {
		if name := strings.TrimSpace(line); name != r.Name {
			return errs.New(errs.InUse, errs.Node, "the zpool %s is left", r.Name).Because("someone has made %s in it", name)
		}
	}
	if _, err := z.run.Run(ctx, r.Name, "zpool", "destroy", r.Name); err != nil {
		return fmt.Errorf("the zpool %s is left: %w", r.Name, err)
	}
	return nil
}

// member is what ZFS calls a part of a zpool, as blkid has it.
const memberType = "zfs_member"

// take imports the zpool of a making without mounting anything, when its devices have one of that name.
func (z zpools) take(ctx context.Context, r record, blocks []device.Block) (bool, error) {
	args := []string{"import", "-N", "-o", "cachefile=none"}
	found := false
	for _, m := range r.Members {
		b, ok := z.finder.Find(blocks, m.Path)
		if !ok || !m.is(b) {
			continue
		}
		parts := b.Children
		if len(parts) == 0 {
			parts = []device.Block{b}
		}
		for _, p := range parts {
			s, err := z.finder.Signature(ctx, p.Path)
			if err != nil {
				return false, err
			}
			if s.Type == memberType && s.Label == r.Name && z.finder.Unclaimed(p.Path) == nil {
				args, found = append(args, "-d", p.Path), true
			}
		}
	}
	if !found {
		return false, nil
	}
	_, err := z.run.Run(ctx, r.Name, "zpool", append(args, r.Name)...)
	if command.Said(err, "no such pool") { // It was destroyed, or never became one.
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("the devices of zpool %s are left: %w", r.Name, err)
	}
	return true, nil
}

// is tells whether a device is the one that a making has begun with, as far as hardware tells.
func (m member) is(b device.Block) bool {
	return b.Size == m.Size && b.Serial == m.Serial && b.WWN == m.WWN
}

// released waits for a moment until nobody in the kernel claims a device, which ZFS may do a little longer than its program runs.
func (z zpools) released(ctx context.Context, path string) bool {
	const (
		tries = 20
		pause = 50 * time.Millisecond
	)
	for try := 1; ; try++ {
		if z.finder.Unclaimed(path) == nil {
			return true
		}
		if try == tries || pool.Pause(ctx, pause) != nil {
			return false
		}
	}
}

// wipe takes what ZFS has left on a device away. It leaves a device with anything else on it, or that someone uses.
func (z zpools) wipe(ctx context.Context, r record, m member, blocks []device.Block) error {
	b, ok := z.finder.Find(blocks, m.Path)
	if !ok || !m.is(b) || len(b.Children) > 0 && !partitioned(b) {
		return nil
	}
	if !z.released(ctx, b.Path) { // By someone who has made something else of it.
		return nil
	}
	for _, part := range append(slices.Clone(b.Children), b) {
		s, err := z.finder.Signature(ctx, part.Path)
		switch {
		case err != nil:
			return err
		case s.None():
			continue
		case s.Type == memberType && s.Label == r.Name:
			_, _ = z.run.Run(ctx, r.Name, "zpool", "labelclear", "-f", part.Path) // What it leaves, wipefs does not.
		case part.Path == b.Path && len(b.Children) > 0 && s.Type == "" && !s.Several:
			// The table of the partitions that were just wiped.
		default:
			return nil
		}
		if _, err := z.run.Run(ctx, r.Name, "wipefs", "--all", "--quiet", part.Path); err != nil {
			return fmt.Errorf("device %s still has what ZFS has written to it: %w", part.Path, err)
		}
	}
	return nil
}
