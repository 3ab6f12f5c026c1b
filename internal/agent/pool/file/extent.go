// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package file

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
)

// span is a piece of the file system's room that a file takes.
type span struct {
	start, end uint64
	owner      int // Index of a snapshot, or volumeOwner.
}

// volumeOwner owns what is of a volume.
const volumeOwner = -1

// extents is the room that a file takes.
type extents struct {
	own    int64  // Bytes that no other file takes.
	shared []span // What others may take too, without owner.
}

// The interface of the ioctl that tells the extents of a file.
const (
	fsIocFiemap = 0xC020660B

	extentLast   = 0x1
	extentShared = 0x2000

	extentsAtOnce = 256
)

type fiemapExtent struct {
	logical, physical, length uint64
	_                         [2]uint64
	flags                     uint32
	_                         [3]uint32
}

type fiemap struct {
	start, length       uint64
	flags, mapped, room uint32
	_                   uint32
	extents             [extentsAtOnce]fiemapExtent
}

// extentsOf asks the kernel which room a file takes. It returns false when the file system cannot tell.
func extentsOf(ctx context.Context, file *os.File) (extents, bool, error) {
	var x extents
	for next := uint64(0); ; {
		if err := ctx.Err(); err != nil {
			return extents{}, false, err
		}
		m := fiemap{start: next, length: ^uint64(0) - next, room: extentsAtOnce}
		err := ignoringEINTR(func() error {
			if _, _, errno := unix.Syscall(unix.SYS_IOCTL, file.Fd(), fsIocFiemap, uintptr(unsafe.Pointer(&m))); errno != 0 { //nolint:gosec // The kernel fills it in.
				return errno
			}
			return nil
		})
		if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOTTY) || errors.Is(err, unix.EINVAL) {
			return extents{}, false, nil
		}
		if err != nil {
			return extents{}, false, fmt.Errorf("extents of %s: %w", file.Name(), err)
		}
		for _, e := range m.extents[:m.mapped] {
			if e.flags&extentShared != 0 {
				x.shared = append(x.shared, span{start: e.physical, end: e.physical + e.length})
			} else {
				x.own += int64(e.length)
			}
			next = e.logical + e.length
		}
		if m.mapped == 0 || m.extents[m.mapped-1].flags&extentLast != 0 {
			return x, true, nil
		}
	}
}

// layers calls visit for each piece of room with the number of volumes that take it and the first of the snapshots that do, which is negative when
// there is none.
func layers(spans []span, visit func(bytes int64, volumes, first int)) {
	type edge struct {
		at    uint64
		step  int
		owner int
	}
	edges := make([]edge, 0, 2*len(spans))
	for _, s := range spans {
		edges = append(edges, edge{s.start, +1, s.owner}, edge{s.end, -1, s.owner})
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Compare(a.at, b.at) })
	volumes := 0
	open := map[int]int{} // How often each snapshot takes this piece.
	for i, e := range edges {
		if i > 0 && e.at > edges[i-1].at && (volumes > 0 || len(open) > 0) {
			first := -1
			for owner := range open {
				if first < 0 || owner < first {
					first = owner
				}
			}
			visit(int64(e.at-edges[i-1].at), volumes, first)
		}
		if e.owner == volumeOwner {
			volumes += e.step
		} else if open[e.owner] += e.step; open[e.owner] == 0 {
			delete(open, e.owner)
		}
	}
}

// sharing tells whether files of the directory may share their blocks.
func sharing(f *folder) (bool, error) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(f.fd(), &st); err != nil {
		return false, err
	}
	switch st.Type {
	case unix.EXT4_SUPER_MAGIC, unix.TMPFS_MAGIC:
		return false, nil
	}
	return true, nil
}

// look opens a file and asks which room it takes. One that is gone takes none.
func (p *Pool) look(ctx context.Context, f *folder, e entry) (extents, bool, error) {
	file, err := f.open(e.name(), unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ENOENT) {
		return extents{}, true, nil
	}
	if err != nil {
		return extents{}, false, fmt.Errorf("look at %s of pool %s: %w", e.text(), p.c.Name, err)
	}
	defer func() { _ = file.Close() }()
	return extentsOf(ctx, file)
}

// alone returns for each snapshot the bytes that it takes without what its volume or an older snapshot takes. The snapshots of a volume stand together.
func (p *Pool) alone(ctx context.Context, f *folder, snapshots []entry) ([]int64, error) {
	bytes := make([]int64, len(snapshots))
	for i, e := range snapshots {
		bytes[i] = e.taken
	}
	share, err := sharing(f)
	if err != nil || !share {
		return bytes, err
	}
	for from := 0; from < len(snapshots); {
		to := from + 1
		for to < len(snapshots) && snapshots[to].id == snapshots[from].id {
			to++
		}
		if err := p.aloneOf(ctx, f, snapshots[from:to], bytes[from:to]); err != nil {
			return nil, err
		}
		from = to
	}
	return bytes, nil
}

// aloneOf is alone for the snapshots of one volume.
func (p *Pool) aloneOf(ctx context.Context, f *folder, snapshots []entry, bytes []int64) error {
	byAge := make([]int, len(snapshots))
	for i := range byAge {
		byAge[i] = i
	}
	slices.SortStableFunc(byAge, func(a, b int) int {
		return cmp.Compare(snapshots[a].mtime.Nano(), snapshots[b].mtime.Nano())
	})
	var spans []span
	add := func(x extents, owner int) {
		for _, s := range x.shared {
			s.owner = owner
			spans = append(spans, s)
		}
	}
	for age, i := range byAge {
		x, ok, err := p.look(ctx, f, snapshots[i])
		if err != nil {
			return err
		}
		if ok {
			bytes[i] = x.own
			add(x, age)
		}
	}
	if len(spans) == 0 {
		return nil
	}
	x, _, err := p.look(ctx, f, volumeFile(snapshots[0].id, finishedSuffix))
	if err != nil {
		return err
	}
	add(x, volumeOwner)
	layers(spans, func(n int64, volumes, first int) {
		if volumes == 0 {
			bytes[byAge[first]] += n
		}
	})
	return nil
}

// promised returns the bytes that volumes with reserved blocks may still need: what they share with others must be given a place of its own when it is
// written.
func (p *Pool) promised(ctx context.Context, f *folder) (int64, error) {
	if p.c.Thin {
		return 0, nil
	}
	if share, err := sharing(f); err != nil || !share {
		return 0, err
	}
	entries, err := p.read(f, parse)
	if err != nil {
		return 0, err
	}
	var spans []span
	for i, e := range entries {
		x, _, err := p.look(ctx, f, e)
		if err != nil {
			return 0, err
		}
		for _, s := range x.shared {
			if s.owner = volumeOwner; e.snapshot != "" {
				s.owner = i
			}
			spans = append(spans, s)
		}
	}
	var bytes int64
	layers(spans, func(n int64, volumes, first int) {
		if volumes > 0 && first < 0 {
			volumes-- // The last one may keep the place.
		}
		bytes += n * int64(volumes)
	})
	return bytes, nil
}

// keepPromises refuses when there is not enough room for all that volumes with reserved blocks may need.
func (p *Pool) keepPromises(ctx context.Context, f *folder, asked int64) error {
	promised, err := p.promised(ctx, f)
	if err != nil || promised == 0 {
		return err
	}
	space, err := p.room(f)
	if err != nil {
		return err
	}
	if promised > space.Free {
		return &pool.NoSpaceError{Pool: p.c.Name, Asked: asked, Free: max(0, space.Free-promised+asked), Total: space.Total}
	}
	return nil
}
