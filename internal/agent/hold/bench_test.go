// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package hold_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/agent/hold"
	"github.com/holdfast-storage/holdfast/internal/agent/mount"
	"github.com/holdfast-storage/holdfast/internal/agent/mount/mounttest"
)

// BenchmarkAcquireAndRelease is one acquire and one release of a pool that is mounted and held by another. On a disk it also costs one fdatasync,
// whose time is shown beside it.
func BenchmarkAcquireAndRelease(b *testing.B) {
	bench := func(name string, journal func(h *host) string) {
		b.Run(name, func(b *testing.B) {
			h := newHost(b)
			h.down()
			h.journal = journal(h)
			h.boot()
			p := h.folder("a")
			h.acquire(p, "other")
			r := req("a")
			ctx := context.Background()
			for b.Loop() {
				if _, err := h.Acquire(ctx, p, r); err != nil {
					b.Fatal(err)
				}
				if _, err := h.Release(ctx, r.ID); err != nil {
					b.Fatal(err)
				}
			}
			h.release("other")
		})
	}
	bench("journal in memory", func(h *host) string { return filepath.Join(h.dir, "journal") })
	bench("journal on disk", func(*host) string { return b.TempDir() })
	b.Run("fdatasync alone", func(b *testing.B) {
		f, err := os.Create(filepath.Join(b.TempDir(), "f"))
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = f.Close() }()
		line := make([]byte, 400)
		for b.Loop() {
			if _, err := f.Write(line); err != nil {
				b.Fatal(err)
			}
			if err := unix.Fdatasync(int(f.Fd())); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkInspectWhileAServerHangs inspects a pool whose server does not answer.
func BenchmarkInspectWhileAServerHangs(b *testing.B) {
	h := newHost(b)
	h.down()
	h.limits.Probe, h.limits.ProbeEvery = 100*time.Millisecond, 10*time.Millisecond
	h.boot()
	dir := mounttest.Mkdir(b, h.dir, "server")
	server := mounttest.Serve(b, dir)
	h.acquire(hold.Pool{ID: "remote", Spec: mount.Spec{Source: mount.Source{Kind: mount.Existing, Path: dir}}}, "a")
	server.Hang()
	h.await(hold.SuspectEvent, 1)
	slowest := time.Duration(0)
	for b.Loop() {
		began := time.Now()
		st, err := h.Inspect(context.Background(), "remote")
		slowest = max(slowest, time.Since(began))
		if err != nil || st.State != hold.StateSuspect {
			b.Fatalf("%+v, %v", st, err)
		}
	}
	b.ReportMetric(float64(slowest.Microseconds()), "slowest-us")
	h.release("a")
}

// BenchmarkSchedule is one life of a pool in memory: mount, hold, release, unmount.
func BenchmarkSchedule(b *testing.B) {
	r := start(b, newWorld())
	defer r.stop()
	for b.Loop() {
		r.get(pool, req("a"))
		r.give("a")
	}
}
