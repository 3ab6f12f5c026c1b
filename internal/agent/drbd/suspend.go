// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package drbd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent/drbd/kernel"
	"github.com/holdfast-storage/holdfast/internal/command"
)

// DefaultNotes is where notes of suspensions are kept. It does not outlive the boot, and neither does a suspension.
const DefaultNotes = "/run/holdfast/drbd-suspended"

const noteExtension = ".minors"

// deadMan resumes the I/O of devices when the time is over or it is told to end, if the note of the suspension is still there. It is a process of its own that
// outlives the agent. Its arguments are the seconds, the note, and the minors.
const deadMan = `limit=$1 note=$2; shift 2
end() { trap '' TERM INT HUP QUIT; [ -e "$note" ] && { for minor; do drbdsetup resume-io "$minor"; done; rm -f "$note"; }; exit 0; }
trap 'end "$@"' TERM INT HUP QUIT
sleep "$limit" & wait $!
end "$@"`

// Suspension is a time in which I/O to some devices is held back. Its methods may be called by any goroutine.
type Suspension struct {
	d      *DRBD
	note   string
	minors []string

	once  sync.Once
	whole bool
	err   error
}

// Suspend holds back the I/O that is issued on this host to all volumes of a resource, until Resume, and not longer than limit whatever becomes of this
// process: a guard of its own resumes then. What other hosts write is not held back: suspend on the host where the resource is Primary.
//
// Writes that were accepted before are done on all peers that are connected.
func (d *DRBD) Suspend(ctx context.Context, s kernel.Resource, limit time.Duration) (*Suspension, error) {
	what := "hold back the I/O of resource " + s.Name
	if limit < time.Second {
		return nil, fmt.Errorf("%s: the limit is %s, and a second is the least", what, limit)
	}
	h := &Suspension{d: d}
	for _, v := range s.Devices {
		h.minors = append(h.minors, strconv.Itoa(v.Minor))
	}
	if len(h.minors) == 0 {
		return nil, fmt.Errorf("%s: it has no volume here", what)
	}
	if err := h.guard(ctx, s.Name, limit); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	for _, minor := range h.minors {
		if _, err := d.run(ctx, s.Name, what, "drbdsetup", "suspend-io", minor); err != nil {
			_, resumeErr := h.Resume(context.WithoutCancel(ctx))
			return nil, errors.Join(err, resumeErr)
		}
	}
	now, err := d.state(ctx, s.Name)
	if err == nil && (now == nil || !slices.Contains(now.Suspended, "user")) {
		err = fmt.Errorf("%s: it is not held back although drbdsetup said so", what)
	}
	if err != nil {
		_, resumeErr := h.Resume(context.WithoutCancel(ctx))
		return nil, errors.Join(err, resumeErr)
	}
	return h, nil
}

// guard leaves a note and starts the guard, before anything is held back.
func (h *Suspension) guard(ctx context.Context, resource string, limit time.Duration) error {
	folder := h.d.settings.Notes
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	note, err := os.CreateTemp(folder, resource+".*"+noteExtension)
	if err != nil {
		return err
	}
	h.note = note.Name()
	_, err = note.WriteString(strings.Join(h.minors, "\n") + "\n")
	if err := errors.Join(err, note.Sync(), note.Close()); err != nil {
		return errors.Join(err, os.Remove(h.note))
	}
	args := append([]string{strconv.Itoa(int(limit / time.Second)), h.note}, h.minors...)
	// A session of its own, and in the background: neither the end of this process nor that of the command ends it.
	launch := append([]string{"-c", `setsid sh -c "$0" guard "$@" </dev/null >/dev/null 2>&1 &`, deadMan}, args...)
	if _, err := h.d.settings.Runner.Run(ctx, command.Command{Program: "sh", Args: launch}); err != nil {
		return errors.Join(err, os.Remove(h.note))
	}
	return nil
}

// Resume lets I/O go on, at the latest when it returns. Whole tells whether it was held back until now: when the guard was first, it was not. A further call
// returns the same again.
func (h *Suspension) Resume(ctx context.Context) (whole bool, err error) {
	h.once.Do(func() {
		_, noteErr := os.Stat(h.note)
		h.err = h.d.resume(ctx, h.minors)
		if h.err == nil { // Else the guard tries again at the limit.
			if err := os.Remove(h.note); err != nil && !errors.Is(err, fs.ErrNotExist) {
				h.err = err
			} else {
				h.whole = noteErr == nil && err == nil
			}
		}
	})
	return h.whole, h.err
}

func (d *DRBD) resume(ctx context.Context, minors []string) error {
	var all error
	for _, minor := range minors {
		_, err := d.run(ctx, "", "let I/O of minor "+minor+" go on", "drbdsetup", "resume-io", minor)
		var e *KernelError
		if errors.As(err, &e) && e.Code == noMinor {
			err = nil // It went, and its suspension with it.
		}
		all = errors.Join(all, err)
	}
	return all
}

// noMinor is the kernel's code for a minor that it does not have.
const noMinor = 127

// Recover resumes what an agent that ended without doing so has left held back. It is called once, before anything else is done.
func (d *DRBD) Recover(ctx context.Context) error {
	notes, err := filepath.Glob(filepath.Join(d.settings.Notes, "*"+noteExtension))
	if err != nil {
		return err
	}
	for _, note := range notes {
		text, readErr := os.ReadFile(note)
		resumeErr := readErr
		if readErr == nil {
			resumeErr = d.resume(ctx, strings.Fields(string(text)))
		}
		if resumeErr == nil {
			resumeErr = os.Remove(note)
		}
		if resumeErr != nil && !errors.Is(resumeErr, fs.ErrNotExist) {
			err = errors.Join(err, fmt.Errorf("resume what %s names: %w", note, resumeErr))
		}
	}
	return err
}
