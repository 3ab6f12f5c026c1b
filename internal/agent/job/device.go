// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	piece  = 1 << 20 // What is read and written at once, in bytes.
	sector = 512
)

// device is a volume that is written or read.
type device struct {
	*os.File

	size    int64
	pending [2]int64 // A range that is to be zeroed, not done yet.
}

// openTarget opens the device of a volume so that nobody else can mount or claim it.
func openTarget(path string) (*device, error) { return openDevice(path, unix.O_RDWR|unix.O_EXCL) }

// openSource opens a device for reading. It is claimed too: who reads a volume that is being written gets a mixture.
func openSource(path string) (*device, error) { return openDevice(path, unix.O_RDONLY|unix.O_EXCL) }

func openDevice(path string, flags int) (*device, error) {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.EBUSY) {
		return nil, refusef("%s is in use: someone has it mounted or claimed", path)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	d := &device{File: os.NewFile(uintptr(fd), path)}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFBLK {
		err = errors.New("it is no block device")
	}
	if err == nil {
		d.size, err = d.Seek(0, io.SeekEnd)
	}
	if err == nil {
		_, err = d.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("look at %s: %w", path, err), d.Close())
	}
	return d, nil
}

// put writes a piece at an offset. Zeros are not written: their range is made one of zeros, later and many at once.
func (d *device) put(p []byte, at int64) error {
	if zero(p) && at%sector == 0 && len(p)%sector == 0 {
		if d.pending[1] == at {
			d.pending[1] += int64(len(p))
			return nil
		}
		err := d.settle()
		d.pending = [2]int64{at, at + int64(len(p))}
		return err
	}
	if err := d.settle(); err != nil {
		return err
	}
	_, err := d.WriteAt(p, at)
	return err
}

// settle zeroes what is pending.
func (d *device) settle() error {
	for d.pending[0] < d.pending[1] {
		n, err := d.zeroSome(d.pending[0], d.pending[1])
		if err != nil {
			return err
		}
		d.pending[0] += n
	}
	return nil
}

// zeroSome makes the beginning of a range read as zeros, and returns how much that was.
func (d *device) zeroSome(from, to int64) (int64, error) {
	const most = 1 << 30 // A device that has to write zeros takes its time.
	n := min(most, to-from)
	part := [2]uint64{uint64(from), uint64(n)}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, d.Fd(), unix.BLKZEROOUT, uintptr(unsafe.Pointer(&part))) //nolint:gosec // As the ioctl wants it.
	if errno != 0 {
		return 0, fmt.Errorf("make %d bytes of %s zeros: %w", n, d.Name(), errno)
	}
	return n, nil
}

// clear makes a range read as zeros.
func (d *device) clear(ctx context.Context, from, to int64, tell func(done int64)) error {
	for at := from; at < to; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := d.zeroSome(at, to)
		if err != nil {
			return err
		}
		if at += n; tell != nil {
			tell(at - from)
		}
	}
	return nil
}

// flush makes durable what was written, and forgets what is cached of it.
func (d *device) flush() error {
	if err := d.settle(); err != nil {
		return err
	}
	if err := d.Sync(); err != nil {
		return fmt.Errorf("flush %s: %w", d.Name(), err)
	}
	if err := unix.IoctlSetInt(int(d.Fd()), unix.BLKFLSBUF, 0); err != nil {
		return fmt.Errorf("flush %s: %w", d.Name(), err)
	}
	return nil
}

// zero tells whether p is all zeros.
func zero(p []byte) bool {
	for len(p) > 0 {
		n := min(len(p), len(zeros))
		if !bytes.Equal(p[:n], zeros[:n]) {
			return false
		}
		p = p[n:]
	}
	return true
}

var zeros [64 << 10]byte //nolint:gochecknoglobals // A constant.

// padded fills p up to whole sectors with zeros, in place of what is behind it.
func padded(buffer []byte, n int) []byte {
	end := (n + sector - 1) / sector * sector
	clear(buffer[n:end])
	return buffer[:end]
}

// reread returns the digest of the first size bytes of f, as they are on the disk.
func reread(ctx context.Context, f io.ReaderAt, size int64, d digest, tell func(done int64)) ([]byte, error) {
	buffer := make([]byte, piece)
	for at := int64(0); at < size; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		n := min(piece, size-at)
		if _, err := f.ReadAt(buffer[:n], at); err != nil {
			return nil, fmt.Errorf("read again what was written: %w", err)
		}
		_, _ = d.Write(buffer[:n]) // A hash never fails.
		at += n
		tell(at)
	}
	return d.Sum(nil), nil
}
