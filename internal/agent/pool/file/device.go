// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package file

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/inuse"
)

// devicePath returns the path of a device's node.
func devicePath(name string) string { return filepath.Join(devDir, name) }

// Open implements pool.Driver.
func (p *Pool) Open(ctx context.Context, id pool.ID) (pool.Device, error) {
	f, end, err := p.begin(ctx, id)
	if err != nil {
		return pool.Device{}, err
	}
	defer end()
	e, ok, err := p.find(f, id)
	if err != nil {
		return pool.Device{}, err
	}
	if !ok {
		return pool.Device{}, &pool.NotFoundError{Pool: p.c.Name, ID: id}
	}
	device, err := p.open(ctx, f, e)
	if err != nil {
		return pool.Device{}, fmt.Errorf("open volume %s of pool %s: %w", id, p.c.Name, err)
	}
	return device, nil
}

func (p *Pool) open(ctx context.Context, f *folder, e entry) (pool.Device, error) {
	name, err := p.loops.find(f.uuid, e, listLoops)
	if err != nil {
		return pool.Device{}, err
	}
	if name == "" {
		file, err := f.open(e.name(), unix.O_RDWR, 0)
		if err != nil {
			return pool.Device{}, err
		}
		defer func() { _ = file.Close() }()
		if name, err = p.loops.attach(ctx, f.uuid, file); err != nil {
			return pool.Device{}, err
		}
		p.loops.remember(e.file, hint{name: name, seq: sequence(name)})
	}
	if p.loops.keepSpace {
		if err := p.loops.stopDiscards(name); err != nil {
			return pool.Device{}, err
		}
	}
	// A device that was found may be older than the file's size: the agent may have ended in the midst of Grow.
	if err := p.loops.fit(name, e.size); err != nil {
		return pool.Device{}, err
	}
	size, err := p.loops.size(name)
	if err != nil {
		return pool.Device{}, err
	}
	return pool.Device{Path: devicePath(name), Size: size}, nil
}

// Close implements pool.Driver.
func (p *Pool) Close(ctx context.Context, id pool.ID) error {
	f, end, err := p.begin(ctx, id)
	if err != nil {
		return err
	}
	defer end()
	return p.release(ctx, f, id, false)
}

// Remove implements pool.Driver.
func (p *Pool) Remove(ctx context.Context, id pool.ID) error {
	f, end, err := p.begin(ctx, id)
	if err != nil {
		return err
	}
	defer end()
	return p.remove(ctx, f, id)
}

func (p *Pool) remove(ctx context.Context, f *folder, id pool.ID) error {
	entries, err := p.entries(f, id)
	if err != nil {
		return err
	}
	if err := p.release(ctx, f, id, true); err != nil || len(entries) == 0 {
		return err
	}
	// Before the volume, so that a later one with the same inode is not taken for rolled back.
	if err := forgetRollBack(f, id); err != nil {
		return p.unwritable("remove volume "+id.String(), err)
	}
	for _, e := range entries {
		if err := unix.Unlinkat(f.fd(), e.name(), 0); err != nil && !errors.Is(err, unix.ENOENT) {
			return p.unwritable("remove volume "+id.String(), err)
		}
		p.loops.forget(e.file)
	}
	if err := f.dir.Sync(); err != nil {
		return p.unwritable("remove volume "+id.String(), err)
	}
	return nil
}

// release takes the devices of a volume down. It refuses when anyone uses them or, if the file is to be removed, the file.
func (p *Pool) release(ctx context.Context, f *folder, id pool.ID, removing bool) error {
	if !removing {
		if closed, err := p.letGo(f, id); err != nil || closed {
			return err
		}
	}
	holders, err := pool.Lasting(ctx, func(ctx context.Context) ([]pool.Holder, error) {
		u, err := p.usage(ctx, f, id)
		if err != nil {
			return nil, fmt.Errorf("look who uses volume %s of pool %s: %w", id, p.c.Name, err)
		}
		holders := u.device
		if removing {
			holders = append(holders, u.file...)
		}
		if len(holders) > 0 {
			return holders, nil
		}
		if holders, err = p.detach(u.bound); err != nil {
			return nil, fmt.Errorf("close volume %s of pool %s: %w", id, p.c.Name, err)
		}
		return holders, nil
	})
	if err == nil && len(holders) > 0 {
		err = &pool.InUseError{ID: id, Holders: holders}
	}
	return err
}

// letGo takes down what can be taken down without a look for users: no device, or one that the kernel says nobody else has open. It returns false when users
// have to be looked for.
func (p *Pool) letGo(f *folder, id pool.ID) (closed bool, err error) {
	entries, err := p.entries(f, id)
	if err != nil {
		return false, err
	}
	all, err := inuse.Loops(procDir, sysDir)
	if err != nil {
		return false, fmt.Errorf("look for loop devices: %w", err)
	}
	all = slices.DeleteFunc(all, func(loop inuse.Loop) bool { return !named(loop, id) || elsewhere(loop.Backing, entries...) })
	if len(all) != 1 {
		return len(all) == 0, nil
	}
	info, isBound, err := p.loops.status(all[0].Name)
	if err != nil || !isBound || !owned(info, f.uuid) {
		return false, err
	}
	holder, err := p.loops.detach(all[0].Name, func(now *unix.LoopInfo64) bool {
		return owned(now, f.uuid) && now.Device == info.Device && now.Inode == info.Inode
	})
	return holder == nil && err == nil, err
}

// detach takes devices down and returns whoever kept one.
func (p *Pool) detach(devices []bound) ([]pool.Holder, error) {
	for _, d := range devices {
		holder, err := p.loops.detach(d.name, func(info *unix.LoopInfo64) bool { return owned(info, d.uuid) && under(info, d.file) })
		if err != nil {
			return nil, err
		}
		if holder != nil {
			return []pool.Holder{*holder}, nil
		}
	}
	return nil, nil
}
