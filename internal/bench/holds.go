// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/agent/hold"
	"github.com/holdfast-storage/holdfast/internal/agent/mount"
)

// holds measures what it costs to acquire and release a pool that is mounted already, with the journal in memory, as hosts
// have it, and on a disk, beside the one fdatasync that a disk needs for it.
func (b *bench) holds(ctx context.Context) error {
	const memory = "/dev/shm"
	b.say("\nacquire and release a pool that is mounted and held by another\n")
	for _, j := range []struct{ name, parent string }{{"journal in memory", memory}, {"journal on disk", b.dir}} {
		times, err := b.acquireAndRelease(ctx, j.parent)
		if err != nil {
			return fmt.Errorf("%s: %w", j.name, err)
		}
		b.say("  %-18s %s\n", j.name, spread(times))
	}
	times, err := b.fdatasync()
	if err != nil {
		return err
	}
	b.say("  %-18s %s\n", "fdatasync alone", spread(times))
	return nil
}

// spread is how long things took.
func spread(times []time.Duration) string {
	slices.Sort(times)
	at := func(percent int) time.Duration { return times[len(times)*percent/100].Round(100 * time.Nanosecond) }
	return fmt.Sprintf("median %s, 99%% %s", at(50), at(99))
}

func (b *bench) acquireAndRelease(ctx context.Context, parent string) (times []time.Duration, err error) {
	const rounds = 3000
	dir, err := os.MkdirTemp(parent, "holdfast-holds-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	kernel, err := mount.New(mount.Config{Base: filepath.Join(dir, "mnt"), Run: filepath.Join(dir, "run"), Runner: b.runner})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, kernel.Close()) }()
	journal, err := hold.OpenFiles(filepath.Join(dir, "holds"), "")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, journal.Close()) }()
	set, err := hold.Open(hold.Config{Driver: kernel, Journal: journal})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, set.Close(context.WithoutCancel(ctx))) }()
	source, err := mount.ParseSource(mount.Existing, "/proc") // It is there, and is only looked at.
	if err != nil {
		return nil, err
	}
	p := hold.Pool{ID: "bench", Spec: mount.Spec{Source: source}}
	request := func(id hold.ID) hold.Request {
		return hold.Request{ID: id, Holder: hold.Holder{Kind: hold.Operator, Name: "bench"}}
	}
	if _, err := set.Acquire(ctx, p, request("other")); err != nil {
		return nil, err
	}
	for range rounds {
		began := time.Now()
		if _, err := set.Acquire(ctx, p, request("measured")); err != nil {
			return nil, err
		}
		if _, err := set.Release(ctx, "measured"); err != nil {
			return nil, err
		}
		times = append(times, time.Since(began))
	}
	_, err = set.Release(ctx, "other")
	return times, err
}

// fdatasync measures what a disk takes for a line of a journal.
func (b *bench) fdatasync() (times []time.Duration, err error) {
	const rounds, size = 500, 400
	f, err := os.CreateTemp(b.dir, "line-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	line := make([]byte, size)
	for range rounds {
		began := time.Now()
		if _, err := f.Write(line); err != nil {
			return nil, err
		}
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			return nil, err
		}
		times = append(times, time.Since(began))
	}
	return times, nil
}
