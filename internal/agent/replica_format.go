// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/holdfast-storage/holdfast/internal/agent/drbd/kernel"
	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/stack"
	"github.com/holdfast-storage/holdfast/internal/durable"
	"github.com/holdfast-storage/holdfast/internal/errs"
)

// The filesystem on a device of DRBD is made by one replica, before that tells anyone of the volume.
//
// Whether it was made cannot be known from a mark on the volume below, as for other stacks: what is
// below was finished when its metadata was made, for the peers have had the data since. So it is
// made when all of this holds: the controller asks for it, which it does until this replica was
// ready once; the volume was not ready here before; and the device has nothing on it where
// filesystems begin, which was cleared when the volume was new. What a mkfs that was killed has left
// is told by a note from before it began: it is made anew unless it is complete.

// headSize is how much of a device is looked at, in bytes: all filesystems that can be made have
// their mark there.
const headSize = 1 << 20

// format makes the filesystems that are wanted and not there. It returns the volumes that are
// still to have one. Waiting tells that the volumes cannot be used yet.
func (x replica) format(ctx context.Context, state *kernel.Resource, waiting bool) (unmade map[int32]bool, err error) {
	unmade = map[int32]bool{}
	for _, v := range x.want.Volumes {
		if v.Filesystem == nil || v.Existing || v.Destroy || v.Pool == nil || v.Source != nil {
			continue
		}
		if waiting || state == nil || !usable(state, int(v.Number)) {
			unmade[v.Number] = true
			continue
		}
		if err := x.formatVolume(ctx, v); err != nil {
			return nil, &stack.StepError{What: fmt.Sprintf("make %s on volume %d of resource %s", v.Filesystem.GetType(), v.Number, x.want.Resource), Err: err}
		}
	}
	return unmade, nil
}

// usable tells whether a volume can be written here.
func usable(state *kernel.Resource, number int) bool {
	d, ok := state.Device(number)
	return ok && d.Disk == kernel.UpToDate && d.Quorum && len(state.Suspended) == 0
}

func (x replica) formatVolume(ctx context.Context, v VolumeWant) error {
	device, note := kernel.DevicePath(int(v.DRBD.GetMinor())), x.note(v)
	began := true
	if _, err := os.Stat(note); errors.Is(err, fs.ErrNotExist) {
		began = false
	} else if err != nil {
		return err
	}
	found, err := x.contentOf(device)
	if err != nil {
		return err
	}
	switch {
	case found == filesystemThere:
		return durable.Remove(note)
	case found == somethingThere && !began:
		return errs.New(errs.Invalid, errs.Volume, "volume %d of resource %s is not formatted", v.Number, x.want.Resource).
			Because("something lies on %s already that is no filesystem which this host has made", device).
			Fix("make the filesystem by hand, or delete the resource")
	}
	if !began {
		if err := x.write(note, ""); err != nil {
			return fmt.Errorf("note that a filesystem is being made: %w", err)
		}
	}
	filesystem := stack.Filesystem{Type: v.Filesystem.GetType(), MkfsParams: v.Filesystem.GetMkfsParams()}
	if err := filesystem.Make(ctx, x.m.runner, device); err != nil {
		return err
	}
	if found, err = x.contentOf(device); err != nil {
		return err
	}
	if found != filesystemThere {
		return fmt.Errorf("it was made, and %s does not have it", device)
	}
	return durable.Remove(note)
}

// note is the file that tells that a filesystem is being made.
func (x replica) note(v VolumeWant) string {
	return filepath.Join(x.Notes, pool.ID{Resource: x.want.Resource, Volume: int(v.Number)}.Name())
}

// forgetNotes forgets what was noted of a replica that has gone.
func (x replica) forgetNotes() error {
	var all error
	for _, v := range x.want.Volumes {
		all = errors.Join(all, durable.Remove(x.note(v)), durable.Remove(x.note(v)+rollBackSuffix))
	}
	return all
}

// write makes a note.
func (x replica) write(note, text string) error {
	if err := os.MkdirAll(x.Notes, 0o700); err != nil {
		return err
	}
	return durable.Write(note, []byte(text))
}

// headContent is what lies where filesystems begin.
type headContent int

const (
	nothingThere    headContent = iota // zeros
	somethingThere                     // and it is no complete filesystem
	filesystemThere                    // of a kind that can be made, and complete
)

// contentOf looks at the head of a device. It is opened for writing, which fails while another
// host uses it.
func (x replica) contentOf(device string) (headContent, error) {
	f, err := x.Open(device)
	if err != nil {
		return somethingThere, err
	}
	head, err := headOf(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return somethingThere, err
	}
	return contentOfHead(head), nil
}

// contentOfHead tells filesystems by their marks. mkfs writes those of ext4 and Btrfs at its very
// end, and marks XFS as unfinished until then.
func contentOfHead(head []byte) headContent {
	const (
		ext4At, ext4Magic   = 1024 + 56, 0xEF53
		xfsUnfinishedAt     = 126
		btrfsAt, btrfsMagic = 64<<10 + 64, "_BHRfS_M"
	)
	at := func(offset, n int) []byte {
		if offset+n > len(head) {
			return make([]byte, n)
		}
		return head[offset : offset+n]
	}
	switch {
	case binary.LittleEndian.Uint16(at(ext4At, 2)) == ext4Magic,
		string(at(0, 4)) == "XFSB" && at(xfsUnfinishedAt, 1)[0] == 0,
		string(at(btrfsAt, len(btrfsMagic))) == btrfsMagic:
		return filesystemThere
	case len(bytes.TrimLeft(head, "\x00")) == 0:
		return nothingThere
	}
	return somethingThere
}

func headOf(f Disk) ([]byte, error) { return io.ReadAll(io.NewSectionReader(f, 0, headSize)) }

// clearHead makes the head of a device zeros, and writes only when it is not: a write takes room in
// a thin pool.
func (x replica) clearHead(device string) error {
	f, err := x.Open(device)
	if err != nil {
		return err
	}
	head, err := headOf(f)
	if err == nil && contentOfHead(head) != nothingThere {
		clear(head)
		_, err = f.WriteAt(head, 0)
		err = errors.Join(err, f.Sync())
	}
	return errors.Join(err, f.Close())
}
