// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package lvm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// mend takes back what a program of LVM left when it was killed. Whatever touches a suspended device would wait for ever, the next program of LVM too, so
// that is resumed. And LVM refuses to activate a thin pool as long as one of its parts is active by itself, so such a part of one of our pools goes. Mend is called by whoever has the group's
// lane, once after the start of the agent and after each program that was killed. As long as another program holds the lock of the group, the devices are that one's.
func (h *Host) mend(ctx context.Context, name string, g *group) error {
	if !g.torn {
		return nil
	}
	stopped, stray, err := leftovers("/sys", name, h.thinPools(name))
	if err != nil {
		return fmt.Errorf("look for what was left of volume group %s: %w", name, err)
	}
	if len(stopped)+len(stray) > 0 && lockHolder(name) != "" {
		return nil
	}
	for _, device := range stopped {
		if _, err := h.run(ctx, name, "dmsetup", "resume", device); err != nil {
			return fmt.Errorf("resume what was left suspended: %w", err)
		}
	}
	for _, device := range stray {
		// Whoever uses it by now keeps it, and the kernel says so.
		if _, err := h.run(ctx, name, "dmsetup", "remove", "--retry", device); err != nil {
			return fmt.Errorf("take down a part of a thin pool that was left: %w", err)
		}
	}
	g.torn = false
	return nil
}

// delivered does what needs a thin volume. When the thin pool does not know the volume, LVM was killed between its own metadata and the message to the pool. It
// sends what it still has to say when it makes or removes a thin volume; so it makes and removes one, and the work is done again.
func (p *Pool) delivered(ctx context.Context, work func() error) error {
	err := work()
	if !p.thin() || !unknownToPool(err) {
		return err
	}
	made := p.change(ctx, "lvcreate", "--yes", "-an", "--thin", "--virtualsize", inBytes(p.Granularity()),
		"--addtag", ours, "--addtag", tagHalf, "--name", messenger, p.place())
	// It may be there from a time in which this was broken off; what is there can be removed in any case.
	if err := p.destroy(ctx, messenger); err != nil {
		return fmt.Errorf("tell the thin pool of its volumes: %w", errors.Join(made, err))
	}
	return work()
}

// change runs a program that changes the pool's group. Killed between the two messages with which it tells a thin pool of a new volume, LVM refuses all that follows: the
// pool has the volume already. Then the pool is made to forget the volume, and the program is run again.
func (p *Pool) change(ctx context.Context, program string, args ...string) error {
	err := p.c.Host.change(ctx, p.c.Group, program, args...)
	device, id, ok := halfTold(err)
	if !ok || !p.thin() || !p.isDevice(device) {
		return err
	}
	r, lookErr := p.c.Host.report(ctx, p.c.Group)
	if lookErr != nil || !p.unfinished(r, id) {
		return errors.Join(err, lookErr)
	}
	if undo := p.c.Host.change(ctx, p.c.Group, "dmsetup", "message", device, "0", fmt.Sprintf("delete %d", id)); undo != nil {
		return errors.Join(err, undo)
	}
	return p.c.Host.change(ctx, p.c.Group, program, args...)
}

// isDevice tells whether the kernel's name of a device is that of the thin pool.
func (p *Pool) isDevice(device string) bool {
	own := deviceName(p.c.Group, p.c.ThinPool)
	return device == own || device == own+"-tpool"
}

// unfinished tells whether a number in the thin pool is that of a volume of ours that nobody was told of. Others are never forgotten.
func (p *Pool) unfinished(r Report, id int64) bool {
	for _, v := range r.Volumes {
		if v.Kind == 'V' && v.Pool == p.c.ThinPool && v.ThinID == id {
			return v.Has(ours) && (v.Has(tagNew) || v.Has(tagHalf))
		}
	}
	return false
}

// leftovers returns the names of the devices of a group that are suspended, those below before those above, and of those that are parts of
// some thin pools without a device on them.
func leftovers(sys, name string, pools []string) (stopped, stray []string, err error) {
	dirs, err := filepath.Glob(filepath.Join(sys, "block/dm-*"))
	if err != nil {
		return nil, nil, err
	}
	slices.SortFunc(dirs, func(a, b string) int { return cmp.Compare(minor(a), minor(b)) })
	for _, dir := range dirs {
		read := func(file string) string {
			text, err := os.ReadFile(filepath.Join(dir, "dm", file))
			if err != nil {
				return "" // It went just now.
			}
			return strings.TrimSpace(string(text))
		}
		device := read("name")
		if !strings.HasPrefix(read("uuid"), "LVM-") || !ofGroup(device, name) {
			continue
		}
		if read("suspended") == "1" {
			stopped = append(stopped, device)
		}
		if slices.ContainsFunc(pools, func(p string) bool {
			return device == deviceName(name, p+"_tmeta") || device == deviceName(name, p+"_tdata")
		}) {
			above, err := os.ReadDir(filepath.Join(dir, "holders"))
			if err == nil && len(above) == 0 {
				stray = append(stray, device)
			}
		}
	}
	return stopped, stray, nil
}

// minor is the number in the name of a device of device mapper. Devices are made from below.
func minor(dir string) int {
	n, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(dir), "dm-"))
	if err != nil {
		return -1
	}
	return n
}

// ofGroup tells whether the kernel's name of a device is that of a logical volume of a group. Hyphens in names are doubled, and a single one ends that of
// the group.
func ofGroup(device, name string) bool {
	rest, ok := strings.CutPrefix(device, strings.ReplaceAll(name, "-", "--")+"-")
	return ok && !strings.HasPrefix(rest, "-")
}
