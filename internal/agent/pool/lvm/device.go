// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package lvm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/inuse"
)

// devicePath is where a logical volume has its device.
func (p *Pool) devicePath(name string) string { return filepath.Join("/dev", p.c.Group, name) }

// attribute reads a file of a device in sysfs.
func attribute(rdev uint64, name string) (string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/sys/dev/block/%d:%d/%s", unix.Major(rdev), unix.Minor(rdev), name))
	return strings.TrimSpace(string(text)), err
}

// device returns the device of a logical volume that LVM says is active, or none when it is gone.
func (p *Pool) device(name string) (pool.Device, error) {
	path := p.devicePath(name)
	rdev, ok, err := inuse.Number(path)
	if err != nil || !ok {
		return pool.Device{}, err
	}
	text, err := attribute(rdev, "size")
	if errors.Is(err, os.ErrNotExist) {
		return pool.Device{}, nil
	}
	if err != nil {
		return pool.Device{}, fmt.Errorf("look at the size of %s: %w", path, err)
	}
	sectors, err := strconv.ParseInt(text, 10, 64)
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
	e, ok := p.find(r, id)
	if !ok {
		return pool.Device{}, &pool.NotFoundError{Pool: p.c.Name, ID: id}
	}
	if !e.Active {
		if err := p.delivered(ctx, func() error {
			return p.change(ctx, "lvchange", "-ay", "--ignoreactivationskip", p.path(e.Name))
		}); err != nil {
			return pool.Device{}, fmt.Errorf("open volume %s of pool %s: %w", id, p.c.Name, err)
		}
		p.forget(e.UUID)
	}
	return p.fit(ctx, e)
}

// fit returns the device of an active volume. It has LVM load the device anew when that is smaller than the volume, or suspended: a program of LVM
// may have been killed half-way.
func (p *Pool) fit(ctx context.Context, e entry) (pool.Device, error) {
	for try := range 2 {
		d, err := p.device(e.Name)
		if err != nil {
			return pool.Device{}, err
		}
		rdev, _, err := inuse.Number(p.devicePath(e.Name))
		if err != nil {
			return pool.Device{}, err
		}
		suspended, err := attribute(rdev, "dm/suspended")
		if err == nil && d.Size == e.Size && suspended == "0" {
			return d, nil
		}
		if try == 0 {
			if err := p.change(ctx, "lvchange", "--refresh", p.path(e.Name)); err != nil {
				return pool.Device{}, fmt.Errorf("load the device of volume %s of pool %s anew: %w", e.id, p.c.Name, err)
			}
		}
	}
	return pool.Device{}, fmt.Errorf("open volume %s of pool %s: %s is not a device of %d bytes: look whether udev runs, and at dmsetup info", e.id, p.c.Name, p.devicePath(e.Name), e.Size)
}

// flush makes what was written to the device of a volume durable.
func (p *Pool) flush(name string) error {
	f, err := os.OpenFile(p.devicePath(name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Close implements pool.Driver.
func (p *Pool) Close(ctx context.Context, id pool.ID) error {
	r, end, err := p.begin(ctx, id)
	if err != nil {
		return err
	}
	defer end()
	e, ok := p.find(r, id)
	if !ok {
		return nil
	}
	return p.shut(ctx, e)
}

// shut takes the device of a volume down.
func (p *Pool) shut(ctx context.Context, e entry) error {
	if !e.Active {
		return nil
	}
	if err := p.unused(ctx, e); err != nil {
		return err
	}
	p.forget(e.UUID)
	err := p.change(ctx, "lvchange", "-an", p.path(e.Name))
	switch {
	case err == nil || absent(err):
		return nil
	case inUse(err):
		return p.stillUsed(ctx, e)
	}
	return fmt.Errorf("close volume %s of pool %s: %w", e.id, p.c.Name, err)
}

// Remove implements pool.Driver.
func (p *Pool) Remove(ctx context.Context, id pool.ID) error {
	r, end, err := p.begin(ctx, id)
	if err != nil {
		return err
	}
	defer end()
	if half, ok := r.Volumes[volumeName(id)+rollSuffix]; ok && half.Has(ours) && half.Has(tagHalf) {
		if err := p.destroy(ctx, half.Name); err != nil {
			return fmt.Errorf("remove volume %s of pool %s: %w", id, p.c.Name, err)
		}
	}
	e, ok := p.find(r, id)
	if !ok {
		return nil
	}
	return p.remove(ctx, r, e)
}

func (p *Pool) remove(ctx context.Context, r Report, e entry) error {
	if err := p.unkept(r, e); err != nil {
		return err
	}
	if e.Active {
		if err := p.unused(ctx, e); err != nil {
			return err
		}
	}
	if p.c.Wipe == ZeroContent && !p.thin() {
		if err := p.wipe(ctx, e); err != nil {
			return fmt.Errorf("wipe volume %s of pool %s: %w", e.id, p.c.Name, err)
		}
	}
	p.forget(e.UUID)
	err := p.destroy(ctx, e.Name)
	switch {
	case err == nil:
		return nil
	case inUse(err):
		return p.stillUsed(ctx, e)
	}
	return fmt.Errorf("remove volume %s of pool %s: %w", e.id, p.c.Name, err)
}

// unkept refuses when others have thick snapshots of a volume: LVM would remove them with it.
func (p *Pool) unkept(r Report, e entry) error {
	var holders []pool.Holder
	for _, v := range r.Volumes {
		if v.Origin == e.Name && (v.Kind == 's' || v.Kind == 'S') {
			holders = append(holders, pool.Holder{Kind: pool.Kept, Name: "snapshot " + p.path(v.Name)})
		}
	}
	if len(holders) > 0 {
		return &pool.InUseError{ID: e.id, Holders: holders, Detail: "these snapshots were made by others: remove them with lvremove first"}
	}
	return nil
}

// destroy removes a logical volume, unless its device is open. One that is not there is removed.
func (p *Pool) destroy(ctx context.Context, name string) error {
	args := []string{"--yes", p.path(name)}
	if p.c.Discard {
		args = append([]string{"--config", "devices{issue_discards=1}"}, args...)
	}
	if err := p.change(ctx, "lvremove", args...); !absent(err) {
		return err
	}
	return nil
}

// wipe overwrites a volume with zeros.
func (p *Pool) wipe(ctx context.Context, e entry) error {
	if !e.Active {
		if err := p.change(ctx, "lvchange", "-ay", p.path(e.Name)); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(p.devicePath(e.Name), os.O_WRONLY|unix.O_EXCL, 0)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	const step = 64 << 20 // So that a cancelled call does not go on for long.
	for at := int64(0); at < e.Size; at += step {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := zeroOut(f, at, min(step, e.Size-at)); err != nil {
			return err
		}
	}
	return f.Close()
}

// Holders implements pool.HolderLister.
func (p *Pool) Holders(ctx context.Context, id pool.ID) ([]pool.Holder, error) {
	r, end, err := p.glance(ctx, id)
	if err != nil {
		return nil, err
	}
	defer end()
	e, ok := p.find(r, id)
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
