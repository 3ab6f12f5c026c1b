// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/inuse"
	"github.com/holdfast-storage/holdfast/internal/command"
)

// MinSize is the size in bytes that a device must exceed to be worth a pool.
const MinSize = 1 << 30

// Device is a free block device.
type Device struct {
	Path       string
	Size       int64 // bytes
	Rotational bool
	Model      string // these are empty where the hardware does not tell
	Serial     string
	WWN        string
}

// Finder looks for free devices.
type Finder struct {
	Run command.Runner

	// Claim fails when someone in the kernel has claimed the device at a path: a mount, a RAID, a volume group, swap. It
	// leaves nothing claimed. Nil: an exclusive open.
	Claim func(path string) error

	// Holders returns who uses the device at a path. Nil: [Holders] with a scanner of its own.
	Holders func(ctx context.Context, path string) ([]pool.Holder, error)

	// Loops makes bound loop devices candidates as well, where a host has no other disks.
	Loops bool
}

// Holders returns who uses a device, as a scanner sees it.
func Holders(users *inuse.Scanner) func(ctx context.Context, path string) ([]pool.Holder, error) {
	return func(ctx context.Context, path string) ([]pool.Holder, error) {
		rdev, there, err := inuse.Number(path)
		if err != nil || !there {
			return nil, err
		}
		table, err := users.Scan(ctx)
		if err != nil {
			return nil, err
		}
		return table.Device(rdev)
	}
}

// limit is how long one program may take. A disk that hangs must not hold up the answer about all others for longer.
const limit = 10 * time.Second

// Free returns the devices that are free now, by path.
func (f *Finder) Free(ctx context.Context) ([]Device, error) {
	all, err := f.Blocks(ctx)
	if err != nil {
		return nil, err
	}
	var free []Device
	for _, b := range f.Candidates(all) {
		err := f.claim(b.Path)
		if err == nil {
			err = f.blank(ctx, b.Path)
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("look at block device %s: %w", b.Path, ctx.Err())
		}
		if err != nil {
			continue // One that cannot be read is not free, and keeps nobody from the others.
		}
		free = append(free, b.device())
	}
	return free, nil
}

// Blocks returns all block devices of the host, with what lies on each.
func (f *Finder) Blocks(ctx context.Context) ([]Block, error) {
	r, err := f.Run.Run(ctx, command.Command{
		Program: "lsblk", Args: []string{"--json", "--bytes", "--output", columns}, Limit: limit,
	})
	if err != nil {
		return nil, fmt.Errorf("list block devices: %w", err)
	}
	return Parse(r.Stdout)
}

func (b Block) device() Device {
	return Device{Path: b.Path, Size: b.Size, Rotational: b.Rotational, Model: b.Model, Serial: b.Serial, WWN: b.WWN}
}

func (f *Finder) claim(path string) error {
	if f.Claim != nil {
		return f.Claim(path)
	}
	return open(path)
}

// open opens a device for itself alone, and closes it. The kernel refuses that for a device that it uses itself.
func open(device string) error {
	fd, err := unix.Open(device, unix.O_RDONLY|unix.O_EXCL|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: device, Err: err}
	}
	return unix.Close(fd)
}

// Candidates returns the devices that may be free by what lsblk tells of them, by path.
func (f *Finder) Candidates(all []Block) []Block {
	found := map[string]Block{}
	f.gather(all, found)
	out := make([]Block, 0, len(found))
	for _, b := range found {
		out = append(out, b)
	}
	slices.SortFunc(out, func(a, b Block) int { return cmp.Compare(a.Path, b.Path) })
	return out
}

// gather notes what may be free among devices and what lies on them. A device with several below it is listed under each, and
// is noted once.
func (f *Finder) gather(list []Block, found map[string]Block) {
	for _, b := range list {
		if !f.kind(b) {
			continue // Nor is what lies on it: parts of a volume of ours are not free.
		}
		if len(b.Children) > 0 {
			f.gather(b.Children, found)
			continue
		}
		if f.unfit(b) == "" {
			found[b.Path] = b
		}
	}
}

// kind tells whether a device is of a kind that pools are made of.
func (f *Finder) kind(b Block) bool {
	switch {
	case b.Type == "loop":
		return f.Loops
	case b.Type != "disk" && b.Type != "part" && b.Type != "mpath" && !strings.HasPrefix(b.Type, "raid"):
		return false
	}
	for _, made := range []string{"drbd", "zd", "zram", "ram", "nbd", "fd", "sr", "loop"} {
		rest, is := strings.CutPrefix(b.Kernel, made)
		if is && rest != "" && '0' <= rest[0] && rest[0] <= '9' {
			return f.Loops && made == "loop"
		}
	}
	return true
}

// WellNamed tells whether a path is one of a device as the kernel and udev name them, and nothing else.
func WellNamed(p string) bool {
	return strings.HasPrefix(p, "/dev/") && path.Clean(p) == p && !strings.ContainsFunc(p, func(r rune) bool { return r <= ' ' || r == 0x7f })
}
