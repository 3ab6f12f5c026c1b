// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package luks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/freeze"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/inuse"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/turn"
	"github.com/holdfast-storage/holdfast/internal/command"
)

// Config says how volumes are encrypted.
type Config struct {
	// Key gives the key of a volume: at least 32 random bytes. A *LockedError when there is none yet.
	Key func(ctx context.Context, id pool.ID) ([]byte, error)

	Runner        command.Runner
	Users         *inuse.Scanner  // Shared by all pools of a host, to save work. Nil: one of its own.
	Freezer       *freeze.Freezer // Freezes filesystems for snapshots. Nil: nothing is frozen.
	FormatOptions []string        // More arguments for cryptsetup luksFormat.
	OpenOptions   []string        // More arguments for cryptsetup open.
}

// Driver is a pool whose volumes are encrypted. It implements pool.Driver, pool.Finder, pool.HolderLister and pool.Checker.
type Driver struct {
	c     Config
	below pool.Driver
	turns turn.Turns
}

// Over returns the pool of encrypted volumes in below. It takes snapshots, makes clones and rolls back when below does all three, and then holds writers back when
// below does.
func Over(below pool.Driver, c Config) pool.Driver {
	if c.Users == nil {
		c.Users = &inuse.Scanner{}
	}
	d := &Driver{c: c, below: below}
	copies, ok := below.(copier)
	if !ok {
		return d
	}
	above := &Copier{Driver: d, below: copies}
	if s, ok := below.(pool.Suspender); ok {
		return &Suspender{Copier: above, below: s}
	}
	return above
}

// Raw returns the pool below, and the size there of a volume of size bytes: what is copied there
// as it is keeps its header, and needs no key.
func (d *Driver) Raw(size int64) (pool.Driver, int64) { return d.below, size + HeaderSize }

// add is the size of the volume below.
func add(size int64) (int64, error) {
	if size <= 0 || size+HeaderSize < size {
		return 0, &pool.SizeError{Asked: size}
	}
	return size + HeaderSize, nil
}

// take waits for the turn of volumes.
func (d *Driver) take(ctx context.Context, ids ...pool.ID) (release func(), err error) {
	keys := make([]string, len(ids))
	for i, id := range ids {
		if err := id.Validate(); err != nil {
			return nil, err
		}
		keys[i] = id.Name()
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return d.turns.Take(ctx, keys...)
}

// Space implements pool.Driver.
func (d *Driver) Space(ctx context.Context) (pool.Space, error) { return d.below.Space(ctx) }

// Check implements pool.Checker.
func (d *Driver) Check(ctx context.Context) error {
	if c, ok := d.below.(pool.Checker); ok {
		if err := c.Check(ctx); err != nil {
			return err
		}
	}
	return d.crypt(ctx, nil, "--version")
}

// List implements pool.Driver.
func (d *Driver) List(ctx context.Context) ([]pool.Volume, error) {
	volumes, err := d.below.List(ctx)
	if err != nil {
		return nil, err
	}
	for i, v := range volumes {
		if volumes[i], err = seen(v); err != nil {
			return nil, err
		}
	}
	return volumes, nil
}

// Find implements pool.Finder.
func (d *Driver) Find(ctx context.Context, id pool.ID) (pool.Volume, bool, error) {
	release, err := d.take(ctx, id)
	if err != nil {
		return pool.Volume{}, false, err
	}
	defer release()
	v, ok, err := pool.Find(ctx, d.below, id)
	if err != nil || !ok {
		return pool.Volume{}, false, err
	}
	v, err = seen(v)
	return v, err == nil, err
}

// seen is what a user sees of a volume below.
func seen(v pool.Volume) (pool.Volume, error) {
	v.Size = max(0, v.Size-HeaderSize)
	below := v.Device
	v.Device = pool.Device{}
	if below.Path == "" {
		return v, nil
	}
	if v.Backing == "" {
		v.Backing = below.Path
	}
	device, ok, err := mapped(v.ID, below)
	if ok {
		v.Device = device
	}
	return v, err
}

// Create implements pool.Driver.
func (d *Driver) Create(ctx context.Context, id pool.ID, size int64) error {
	release, err := d.take(ctx, id)
	if err != nil {
		return err
	}
	defer release()
	gross, err := add(size)
	if err != nil {
		return err
	}
	v, ok, err := pool.Find(ctx, d.below, id)
	if err != nil {
		return err
	}
	if ok && v.New && v.Device.Path != "" { // It may be replaced, and that is not to be in the way of it.
		want, err := pool.RoundUp(gross, v.Granularity)
		if err != nil {
			return &pool.SizeError{Asked: size}
		}
		if v.Size == want {
			return nil
		}
		if err := d.shut(ctx, id); err != nil {
			return err
		}
	}
	return inNet(d.below.Create(ctx, id, gross))
}

// inNet tells errors about sizes in those that a user sees.
func inNet(err error) error {
	if e, ok := errors.AsType[*pool.ExistsError](err); ok {
		return &pool.ExistsError{Pool: e.Pool, ID: e.ID, Snapshot: e.Snapshot, Size: max(0, e.Size-HeaderSize)}
	}
	if e, ok := errors.AsType[*pool.SizeError](err); ok {
		return &pool.SizeError{Asked: e.Asked - HeaderSize, Limit: max(0, e.Limit-HeaderSize), Least: max(0, e.Least-HeaderSize)}
	}
	return err
}

// Finish implements pool.Driver. A volume that was never open gets its header now.
func (d *Driver) Finish(ctx context.Context, id pool.ID) error {
	release, err := d.take(ctx, id)
	if err != nil {
		return err
	}
	defer release()
	v, ok, err := pool.Find(ctx, d.below, id)
	if err != nil {
		return err
	}
	if !ok || !v.New {
		return d.below.Finish(ctx, id)
	}
	device, open, err := mapped(id, v.Device)
	switch {
	case err != nil:
	case open:
		err = flush(device.Path)
	default:
		err = d.head(ctx, v)
	}
	if err != nil {
		return fmt.Errorf("finish volume %s: %w", id, err)
	}
	return d.below.Finish(ctx, id)
}

// head gives a NEW volume that is not open a header, unless it has one. One that was made from another has that of its source, which is never replaced, and needs
// no key to be finished.
func (d *Driver) head(ctx context.Context, v pool.Volume) error {
	below, err := d.below.Open(ctx, v.ID)
	if err != nil {
		return err
	}
	err = d.hasHeader(ctx, v.ID, below.Path)
	if _, none := errors.AsType[*HeaderError](err); none {
		var key []byte
		if key, err = d.key(ctx, v.ID); err == nil {
			err = d.format(ctx, below.Path, key)
		}
	}
	return errors.Join(err, d.closeBelow(ctx, v))
}

// closeBelow closes what is below a volume unless it was open before.
func (d *Driver) closeBelow(ctx context.Context, v pool.Volume) error {
	if v.Device.Path != "" {
		return nil
	}
	return d.below.Close(ctx, v.ID)
}

func flush(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Open implements pool.Driver.
func (d *Driver) Open(ctx context.Context, id pool.ID) (pool.Device, error) {
	release, err := d.take(ctx, id)
	if err != nil {
		return pool.Device{}, err
	}
	defer release()
	v, ok, err := pool.Find(ctx, d.below, id)
	if err != nil {
		return pool.Device{}, err
	}
	if !ok {
		_, err := d.below.Open(ctx, id)
		return pool.Device{}, err
	}
	return d.open(ctx, v)
}

// open makes the mapping of a volume, or finds the one that it has, and makes it as large as the volume.
func (d *Driver) open(ctx context.Context, v pool.Volume) (pool.Device, error) {
	below, err := d.below.Open(ctx, v.ID)
	if err != nil {
		return pool.Device{}, err
	}
	device, ok, err := mapped(v.ID, below)
	if err != nil {
		return pool.Device{}, err
	}
	if !ok {
		err := d.unlockOrFormat(ctx, v, below)
		if err != nil {
			return pool.Device{}, errors.Join(err, d.closeBelow(ctx, v))
		}
		if device, ok, err = mapped(v.ID, below); err != nil || !ok {
			return pool.Device{}, errors.Join(err, fmt.Errorf("volume %s was unlocked, and %s is not there", v.ID, mappingPath(v.ID)))
		}
	}
	return d.fit(ctx, v.ID, below, device)
}

// unlockOrFormat unlocks a volume. A NEW one that cannot be unlocked gets a header.
func (d *Driver) unlockOrFormat(ctx context.Context, v pool.Volume, below pool.Device) error {
	key, err := d.key(ctx, v.ID)
	if err != nil {
		return err
	}
	err = d.hasHeader(ctx, v.ID, below.Path)
	if err == nil {
		err = d.unlock(ctx, v.ID, below.Path, key)
	}
	_, wrong := errors.AsType[*WrongKeyError](err)
	_, none := errors.AsType[*HeaderError](err)
	if !v.New || !wrong && !none || isCopy(ctx) {
		return err
	}
	if err := d.format(ctx, below.Path, key); err != nil {
		return fmt.Errorf("encrypt volume %s: %w", v.ID, err)
	}
	return d.unlock(ctx, v.ID, below.Path, key)
}

// fit makes a mapping as large as what it lies on admits.
func (d *Driver) fit(ctx context.Context, id pool.ID, below, device pool.Device) (pool.Device, error) {
	want := below.Size - HeaderSize
	if device.Size == want {
		return device, nil
	}
	key, err := d.key(ctx, id)
	if err != nil {
		return pool.Device{}, err
	}
	if err := d.crypt(ctx, key, "resize", "--key-file", "-", mapping(id)); err != nil {
		return pool.Device{}, fmt.Errorf("enlarge the device of volume %s: %w", id, err)
	}
	device, ok, err := mapped(id, below)
	if err != nil {
		return pool.Device{}, err
	}
	if !ok || device.Size != want {
		return pool.Device{}, fmt.Errorf("enlarge the device of volume %s: it has %d bytes, and should have %d", id, device.Size, want)
	}
	return device, nil
}

// Close implements pool.Driver.
func (d *Driver) Close(ctx context.Context, id pool.ID) error {
	release, err := d.take(ctx, id)
	if err != nil {
		return err
	}
	defer release()
	if err := d.shut(ctx, id); err != nil {
		return err
	}
	return d.below.Close(ctx, id)
}

// shut takes the mapping of a volume down.
func (d *Driver) shut(ctx context.Context, id pool.ID) error {
	_, ok, err := mapped(id, pool.Device{})
	if err != nil || !ok {
		return err
	}
	if err := d.unused(ctx, id); err != nil {
		return err
	}
	err = d.crypt(ctx, nil, "close", mapping(id))
	if exited(err, exitBusy) {
		if used := d.unused(ctx, id); used != nil {
			return used
		}
		return &pool.InUseError{ID: id, Holders: []pool.Holder{{Kind: pool.Claimed, Name: "a user that was not found"}}}
	}
	if err != nil {
		return fmt.Errorf("close volume %s: %w", id, err)
	}
	return nil
}

// Grow implements pool.Driver.
func (d *Driver) Grow(ctx context.Context, id pool.ID, size int64) error {
	release, err := d.take(ctx, id)
	if err != nil {
		return err
	}
	defer release()
	gross, err := add(size)
	if err != nil {
		return err
	}
	if err := inNet(d.below.Grow(ctx, id, gross)); err != nil {
		return err
	}
	v, ok, err := pool.Find(ctx, d.below, id)
	if err != nil || !ok || v.Device.Path == "" {
		return err
	}
	device, open, err := mapped(id, v.Device)
	if err != nil || !open {
		return err
	}
	_, err = d.fit(ctx, id, v.Device, device)
	return err
}

// Remove implements pool.Driver.
func (d *Driver) Remove(ctx context.Context, id pool.ID) error {
	release, err := d.take(ctx, id)
	if err != nil {
		return err
	}
	defer release()
	v, ok, err := pool.Find(ctx, d.below, id)
	if err != nil {
		return err
	}
	if ok && v.Device.Path != "" { // A mapping of that name over something else belongs to a volume of another pool.
		lies, err := isOver(id, v.Device)
		if err != nil {
			return err
		}
		if lies {
			if err := d.shut(ctx, id); err != nil {
				return err
			}
		}
	}
	return d.below.Remove(ctx, id)
}

// Holders implements pool.HolderLister.
func (d *Driver) Holders(ctx context.Context, id pool.ID) ([]pool.Holder, error) {
	release, err := d.take(ctx, id)
	if err != nil {
		return nil, err
	}
	defer release()
	var holders []pool.Holder
	if l, ok := d.below.(pool.HolderLister); ok {
		if holders, err = l.Holders(ctx, id); err != nil {
			return nil, err
		}
	}
	rdev, ok, err := inuse.Number(mappingPath(id))
	if err != nil || !ok {
		return holders, err
	}
	// What lies above the volume below is the mapping.
	own, err := os.Readlink(sysfs(rdev))
	if err != nil {
		return nil, err
	}
	holders = slices.DeleteFunc(holders, func(h pool.Holder) bool { return h.Kind == pool.Stacked && own[len(own)-len(h.Name):] == h.Name })
	above, err := d.above(ctx, id)
	return append(above, holders...), err
}

// above looks who uses the mapping of a volume.
func (d *Driver) above(ctx context.Context, id pool.ID) ([]pool.Holder, error) {
	rdev, ok, err := inuse.Number(mappingPath(id))
	if err != nil || !ok {
		return nil, err
	}
	table, err := d.c.Users.Scan(ctx)
	if err != nil {
		return nil, err
	}
	return table.Device(rdev)
}

// unused refuses when anyone uses the mapping of a volume.
func (d *Driver) unused(ctx context.Context, id pool.ID) error {
	holders, err := pool.Lasting(ctx, func(ctx context.Context) ([]pool.Holder, error) { return d.above(ctx, id) })
	if err == nil && len(holders) > 0 {
		err = &pool.InUseError{ID: id, Holders: holders}
	}
	return err
}
