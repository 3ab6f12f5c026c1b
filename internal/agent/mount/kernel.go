// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package mount

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/command"
)

// HelperName is the first argument with which this program is a helper of this package.
const HelperName = "mount-helper"

// Config says where a Kernel works.
type Config struct {
	Base   string         // The folder that the places of sources lie in: absolute, without symbolic links, the agent's own.
	Run    string         // A folder that does not outlive the kernel, such as one under /run: it notes the helpers at work.
	Runner command.Runner // Starts the helpers.
	Helper []string       // How a helper is started, without its arguments. Empty: this program with HelperName.
}

// Kernel mounts and unmounts sources on this host.
type Kernel struct {
	c      Config
	reader Reader
}

// New returns a Kernel. It touches nothing yet.
func New(c Config) (*Kernel, error) {
	for _, dir := range []string{c.Base, c.Run} {
		if !path.IsAbs(dir) || path.Clean(dir) != dir || dir == "/" {
			return nil, fmt.Errorf("folder %q for mounts is not possible: give an absolute, clean path", dir)
		}
	}
	if c.Runner == nil {
		return nil, errors.New("a runner of programs is missing")
	}
	if len(c.Helper) == 0 {
		c.Helper = []string{"/proc/self/exe", HelperName}
	}
	return &Kernel{c: c}, nil
}

// Close gives back what the Kernel has open. Mounts stay as they are.
func (k *Kernel) Close() error { return k.reader.Close() }

// Table returns the mounts of this host as they are now. It never hangs.
func (k *Kernel) Table() (Table, error) { return k.reader.Table() }

// Target returns the place of a source on this host. It is the same after a restart.
func (k *Kernel) Target(s Source) string {
	if s.Kind == Existing {
		return s.Path
	}
	return path.Join(k.c.Base, s.Key())
}

// Strays returns the mounts in t that lie below the base folder.
func (k *Kernel) Strays(t Table) []Entry { return t.Under(k.c.Base) }

// Matches tells whether e, at its place in t, shows what spec wants, as far as the table can tell. The identity is not looked at.
func (k *Kernel) Matches(t Table, e Entry, spec Spec) bool {
	if e.Target != k.Target(spec.Source) {
		return false
	}
	switch spec.Source.Kind {
	case NFS:
		if e.FSType != "nfs" && e.FSType != "nfs4" {
			return false
		}
		s, err := ParseSource(NFS, e.Source)
		return err == nil && s == spec.Source
	case Block:
		return (spec.FSType == "" || spec.FSType == e.FSType) && sameDevice(e, spec.Source.Path)
	case Bind:
		from, rest, ok := t.Reach(spec.Source.Path)
		return ok && from.SameFS(e) && path.Join(from.Root, rest) == e.Root && !from.Same(e)
	case Existing:
		return (spec.FSType == "" || spec.FSType == e.FSType) && (spec.Device == "" || spec.Device == e.Source)
	}
	return false
}

// sameDevice tells whether e is of the block device at a path under /dev, which cannot hang.
func sameDevice(e Entry, device string) bool {
	if e.Source == device {
		return true
	}
	var want, have unix.Stat_t
	if unix.Stat(device, &want) != nil || want.Mode&unix.S_IFMT != unix.S_IFBLK {
		return false
	}
	if want.Rdev == unix.Mkdev(uint32(e.Major), uint32(e.Minor)) {
		return true
	}
	return strings.HasPrefix(e.Source, "/dev/") && unix.Stat(e.Source, &have) == nil && have.Mode&unix.S_IFMT == unix.S_IFBLK && have.Rdev == want.Rdev
}

// Prepare makes the base folder and sees to it that mounts in it are shared with other mount namespaces: they then see later mounts, and the
// kernel refuses to unmount what someone uses in any of them. It may be called again.
func (k *Kernel) Prepare(ctx context.Context) error {
	_, err := k.help(ctx, "prepare", request{Step: "prepare the folder", Source: k.c.Base, Slot: k.slot("base", change), Target: k.c.Base})
	if err != nil {
		return err
	}
	k.reader.forget() // To the kernel, a mount that has become shared is no change of the table.
	t, err := k.Table()
	if err != nil {
		return err
	}
	if e, _, ok := t.Reach(k.c.Base); !ok || !e.Shared() {
		return &Error{Fault: Failed, Step: "prepare the folder", Source: k.c.Base, Detail: "it is in no shared mount afterwards"}
	}
	return nil
}

// Mounted is a source at its place.
type Mounted struct {
	Entry    Entry
	Identity string // The uuid of its marker. Empty: it has none.
	Inode    uint64 // Of its root: exports of one server can be folders of one file system.
}

// Mount brings spec's source up at its place, or finds it mounted there, and verifies that it is what was asked for. On an error nothing
// new is mounted, unless that could not be undone either: whoever calls looks at the table.
func (k *Kernel) Mount(ctx context.Context, spec Spec) (Mounted, error) {
	target := k.Target(spec.Source)
	req := request{Step: "mount", Source: spec.Source.String(), Slot: k.slot(spec.Source.Key(), change), Target: target, Spec: spec}
	t, err := k.Table()
	if err != nil {
		return Mounted{}, err
	}
	e, found := t.At(target)
	fresh := !found
	switch {
	case found && !k.Matches(t, e, spec):
		return Mounted{}, &Error{Fault: Taken, Step: req.Step, Source: req.Source, Target: target, Found: &e}
	case !found && spec.Source.Kind == Existing:
		return Mounted{}, &Error{Fault: NotMounted, Step: "verify", Source: req.Source, Detail: "mount it, or remove the pool"}
	case !found:
		if e, err = k.attach(ctx, req); err != nil {
			return Mounted{}, err
		}
	}
	root, err := k.verify(ctx, req, e)
	if err != nil && fresh {
		err = errors.Join(err, k.undo(ctx, spec.Source, e))
	}
	if err != nil {
		return Mounted{}, err
	}
	return Mounted{Entry: e, Identity: root.Identity, Inode: root.Inode}, nil
}

// attach mounts and returns the mount that is at the place afterwards, whatever the helper said.
func (k *Kernel) attach(ctx context.Context, req request) (Entry, error) {
	_, failed := k.help(ctx, becomesProgram, req)
	t, err := k.Table()
	if err != nil {
		return Entry{}, errors.Join(failed, err)
	}
	e, found := t.At(req.Target)
	anyType := req.Spec
	anyType.FSType = ""
	switch {
	case !found && failed == nil:
		return Entry{}, &Error{Fault: NotMounted, Step: req.Step, Source: req.Source, Target: req.Target, Detail: "mounting was reported as done"}
	case found && failed == nil && k.Matches(t, e, req.Spec):
		return e, nil
	case found && k.Matches(t, e, anyType):
		// It was mounted before the helper failed, or by mount's own guess as another type. Half a mount is none.
		if failed == nil {
			failed = &Error{Fault: Failed, Step: req.Step, Source: req.Source, Detail: fmt.Sprintf("its file system is %s instead of %s", e.FSType, req.Spec.FSType)}
		}
		return Entry{}, errors.Join(failed, k.undo(ctx, req.Spec.Source, e))
	case failed == nil:
		return Entry{}, &Error{Fault: Taken, Step: req.Step, Source: req.Source, Target: req.Target, Found: &e}
	}
	return Entry{}, failed
}

// undo unmounts what was mounted a moment ago and cannot be in use yet, also when ctx is over.
func (k *Kernel) undo(ctx context.Context, s Source, e Entry) error {
	const limit = 10 * time.Second
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	return k.Unmount(ctx, s, e, Plain)
}

// verify looks at the root of e in a helper.
func (k *Kernel) verify(ctx context.Context, req request, e Entry) (answer, error) {
	req.Step, req.Entry = "verify", e
	return k.help(ctx, "verify", req)
}

// Force says what an unmount may do to whoever uses the mount.
type Force string

// The degrees of force.
const (
	Plain  Force = ""       // The kernel refuses while anything is in use.
	Abort  Force = "abort"  // Calls that wait for the server fail, and then as Plain. Without effect on other file systems than NFS and FUSE.
	Detach Force = "detach" // As Abort, and the mount leaves its place in any case. What uses it goes on with a file system that has no place.
)

// Unmount takes e down at the place of s. It is a success when e is no longer in the table, whatever the helper said, and nothing is done
// when it was not there before. Someone else's mount on top of e is left alone and is an error of the kind Taken.
func (k *Kernel) Unmount(ctx context.Context, s Source, e Entry, force Force) error {
	req := request{Step: "unmount", Source: s.String(), Slot: k.slot(s.Key(), change), Target: k.Target(s), Entry: e, Force: force}
	t, err := k.Table()
	if err != nil {
		return err
	}
	if _, found := t.Find(e); !found {
		return nil
	}
	if top, ok := t.At(e.Target); !ok || !top.Same(e) {
		failed := &Error{Fault: Taken, Step: req.Step, Source: req.Source, Target: e.Target}
		if ok {
			failed.Found = &top
		}
		return failed
	}
	_, failed := k.help(ctx, "unmount", req)
	if t, err = k.Table(); err != nil {
		return errors.Join(failed, err)
	}
	if _, found := t.Find(e); !found {
		return nil
	}
	if failed == nil {
		return &Error{Fault: Failed, Step: req.Step, Source: req.Source, Target: req.Target, Detail: "it was reported as done, and it is still mounted"}
	}
	return failed
}

// Probe asks the file system under e for something that no cache can answer. Nil: it answered. A fault of the kind StaleHandle says that
// it has to be mounted anew. A server that hangs keeps Probe from returning until ctx ends and the helper is gone.
func (k *Kernel) Probe(ctx context.Context, spec Spec, e Entry) error {
	req := request{Step: "probe", Source: spec.Source.String(), Slot: k.slot(spec.Source.Key(), "probe"), Target: e.Target, Spec: spec, Entry: e}
	_, err := k.help(ctx, "probe", req)
	return err
}

// Settle returns when no helper that an earlier process of the agent started is at work on the place of s, or when ctx ends.
func (k *Kernel) Settle(ctx context.Context, s Source) error {
	return k.slot(s.Key(), change).wait(ctx)
}

// change is the slot of what may run only once for a source: everything that changes what is mounted.
const change = "change"

func (k *Kernel) slot(name, work string) slot {
	return slot(filepath.Join(k.c.Run, name+"."+work))
}
