// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package file

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

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

// Holders implements pool.HolderLister. In a context of inuse.Sharing, one look answers for several calls; whatever takes something down looks anew.
func (p *Pool) Holders(ctx context.Context, id pool.ID) ([]pool.Holder, error) {
	f, end, err := p.begin(ctx, id)
	if err != nil {
		return nil, err
	}
	defer end()
	u, err := p.usageIn(ctx, f, id, p.users.Glance)
	if err != nil {
		return nil, fmt.Errorf("look who uses volume %s of pool %s: %w", id, p.c.Name, err)
	}
	return append(u.device, u.file...), nil
}

// usage looks who uses a volume.
func (p *Pool) usage(ctx context.Context, f *folder, id pool.ID) (usage, error) {
	return p.usageIn(ctx, f, id, p.users.Scan)
}

func (p *Pool) usageIn(ctx context.Context, f *folder, id pool.ID, look func(context.Context) (*inuse.Table, error)) (usage, error) {
	entries, err := p.entries(f, id)
	if err != nil {
		return usage{}, err
	}
	table, err := look(ctx)
	if err != nil {
		return usage{}, err
	}
	var u usage
	for _, e := range entries {
		u.file = append(u.file, p.openers(table, e.file)...)
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

// openers returns who has a file of ours open past the devices. This process only counts as what it copies: its looks at files are no use.
func (p *Pool) openers(table *inuse.Table, file inuse.File) []pool.Holder {
	self := os.Getpid()
	holders := slices.DeleteFunc(table.File(file), func(h pool.Holder) bool { return h.Kind == pool.Opened && h.PID == self })
	for _, what := range p.reads.of(file) {
		holders = append(holders, pool.Holder{Kind: pool.Opened, Name: what, PID: self})
	}
	return holders
}

// over returns the loop devices that others put over a file.
func (l *loops) over(table *inuse.Table, e entry) ([]pool.Holder, error) {
	var holders []pool.Holder
	for _, loop := range table.Loops() {
		if filepath.Base(loop.Backing) != e.name() || elsewhere(loop.Backing, e) {
			continue
		}
		info, isBound, err := l.status(loop.Name)
		if err != nil {
			return nil, err
		}
		if isBound && under(info, e.file) {
			holders = append(holders, pool.Holder{Kind: pool.Stacked, Name: loop.Name})
		}
	}
	return holders, nil
}

// reads are the files that this process copies from, and what becomes of each copy. The zero value is ready for use.
type reads struct {
	mu    sync.Mutex
	files map[inuse.File][]string
}

// add notes a copy until the returned function is called.
func (r *reads) add(file inuse.File, what string) (done func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.files == nil {
		r.files = map[inuse.File][]string{}
	}
	r.files[file] = append(r.files[file], what)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		left := r.files[file]
		i := slices.Index(left, what)
		if left = slices.Delete(left, i, i+1); len(left) == 0 {
			delete(r.files, file)
			return
		}
		r.files[file] = left
	}
}

func (r *reads) of(file inuse.File) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.files[file])
}

// named tells whether a loop device lies over a file with a name of that volume, which may have been unlinked.
func named(loop inuse.Loop, id pool.ID) bool {
	e, ok := parseVolume(filepath.Base(strings.TrimSuffix(loop.Backing, deleted)))
	return ok && e.id == id.Fold()
}

func deviceHolders(table *inuse.Table, name string) ([]pool.Holder, error) {
	var st unix.Stat_t
	if err := unix.Stat(devicePath(name), &st); err != nil {
		return nil, fmt.Errorf("look at %s: %w", name, err)
	}
	return table.Device(st.Rdev)
}
