// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"context"

	"github.com/holdfast-storage/holdfast/internal/agent/mount"
)

// A Driver mounts and unmounts sources. *mount.Kernel is one. Table, Target and Matches never block. All others may hang, and return only when
// what they began is over, whatever their context says; a Set goes on without them.
type Driver interface {
	// Table returns what is mounted now.
	Table() (mount.Table, error)
	// Target returns the place of a source.
	Target(s mount.Source) string
	// Matches tells whether e, at the place of spec's source in t, shows what spec wants.
	Matches(t mount.Table, e mount.Entry, spec mount.Spec) bool
	// Mount brings a source up at its place, or finds it there, and verifies its identity.
	Mount(ctx context.Context, spec mount.Spec) (mount.Mounted, error)
	// Unmount takes e down.
	Unmount(ctx context.Context, s mount.Source, e mount.Entry, force mount.Force) error
	// Users returns who uses e, or used it before it left the table. With an error there may be more.
	Users(ctx context.Context, e mount.Entry) ([]mount.User, error)
	// Probe asks the file system for something that only its server can answer.
	Probe(ctx context.Context, spec mount.Spec, e mount.Entry) error
	// Settle returns when nothing that an earlier process began is at work on the place of s.
	Settle(ctx context.Context, s mount.Source) error
}

// A Finder knows users of pools that have not acquired holds, such as the disks of all virtual machines. It is asked at the start, from time
// to time, and before each unmount. While it fails, nothing is unmounted.
type Finder interface {
	// Find returns all users that there are on this host now, whatever pool they use. Paths are real: without symbolic links.
	Find(ctx context.Context) ([]Found, error)
}

// Found is someone who uses a path.
type Found struct {
	Holder Holder
	Path   string // A file or folder, absolute.
	Mode   Mode
}

// Machines is the Finder that knows the running virtual machines by the files that their QEMU processes have open. It needs no libvirt, and does
// not know of machines that are not running.
type Machines struct {
	Kernel interface {
		Machines(ctx context.Context) ([]mount.Machine, error)
	}
}

// Find implements Finder.
func (m Machines) Find(ctx context.Context) ([]Found, error) {
	machines, err := m.Kernel.Machines(ctx)
	if err != nil {
		return nil, err
	}
	found := make([]Found, len(machines))
	for i, f := range machines {
		found[i] = Found{Holder: Holder{Kind: VM, Name: f.Name, PID: f.PID, Start: f.Start}, Path: f.Path, Mode: ReadOnly}
		if f.Write {
			found[i].Mode = ReadWrite
		}
	}
	return found, nil
}

// A Liveness knows whether holders of one kind still live.
type Liveness interface {
	// Alive returns false only for a holder that has surely ended.
	Alive(ctx context.Context, h Holder) (bool, error)
}

// Processes is the Liveness of holders that are processes of this host. A holder without a process id lives for ever.
type Processes struct{}

// Alive implements Liveness.
func (Processes) Alive(_ context.Context, h Holder) (bool, error) {
	return h.PID == 0 || mount.Alive(h.PID, h.Start), nil
}
