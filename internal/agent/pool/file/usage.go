// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package file

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/inuse"
)

// deleted is what the kernel adds to the path of an unlinked file.
const deleted = " (deleted)"

// usage is all that the host has on a volume.
type usage struct {
	bound  []bound
	device []pool.Holder // Who uses its devices.
	file   []pool.Holder // Who uses its file past the devices.
}

// bound is a loop device that the pool bound to a volume's file, or to an earlier file of that name that was unlinked.
type bound struct {
	name string
	uuid string
	file inuse.File
}

// Holders implements pool.HolderLister.
func (p *Pool) Holders(ctx context.Context, id pool.ID) ([]pool.Holder, error) {
	f, end, err := p.begin(ctx, id)
	if err != nil {
		return nil, err
	}
	defer end()
	u, err := p.usage(ctx, f, id)
	if err != nil {
		return nil, fmt.Errorf("look who uses volume %s of pool %s: %w", id, p.c.Name, err)
	}
	return append(u.device, u.file...), nil
}

// usage looks who uses a volume.
func (p *Pool) usage(ctx context.Context, f *folder, id pool.ID) (usage, error) {
	entries, err := p.entries(f, id)
	if err != nil {
		return usage{}, err
	}
	table, err := p.users.Scan(ctx)
	if err != nil {
		return usage{}, err
	}
	var u usage
	for _, e := range entries {
		u.file = append(u.file, table.File(e.file)...)
	}
	for _, loop := range table.Loops() {
		if !named(loop, id) || elsewhere(loop.Backing, entries...) {
			continue
		}
		info, isBound, err := p.loops.status(loop.Name)
		if err != nil {
			return usage{}, err
		}
		if !isBound {
			continue
		}
		if owned(info, f.uuid) {
			u.bound = append(u.bound, bound{name: loop.Name, uuid: f.uuid, file: inuse.File{Dev: info.Device, Ino: info.Inode}})
			holders, err := deviceHolders(table, loop.Name)
			if err != nil {
				return usage{}, err
			}
			u.device = append(u.device, holders...)
		} else if slices.ContainsFunc(entries, func(e entry) bool { return under(info, e.file) }) {
			u.file = append(u.file, pool.Holder{Kind: pool.Stacked, Name: loop.Name})
		}
	}
	return u, nil
}

// named tells whether a loop device lies over a file with a name of that volume, which may have been unlinked.
func named(loop inuse.Loop, id pool.ID) bool {
	base := filepath.Base(strings.TrimSuffix(loop.Backing, deleted))
	return base == id.Name()+finishedSuffix || base == id.Name()+newSuffix
}

func deviceHolders(table *inuse.Table, name string) ([]pool.Holder, error) {
	var st unix.Stat_t
	if err := unix.Stat(devicePath(name), &st); err != nil {
		return nil, fmt.Errorf("look at %s: %w", name, err)
	}
	return table.Device(st.Rdev)
}

// entries returns the files of a volume: none, one, or two when someone else put the second there.
func (p *Pool) entries(f *folder, id pool.ID) ([]entry, error) {
	var entries []entry
	for _, suffix := range []string{finishedSuffix, newSuffix} {
		e, ok, err := p.stat(f, id, id.Name()+suffix, suffix == newSuffix)
		if err != nil {
			return nil, err
		}
		if ok {
			entries = append(entries, e)
		}
	}
	return entries, nil
}
