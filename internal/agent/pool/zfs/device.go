// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package zfs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/inuse"
	"github.com/holdfast-storage/holdfast/internal/command"
)

const (
	// ZFS makes and removes devices some time after its command has ended.
	deviceTries = 1200 // A minute: udev has much to do on a host that has.
	closeTries  = 10
	lookPause   = 50 * time.Millisecond // between two looks
	sector      = 512
)

// devicePath is where a zvol has its device. udev makes it.
func (p *Pool) devicePath(name string) string { return filepath.Join("/dev/zvol", p.c.Dataset, name) }

// device returns the device of a volume, or none.
func (p *Pool) device(name string) (pool.Device, error) {
	path := p.devicePath(name)
	rdev, ok, err := inuse.Number(path)
	if err != nil || !ok {
		return pool.Device{}, err
	}
	text, err := os.ReadFile(fmt.Sprintf("/sys/dev/block/%d:%d/size", unix.Major(rdev), unix.Minor(rdev)))
	if errors.Is(err, os.ErrNotExist) {
		return pool.Device{}, nil
	}
	if err != nil {
		return pool.Device{}, fmt.Errorf("look at the size of %s: %w", path, err)
	}
	sectors, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return pool.Device{}, fmt.Errorf("the size of %s is %q: %w", path, text, err)
	}
	return pool.Device{Path: path, Size: sectors * sector}, nil
}

// Open implements pool.Driver.
func (p *Pool) Open(ctx context.Context, id pool.ID) (pool.Device, error) {
	r, end, err := p.begin(ctx, id)
	if err != nil {
		return pool.Device{}, err
	}
	defer end()
	e, ok := find(r, id)
	if !ok {
		return pool.Device{}, &pool.NotFoundError{Pool: p.c.Name, ID: id}
	}
	if !e.Open {
		if err := p.c.Host.change(ctx, p.c.Dataset, "set", "volmode=dev", p.path(e.Name)); err != nil {
			return pool.Device{}, fmt.Errorf("open volume %s of pool %s: %w", id, p.c.Name, err)
		}
	}
	return p.fit(ctx, e)
}

// fit waits until the device of a volume is there and as large as the volume.
func (p *Pool) fit(ctx context.Context, e entry) (pool.Device, error) {
	for range deviceTries {
		d, err := p.device(e.Name)
		if err != nil {
			return pool.Device{}, err
		}
		if d.Size == e.Size {
			// Its name may be that of an earlier device, which udev is about to take away.
			if err := p.settle(ctx); err != nil {
				return pool.Device{}, err
			}
			again, err := p.device(e.Name)
			if err != nil {
				return pool.Device{}, err
			}
			if again == d {
				if there, err := openable(d.Path); err != nil || there {
					return d, err
				}
			}
		}
		if err := pool.Pause(ctx, lookPause); err != nil {
			return pool.Device{}, err
		}
	}
	return pool.Device{}, fmt.Errorf("open volume %s of pool %s: %s does not become a device of %d bytes: look whether udev runs, with ZFS's rules", e.id, p.c.Name, p.devicePath(e.Name), e.Size)
}

// openable tells whether a device can be opened, and is not one that ZFS is just taking away.
func openable(path string) (bool, error) {
	f, err := os.Open(path)
	if vanished(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, f.Close()
}

// vanished tells whether a device could not be opened since it is gone, or going.
func vanished(err error) bool {
	return errors.Is(err, unix.ENXIO) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENOENT)
}

// Close implements pool.Driver.
func (p *Pool) Close(ctx context.Context, id pool.ID) error {
	r, end, err := p.begin(ctx, id)
	if err != nil {
		return err
	}
	defer end()
	e, ok := find(r, id)
	if !ok {
		return nil
	}
	return p.shut(ctx, e)
}

// shut takes the device of a volume down. ZFS does that when nobody has it open, and says nothing when it does not.
func (p *Pool) shut(ctx context.Context, e entry) error {
	_, there, err := inuse.Number(p.devicePath(e.Name))
	if err != nil || !there && !e.Open {
		return err
	}
	if err := p.unused(ctx, e); err != nil {
		return err
	}
	set := func(mode string) error {
		return p.c.Host.change(ctx, p.c.Dataset, "set", "volmode="+mode, p.path(e.Name))
	}
	if !e.Open { // What an earlier call left: only a change has ZFS look again.
		if err := set("dev"); err != nil {
			return fmt.Errorf("close volume %s of pool %s: %w", e.id, p.c.Name, err)
		}
	}
	if err := set("none"); err != nil {
		return fmt.Errorf("close volume %s of pool %s: %w", e.id, p.c.Name, err)
	}
	for range closeTries {
		if err := p.settle(ctx); err != nil {
			return err
		}
		if _, there, err := inuse.Number(p.devicePath(e.Name)); err != nil || !there {
			return err
		}
		if err := pool.Pause(ctx, lookPause); err != nil {
			return err
		}
		// Someone had it open at that moment, udev most likely. ZFS looks again only at a change.
		if err := set("dev"); err != nil {
			return fmt.Errorf("close volume %s of pool %s: %w", e.id, p.c.Name, err)
		}
		if err := p.unused(ctx, e); err != nil {
			return err
		}
		if err := set("none"); err != nil {
			return fmt.Errorf("close volume %s of pool %s: %w", e.id, p.c.Name, err)
		}
	}
	if err := set("dev"); err != nil {
		return fmt.Errorf("close volume %s of pool %s: %w", e.id, p.c.Name, err)
	}
	return p.stillUsed(ctx, e)
}

// settle waits until udev has done what it was told by the kernel, so that no late word of a device that is gone takes the name of one that has come.
func (p *Pool) settle(ctx context.Context) error {
	const patience = 10 * time.Second
	_, err := p.c.Host.runner.Run(ctx, command.Command{Program: "udevadm", Args: []string{"settle", "--timeout", "8"}, Limit: patience})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	_ = err // It has more to do, or is not there: what counts is what is seen of the device.
	return nil
}

// Holders implements pool.HolderLister.
func (p *Pool) Holders(ctx context.Context, id pool.ID) ([]pool.Holder, error) {
	r, end, err := p.glance(ctx, id)
	if err != nil {
		return nil, err
	}
	defer end()
	e, ok := find(r, id)
	if !ok {
		return nil, nil
	}
	return p.holders(ctx, e)
}

// holders looks who uses the device of a volume.
func (p *Pool) holders(ctx context.Context, e entry) ([]pool.Holder, error) {
	rdev, ok, err := inuse.Number(p.devicePath(e.Name))
	if err != nil || !ok {
		return nil, err
	}
	table, err := p.users.Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("look who uses volume %s of pool %s: %w", e.id, p.c.Name, err)
	}
	return table.Device(rdev)
}

// unused refuses when anyone uses the device of a volume.
func (p *Pool) unused(ctx context.Context, e entry) error {
	holders, err := pool.Lasting(ctx, func(ctx context.Context) ([]pool.Holder, error) { return p.holders(ctx, e) })
	if err == nil && len(holders) > 0 {
		err = &pool.InUseError{ID: e.id, Holders: holders}
	}
	return err
}

// stillUsed is the error when the kernel refused although nobody was seen.
func (p *Pool) stillUsed(ctx context.Context, e entry) error {
	holders, err := p.holders(ctx, e)
	if err != nil {
		return err
	}
	if len(holders) == 0 {
		holders = []pool.Holder{{Kind: pool.Claimed, Name: "a user that was not found"}}
	}
	return &pool.InUseError{ID: e.id, Holders: holders}
}
