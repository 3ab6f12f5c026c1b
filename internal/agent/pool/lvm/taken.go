// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package lvm

import (
	"context"
	"fmt"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
)

// allocated returns what thin volumes really take, by their uuids. The kernel tells it of those that have a device; what one takes that has none
// is known from before, or looked at.
func (p *Pool) allocated(ctx context.Context, r Report, entries []entry) (map[string]int64, error) {
	if !p.thin() || len(entries) == 0 {
		return nil, nil //nolint:nilnil // Thick volumes take what they are large.
	}
	status, pools, err := p.status(ctx)
	if err != nil {
		return nil, err
	}
	active := has(pools, deviceName(p.c.Group, p.c.ThinPool))
	taken := make(map[string]int64, len(entries))
	for _, e := range entries {
		bytes, ok := status[deviceName(p.c.Group, e.Name)]
		if !ok {
			if bytes, ok = p.recall(e.UUID); !ok {
				if !active { // The device to look at lies on that of the pool.
					if _, err := p.fill(ctx, r); err != nil {
						return nil, err
					}
					active = true
				}
				if bytes, err = p.peek(ctx, e.Volume); err != nil {
					return nil, fmt.Errorf("look what %s of pool %s takes: %w", e.Name, p.c.Name, err)
				}
				p.remember(e.UUID, bytes)
			}
		}
		taken[e.UUID] = bytes
	}
	return taken, nil
}

// peek gives a thin volume a device of our own for a moment, which is read-only and which udev leaves alone, and reads from it what it takes.
func (p *Pool) peek(ctx context.Context, v Volume) (int64, error) {
	name := "holdfast-look-" + v.UUID
	table := fmt.Sprintf("0 %d thin /dev/mapper/%s-tpool %d", v.Size/sector, deviceName(p.c.Group, p.c.ThinPool), v.ThinID)
	host := p.c.Host
	create := func() error {
		return host.change(ctx, p.c.Group, "dmsetup", "create", "--readonly", "--noudevrules", "--noudevsync", name, "--table", table)
	}
	if err := p.delivered(ctx, create); err != nil {
		_ = host.change(ctx, p.c.Group, "dmsetup", "remove", "--noudevrules", "--noudevsync", name) // What a crash left.
		if err := create(); err != nil {
			return 0, err
		}
	}
	res, err := host.run(context.WithoutCancel(ctx), p.c.Group, "dmsetup", "status", "--noflush", name)
	if removeErr := host.change(context.WithoutCancel(ctx), p.c.Group, "dmsetup", "remove", "--noudevrules", "--noudevsync", "--retry", name); removeErr != nil {
		return 0, removeErr
	}
	if err != nil {
		return 0, err
	}
	taken, _, err := ParseStatus(name + ": " + string(res.Stdout)) // Of one device, its name is not printed.
	if err != nil {
		return 0, err
	}
	bytes, ok := taken[name]
	if !ok {
		return 0, p.faulty(pool.Unreadable, "the kernel does not say what volume "+v.Name+" takes", nil)
	}
	return bytes, nil
}

// has tells whether the kernel has a device for a thin pool: its own, or the one of its volumes.
func has(pools map[string]Fill, device string) bool {
	_, own := pools[device]
	_, shared := pools[device+"-tpool"]
	return own || shared
}

func (p *Pool) recall(uuid string) (int64, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	bytes, ok := p.taken[uuid]
	return bytes, ok
}

func (p *Pool) remember(uuid string, bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken[uuid] = bytes
}

// forget drops what a volume took, because it is written or goes.
func (p *Pool) forget(uuid string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.taken, uuid)
}
