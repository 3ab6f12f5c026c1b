// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/freeze"
)

// stretched knows to which sizes filesystems that are mounted were grown by this process, by the keys of their volumes: one that is mounted later may be another one, of
// another content of the volume. To grow one again changes nothing. The zero value is ready for use.
type stretched struct {
	mu    sync.Mutex
	sizes map[string]int64
}

func (s *stretched) to(key string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sizes[key]
}

func (s *stretched) note(key string, size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sizes == nil {
		s.sizes = map[string]int64{}
	}
	s.sizes[key] = size
}

func (s *stretched) forget(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sizes, key)
}

// mounted tells whether a filesystem is mounted from the volume.
func (f found) mounted() bool {
	return slices.ContainsFunc(f.holders, func(h pool.Holder) bool { return h.Kind == pool.Mounted })
}

// stretch plans to grow the filesystem that is mounted from the volume to the size of the volume.
func (p planner) stretch() {
	v, key := p.have.volume, volumeKey(p.want.Pool, p.id)
	if !p.want.Stretch || !p.have.mounted() || v.Device.Size < v.Size || p.s.stretched.to(key) == v.Size {
		return
	}
	step := p.step("grow the filesystem on", "", func(ctx context.Context, id pool.ID) error {
		if err := p.s.growFilesystem(ctx, v.Device, p.have.holders); err != nil {
			return err
		}
		p.s.stretched.note(key, v.Size)
		return nil
	})
	step.Apart = true
	p.out.stretching = append(p.out.stretching, step)
}

// GrowMounted grows the filesystem that is mounted from a device by some of its holders, as Apply does for the volumes of pools: for layers above those.
func GrowMounted(ctx context.Context, d pool.Device, holders []pool.Holder) error {
	return growMounted(ctx, d, holders)
}

// growMounted grows the filesystem that is mounted from a device to the size of the device, wherever on this host it is mounted. The kernel does it, so
// it works in containers as well. It returns when ctx ends, and leaves behind what hangs in the kernel.
func growMounted(ctx context.Context, d pool.Device, holders []pool.Holder) error {
	var st unix.Stat_t
	if err := unix.Stat(d.Path, &st); err != nil {
		return fmt.Errorf("look at %s: %w", d.Path, err)
	}
	ended := make(chan error, 1)
	go func() {
		root, fstype, err := freeze.Open(st.Rdev, freeze.Mounts(holders))
		if err == nil {
			err = errors.Join(grow(root, fstype, d.Size), root.Close())
		}
		ended <- err
	}()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// grow grows the filesystem of an open file to a size in bytes.
func grow(root *os.File, fstype string, size int64) error {
	var err error
	switch fstype {
	case "ext4":
		err = growExt4(root, size)
	case "xfs":
		err = growXFS(root, size)
	case "btrfs":
		args := btrfsArgs{}
		copy(args.name[:], btrfsGrowToDevice)
		err = ioctl(root, btrfsIocResize, unsafe.Pointer(&args)) //nolint:gosec // The kernel reads it.
	default:
		return fmt.Errorf("a filesystem of type %s cannot grow while it is mounted: grow it by hand", fstype)
	}
	if err != nil {
		return fmt.Errorf("the kernel refuses to grow %s to %d bytes: %w", fstype, size, err)
	}
	return nil
}

func growExt4(root *os.File, size int64) error {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(root.Fd()), &st); err != nil {
		return err
	}
	blocks := uint64(size) / uint64(st.Bsize)
	return ioctl(root, ext4IocResizeFS, unsafe.Pointer(&blocks)) //nolint:gosec // The kernel reads it.
}

func growXFS(root *os.File, size int64) error {
	var g xfsGeometry
	if err := ioctl(root, xfsIocFSGeometry, unsafe.Pointer(&g)); err != nil { //nolint:gosec // The kernel fills it in.
		return err
	}
	blocks := uint64(size) / uint64(g.blockSize)
	if blocks <= g.dataBlocks {
		return nil
	}
	data := xfsGrowData{newBlocks: blocks, maxPercent: g.maxPercent}
	return ioctl(root, xfsIocFSGrowData, unsafe.Pointer(&data)) //nolint:gosec // The kernel reads it.
}
