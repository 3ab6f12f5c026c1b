// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package stack_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent/pool/file"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/pooltest"
	"github.com/holdfast-storage/holdfast/internal/agent/stack"
	"github.com/holdfast-storage/holdfast/internal/command"
)

// BenchmarkVolume compares the time from the wish for a volume to its device with the commands that make the same by hand, taking turns
// in one run. It reports both in milliseconds, and their ratio.
func BenchmarkVolume(b *testing.B) {
	pooltest.NeedHost(b, "losetup", "mkfs.ext4", "fallocate", "truncate")
	for _, pool := range []string{"thick", "thin"} {
		for _, fs := range []string{"", "ext4"} {
			name := pool + "/none"
			if fs != "" {
				name = pool + "/" + fs
			}
			b.Run(name, func(b *testing.B) { benchmarkVolume(b, pool, fs) })
		}
	}
}

func benchmarkVolume(b *testing.B, pool, fs string) {
	b.Helper()
	s, _ := newHost(b, 4<<30)
	by := byHand{dir: b.TempDir(), pool: pool, fs: fs}
	w := stack.Want{Resource: "db", Volumes: []stack.VolumeWant{{Pool: pool, Size: 1 << 30}}}
	if fs != "" {
		w.Volumes[0].Filesystem = &stack.Filesystem{Type: fs}
	}
	by.dir = pooltest.Mount(b, "ext4", 4<<30) // A file system of its own, as fresh as the pool's.
	round := func() (ours, theirs time.Duration) {
		start := time.Now()
		if _, err := s.Apply(b.Context(), w); err != nil {
			b.Fatal(err)
		}
		ours = time.Since(start)
		gone := w
		gone.Destroy = true
		if _, err := s.Apply(b.Context(), gone); err != nil {
			b.Fatal(err)
		}
		return ours, by.volume(b)
	}
	round() // The first round makes loop devices and loads programs.
	var ours, theirs time.Duration
	n := 0
	for b.Loop() {
		o, t := round()
		ours, theirs, n = ours+o, theirs+t, n+1
	}
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 / float64(n) }
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(ms(ours), "ms/volume")
	b.ReportMetric(ms(theirs), "ms/by-hand")
	b.ReportMetric(ms(ours)/ms(theirs), "ratio")
}

// byHand makes a volume by commands.
type byHand struct{ dir, pool, fs string }

func (h byHand) volume(b *testing.B) time.Duration {
	b.Helper()
	image := filepath.Join(h.dir, "image")
	start := time.Now()
	if h.pool == "thick" {
		pooltest.Run(b, "fallocate", "-l", fmt.Sprint(1<<30), image)
	} else {
		pooltest.Run(b, "truncate", "-s", fmt.Sprint(1<<30), image)
	}
	device := pooltest.Run(b, "losetup", "-f", "--show", image)
	if h.fs != "" {
		pooltest.Run(b, "mkfs."+h.fs, "-q", "-F", "-E", "nodiscard,lazy_itable_init=1", device)
	}
	pooltest.Run(b, "sync", image) // Ours is durable too when it is reported.
	taken := time.Since(start)
	pooltest.Run(b, "losetup", "-d", device)
	if err := os.Remove(image); err != nil {
		b.Fatal(err)
	}
	return taken
}

// BenchmarkCommand is what one program costs by itself.
func BenchmarkCommand(b *testing.B) {
	var e command.Exec
	for b.Loop() {
		if _, err := e.Run(b.Context(), command.Command{Program: "true"}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSnapshot compares the time from the wish for a snapshot of 1 GiB of blocks that can be shared until it is durable with the command that does the same by hand. It reports
// both in milliseconds, and their ratio.
func BenchmarkSnapshot(b *testing.B) {
	pooltest.NeedHost(b, "mkfs.xfs", "cp")
	dir := filepath.Join(pooltest.Mount(b, "xfs", 6<<30), "pool")
	if err := os.Mkdir(dir, 0o700); err != nil {
		b.Fatal(err)
	}
	d, err := file.New(file.Config{Name: "p", Node: "n1", Dir: dir, Thin: true})
	if err != nil {
		b.Fatal(err)
	}
	s := stack.New(pools{"p": d}, &command.Exec{})
	b.Cleanup(s.Close)
	w := stack.Want{Resource: "db", Volumes: []stack.VolumeWant{{Pool: "p", Size: 1 << 30}}}
	apply := func() (took time.Duration) {
		start := time.Now()
		if _, err := s.Apply(b.Context(), w); err != nil {
			b.Fatal(err)
		}
		return time.Since(start)
	}
	apply()
	path := filepath.Join(dir, "db_00000.volume")
	pooltest.Run(b, "dd", "if=/dev/urandom", "of="+path, "bs=4M", "count=256", "conv=notrunc,fsync", "status=none")
	var ours, theirs time.Duration
	n := 0
	for b.Loop() {
		w.Snapshots = []stack.SnapshotWant{{Name: "snap", Volumes: []stack.SnapshotVolume{{Pool: "p"}}}}
		ours += apply()
		w.Snapshots[0].Destroy = true
		apply()
		start := time.Now()
		pooltest.Run(b, "cp", "--reflink=always", path, filepath.Join(dir, "copy"))
		pooltest.Run(b, "sync", filepath.Join(dir, "copy"))
		theirs += time.Since(start)
		if err := os.Remove(filepath.Join(dir, "copy")); err != nil {
			b.Fatal(err)
		}
		n++
	}
	w.Snapshots, w.Destroy = nil, true
	apply()
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 / float64(n) }
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(ms(ours), "ms/snapshot")
	b.ReportMetric(ms(theirs), "ms/by-hand")
	b.ReportMetric(ms(ours)/ms(theirs), "ratio")
}
