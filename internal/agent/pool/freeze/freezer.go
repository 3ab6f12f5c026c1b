// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package freeze

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/command"
)

// HelperName is the first argument with which this program is a helper of this package.
const HelperName = "freeze-helper"

// Defaults of a Config.
const (
	DefaultNotes  = "/run/holdfast/frozen"
	DefaultAnswer = 5 * time.Second
)

// Config says how filesystems are frozen.
type Config struct {
	Runner command.Runner // Starts the guards.
	Helper []string       // How a helper is started, without its arguments. Empty: this program with HelperName.
	Notes  string         // Folder for notes of what is frozen. It must not outlive a boot. Empty: DefaultNotes.
	Answer time.Duration  // How long a guard is waited for that was told to thaw, or should have thawed by itself. Zero: DefaultAnswer.
}

// Freezer freezes filesystems. One is shared by all pools of a host.
type Freezer struct {
	c Config

	recovery sync.Mutex // Held while notes of others are worked off.
	clean    bool       // There are no notes of others any more. Guarded by recovery.
}

// New returns a Freezer. It touches nothing.
func New(c Config) *Freezer {
	if len(c.Helper) == 0 {
		c.Helper = []string{"/proc/self/exe", HelperName}
	}
	c.Notes, c.Answer = cmp.Or(c.Notes, DefaultNotes), cmp.Or(c.Answer, DefaultAnswer)
	return &Freezer{c: c}
}

// Mount is a place at which a filesystem is mounted.
type Mount struct {
	PID   int    // Of a process that sees it.
	Point string // As that process sees it.
}

const (
	// startLimit bounds the start of a guard and the opening of the filesystem.
	startLimit = 10 * time.Second
	// guardLimit is how much longer than its work a guard may live before it is killed.
	guardLimit = 5 * time.Minute
)

// Frozen is a frozen filesystem.
type Frozen struct {
	freezer *Freezer
	device  uint64
	conn    *net.UnixConn
	root    *os.File // Of the filesystem.
	foreign bool     // Someone else froze it.
	note    note
	ended   chan struct{} // Closed when the guard is gone.

	once sync.Once
	held bool
	err  error
}

// Freeze stops the writes to the filesystem on a block device, which is given as stat reports it in Rdev, at the latest until limit is over. The
// filesystem is reached by the first of mounts that leads to it. When Freeze returns an error, the filesystem is not frozen, or will be thawed as
// soon as the kernel has done freezing it.
func (z *Freezer) Freeze(ctx context.Context, device uint64, mounts []Mount, limit time.Duration) (*Frozen, error) {
	f, err := z.freeze(ctx, device, mounts, limit)
	if err != nil {
		return nil, fmt.Errorf("freeze the filesystem on %s: %w", deviceName(device), err)
	}
	return f, nil
}

func (z *Freezer) freeze(ctx context.Context, device uint64, mounts []Mount, limit time.Duration) (*Frozen, error) {
	if err := z.Recover(ctx); err != nil {
		return nil, err
	}
	f := &Frozen{freezer: z, device: device, ended: make(chan struct{})}
	if err := f.start(ctx, guardRequest{Device: device, Mounts: mounts, Limit: limit}); err != nil {
		return nil, err
	}
	// A context that ends breaks the connection, and then the guard thaws.
	stop := context.AfterFunc(ctx, func() { _ = f.conn.Close() })
	err := f.begin(limit)
	if !stop() {
		err = errors.Join(ctx.Err(), err)
	}
	if err != nil {
		f.abandon()
		return nil, err
	}
	return f, nil
}

// start starts the guard and connects to it.
func (f *Frozen) start(ctx context.Context, req guardRequest) error {
	req.Socket = "@holdfast-freeze-" + uuid.NewString()
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: req.Socket, Net: "unixpacket"})
	if err != nil {
		return fmt.Errorf("listen for the guard: %w", err)
	}
	defer func() { _ = l.Close() }()
	if err := l.SetDeadline(time.Now().Add(startLimit)); err != nil {
		return err
	}
	text, err := json.Marshal(req)
	if err != nil {
		return err
	}
	c := command.Command{
		Program: f.freezer.c.Helper[0], Args: append(slices.Clone(f.freezer.c.Helper[1:]), guardVerb, deviceName(req.Device)), Stdin: text,
		Limit: startLimit + req.Limit + guardLimit,
	}
	failed := make(chan error, 1)
	go func() {
		defer close(f.ended)
		// A guard must not be killed because a context ends: it ends by itself when the connection does.
		_, err := f.freezer.c.Runner.Run(context.WithoutCancel(ctx), c)
		failed <- err
		_ = l.Close() // Nobody will connect any more.
	}()
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	if f.conn, err = l.AcceptUnix(); err != nil {
		select {
		case err = <-failed:
		default:
		}
		return errors.Join(ctx.Err(), fmt.Errorf("start the guard: %w", err))
	}
	cred, err := peer(f.conn)
	if err == nil && int(cred.Uid) != os.Geteuid() {
		err = fmt.Errorf("user %d connected instead of the guard", cred.Uid)
	}
	if err != nil {
		_ = f.conn.Close()
		return err
	}
	f.note.Guard.PID = int(cred.Pid)
	return nil
}

// begin has the guard open the filesystem, writes the note, and has the guard freeze.
func (f *Frozen) begin(limit time.Duration) error {
	if err := f.conn.SetDeadline(time.Now().Add(startLimit)); err != nil {
		return err
	}
	opened, root, err := receive(f.conn)
	if err != nil {
		return err
	}
	if root == nil {
		return errors.New("the guard sent no descriptor")
	}
	f.root = root
	if f.note.Agent, err = identify(os.Getpid()); err != nil {
		return err
	}
	if f.note.Guard, err = identify(f.note.Guard.PID); err != nil {
		return err
	}
	f.note.Device, f.note.Type, f.note.Sequence = f.device, opened.Type, sequence(f.device)
	if err := f.note.write(f.freezer.c.Notes); err != nil {
		return err
	}
	if err := f.conn.SetDeadline(time.Now().Add(limit + f.freezer.c.Answer)); err != nil {
		return err
	}
	if err := send(f.conn, message{Kind: freezeIt}, -1); err != nil {
		return err
	}
	frozen, _, err := receive(f.conn)
	f.foreign = frozen.Foreign
	return err
}

// abandon gives up what was begun: the guard thaws when the connection ends. If the guard is not there to do it, this process does.
func (f *Frozen) abandon() {
	_ = f.conn.Close()
	f.settle()
}

// settle waits for the guard to be gone, thaws if it did not, and forgets the note if the filesystem is surely not frozen any more.
func (f *Frozen) settle() {
	if !f.gone() { // It was stopped, or hangs.
		if !f.note.Guard.gone() {
			_ = unix.Kill(f.note.Guard.PID, unix.SIGKILL)
		}
		if !f.gone() {
			// It is in the midst of freezing, and thaws as soon as that is done. To thaw here would hang as well.
			f.err = fmt.Errorf("freeze the filesystem on %s: process %d hangs in the kernel and thaws when it is done", deviceName(f.device), f.note.Guard.PID)
		}
	}
	if f.root != nil {
		if !f.foreign && f.err == nil {
			if err := thaw(f.root); err != nil && !errors.Is(err, unix.EINVAL) {
				f.err = fmt.Errorf("thaw the filesystem on %s: %w", deviceName(f.device), err)
			}
		}
		_ = f.root.Close()
	}
	if f.err == nil {
		f.err = f.note.remove()
	}
}

// gone waits for the guard to be gone, for a while.
func (f *Frozen) gone() bool {
	timer := time.NewTimer(f.freezer.c.Answer)
	defer timer.Stop()
	select {
	case <-f.ended:
		return true
	case <-timer.C:
		return false
	}
}

// Thaw lets writes go on. Held tells whether they were stopped all the time; if not, the limit was over, the guard died, or someone else thawed. An error says
// that the filesystem may still be frozen. A further call returns the same again.
func (f *Frozen) Thaw() (held bool, err error) {
	f.once.Do(func() {
		if f.conn.SetDeadline(time.Now().Add(f.freezer.c.Answer)) == nil {
			// When the guard has lapsed, sending fails and its last word can be read all the same.
			_ = send(f.conn, message{Kind: thawIt}, -1)
			last, _, err := receive(f.conn)
			f.held = err == nil && last.Kind == thawed
		}
		_ = f.conn.Close()
		f.settle()
	})
	return f.held, f.err
}
