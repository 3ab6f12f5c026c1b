// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
)

// transfer fills a NEW volume from a source in another pool. There it makes a NEW clone of the name that the volume gets, and reads its device: a clone is of one
// moment, and every driver can open it. Nobody is told of either before the whole content is there, so what is left of an earlier try goes first.
func (s *storage) transfer(ctx context.Context, from, to pool.Driver, id pool.ID, size int64, source pool.SnapshotID, progress pool.Progress) (err error) {
	// The same volume cannot be open in both pools when it is encrypted, and there is no need to open it.
	if sealed, ok := from.(raw); ok {
		if target, ok := to.(raw); ok {
			to, _ = target.Raw(size)
			from, size = sealed.Raw(size)
		}
	}
	if err := dropLoan(ctx, from, id); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, dropLoan(context.WithoutCancel(ctx), from, id))
	}()
	if err := cloneHeld(ctx, from, id, size, source, nil); err != nil {
		return err
	}
	device, err := from.Open(ctx, id)
	if err != nil {
		return err
	}
	if err := to.Create(ctx, id, size); err != nil {
		return err
	}
	target, err := to.Open(ctx, id)
	if err != nil {
		return err
	}
	return s.copyDevice(ctx, device, target, progress)
}

// raw is a driver whose volumes have another content below, which can be copied as it is.
type raw interface {
	Raw(size int64) (pool.Driver, int64)
}

// dropLoan removes a NEW volume that another pool had to make for a copy.
func dropLoan(ctx context.Context, d pool.Driver, id pool.ID) error {
	v, ok, err := pool.Find(ctx, d, id)
	switch {
	case err != nil || !ok:
		return err
	case !v.New:
		return fmt.Errorf("a finished volume of the name %s lies where its source does: it is left as it is", id)
	}
	return d.Remove(ctx, id)
}

// copyPiece is how much of a device is copied in one step, in bytes.
const copyPiece = 1 << 20

// copyDevice copies what a device has to a device that is as large at least. What the target has beyond that, and where the source has zeros, is zeros afterwards, without
// taking room where that can be.
func copyDevice(ctx context.Context, from, to pool.Device, progress pool.Progress) (err error) {
	source, err := os.OpenFile(from.Path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	target, err := os.OpenFile(to.Path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	piece, zeros := make([]byte, copyPiece), make([]byte, copyPiece)
	for at := int64(0); at < to.Size; {
		if err := ctx.Err(); err != nil {
			return err
		}
		piece := piece[:min(copyPiece, to.Size-at)]
		n := 0
		if at < from.Size {
			if n, err = io.ReadFull(source, piece[:min(int64(len(piece)), from.Size-at)]); err != nil {
				return fmt.Errorf("read %s at %d: %w", from.Path, at, err)
			}
		}
		clear(piece[n:])
		if bytes.Equal(piece, zeros[:len(piece)]) {
			err = zeroOut(target, at, int64(len(piece)))
		} else {
			_, err = target.WriteAt(piece, at)
		}
		if err != nil {
			return fmt.Errorf("write %s at %d: %w", to.Path, at, err)
		}
		at += int64(len(piece))
		progress.Tell(at, to.Size)
	}
	return target.Sync()
}

// zeroOut makes a piece of a block device zeros, without taking room where the device can do that.
func zeroOut(device *os.File, at, bytes int64) error {
	for {
		err := unix.Fallocate(int(device.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, at, bytes)
		if errors.Is(err, unix.EOPNOTSUPP) {
			err = blkZeroOut(device, [2]uint64{uint64(at), uint64(bytes)})
		}
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
