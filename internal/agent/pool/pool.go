// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package pool

import "context"

// A Driver works on one pool of this host. The package comment says what all methods promise; the errors named here are found with errors.As.
type Driver interface {
	// Space says how large the pool is and how much of it is left. A *FaultyError says that the pool cannot be worked with, and why.
	Space(ctx context.Context) (Space, error)

	// List returns the volumes of the pool that are ours, NEW ones too, ordered by ID.
	List(ctx context.Context) ([]Volume, error)

	// Create makes a NEW volume of at least size bytes. Its content reads as zeros or is undefined. A NEW volume of that size is left as it
	// is; one of another size is replaced, as nobody was told of it. A finished volume is an *ExistsError. When the pool has not
	// enough room, a *NoSpaceError, nothing is left behind.
	Create(ctx context.Context, id ID, size int64) error

	// Finish makes what was written through the device durable and then, atomically, the volume no longer NEW. After a crash the volume
	// is NEW or finished with all its content, and once Finish returned it is finished.
	Finish(ctx context.Context, id ID) error

	// Open makes the volume's block device, or finds the one that it has, as large as the volume. It stays until Close or Remove, also when the
	// agent ends.
	Open(ctx context.Context, id ID) (Device, error)

	// Close takes the device down and keeps the volume. An *InUseError when anyone uses it.
	Close(ctx context.Context, id ID) error

	// Grow makes the volume at least size bytes large, and its device too when it is open. A volume that is already as large stays as it is: Grow
	// never shrinks. On a *NoSpaceError the volume has its old size.
	Grow(ctx context.Context, id ID, size int64) error

	// Remove takes the device down and destroys the volume, NEW or finished. An *InUseError when anyone uses it.
	Remove(ctx context.Context, id ID) error
}

// Space is what a pool knows of its room, in bytes. All of it is known: a driver that cannot learn one of them returns an error.
type Space struct {
	Total int64 // The size of the pool, used or not.
	Free  int64 // What new volumes can still be given.
}

// Volume is what the pool knows of one volume.
type Volume struct {
	ID          ID     // Folded: the pool does not keep the case of names.
	Size        int64  // Usable bytes.
	Granularity int64  // What sizes of this volume are rounded up to, in bytes. Above zero; Size is a multiple of it unless others changed it.
	Allocated   int64  // Bytes of the pool that the volume really takes.
	Backing     string // The device or file that the volume is, for people. May be empty.
	New         bool   // Created and not finished.
	Lost        bool   // Others removed what is under the device. Its content can be read from there until Close or Remove, which are all that it is good for.
	RolledBack  string // Token of its last roll-back. Empty when it never was.
	Device      Device // Zero while the volume is not open. After a crash in the midst of Grow it may be smaller than the volume; Open corrects that.
}

// Device is the block device of an open volume.
type Device struct {
	Path string // Under /dev. It may differ after a Close or a reboot.
	Size int64  // Bytes, as the kernel sees it.
}

// A Finder looks one volume up without listing all. It is an optional ability of a driver; use [Find].
type Finder interface {
	// Find returns the volume, or false when the pool surely has none of that ID.
	Find(ctx context.Context, id ID) (Volume, bool, error)
}

// A HolderLister names who uses a volume. It is an optional ability of a driver.
type HolderLister interface {
	// Holders returns everyone who uses the volume, looked up after the call began; none when the volume is absent or unused. An error means
	// that it could not be learned, and then the volume counts as used.
	Holders(ctx context.Context, id ID) ([]Holder, error)
}

// A Checker proves that a pool can be worked with by doing a small work in it. It is an optional ability of a driver.
type Checker interface {
	// Check returns nil, or a *FaultyError with the reason and what to do.
	Check(ctx context.Context) error
}

// Find returns the volume of one ID, or false when d surely has none.
func Find(ctx context.Context, d Driver, id ID) (Volume, bool, error) {
	if f, ok := d.(Finder); ok {
		return f.Find(ctx, id)
	}
	volumes, err := d.List(ctx)
	if err != nil {
		return Volume{}, false, err
	}
	id = id.Fold()
	for _, v := range volumes {
		if v.ID == id {
			return v, true, nil
		}
	}
	return Volume{}, false, nil
}
