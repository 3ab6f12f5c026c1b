// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/kv"
	"github.com/holdfast-storage/holdfast/internal/kv/boltkv"
	"github.com/holdfast-storage/holdfast/internal/kv/kvtest"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// filled opens a store with some replicas on ten nodes.
func filled(b *testing.B, e kv.Engine, replicas int) (*store.Store, shop) {
	b.Helper()
	sh := newShop()
	s, err := store.Open(b.Context(), e, sh.all())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	add := func(fn func(*store.Tx) error) {
		if _, err := s.Update(b.Context(), fn); err != nil {
			b.Fatal(err)
		}
	}
	for n := range 10 {
		add(func(tx *store.Tx) error { return sh.nodes.Insert(tx, node{Name: nodeName(n)}) })
	}
	for i := 0; i < replicas; i += 50 {
		add(func(tx *store.Tx) error {
			for j := i; j < min(i+50, replicas); j++ {
				if err := sh.replicas.Insert(tx, numbered(j)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	b.ResetTimer()
	return s, sh
}

func nodeName(n int) string { return fmt.Sprintf("node-%02d", n) }

// numbered is a replica of the size of a real one: some 300 bytes of JSON.
func numbered(n int) replica {
	return replica{
		Key:   replicaKey{fmt.Sprintf("definition-%06d", n), nodeName(n % 10)},
		Ports: []int{7000 + n},
		Size:  1 << 30,
		Properties: map[string]string{
			"StorPoolName": "thin", "DrbdOptions/auto-quorum": "io-error", "Aux/owner": fmt.Sprintf("vm-%d", n), "Aux/zone": "a",
		},
	}
}

// BenchmarkUpdate prints the updates per second of some writers: each inserts a replica with its parent check, two indexes and a
// total, and removes it again later on.
func BenchmarkUpdate(b *testing.B) {
	for _, engine := range []struct {
		name string
		open func(b *testing.B) kv.Engine
	}{
		{"memory", func(*testing.B) kv.Engine { return kvtest.NewMemory() }},
		{"bolt", func(b *testing.B) kv.Engine { b.Helper(); return boltkv.New(filepath.Join(b.TempDir(), "db")) }},
	} {
		for _, rows := range []int{1_000, 20_000} {
			for _, writers := range []int{1, 8, 32} {
				b.Run(fmt.Sprintf("%s/rows=%d/writers=%d", engine.name, rows, writers), func(b *testing.B) {
					s, sh := filled(b, engine.open(b), rows)
					before, cpu := s.Stats(), processorTime(b)
					var next atomic.Int64
					var wg sync.WaitGroup
					for range writers {
						wg.Go(func() {
							for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
								r := numbered(rows + int(n))
								_, err := s.Update(b.Context(), func(tx *store.Tx) error {
									_ = sh.replicas.Delete(tx, numbered(rows+int(n)-100).Key)
									return sh.replicas.Insert(tx, r)
								})
								if err != nil {
									b.Error(err)
									return
								}
							}
						})
					}
					wg.Wait()
					st := s.Stats()
					b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "updates/s")
					b.ReportMetric(float64(b.N)/float64(st.Commits-before.Commits), "updates/commit")
					b.ReportMetric(float64((processorTime(b)-cpu).Microseconds())/float64(b.N), "cpu-µs/update")
				})
			}
		}
	}
}

// processorTime is what the process has used so far: it tells more than the clock does on a machine that is shared.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkGet reads one row from a view.
func BenchmarkGet(b *testing.B) {
	for _, rows := range []int{1_000, 20_000} {
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
			s, sh := filled(b, kvtest.NewMemory(), rows)
			key := numbered(rows / 2).Key
			for b.Loop() {
				if _, ok := sh.replicas.Get(s.Snapshot(), key); !ok {
					b.Fatal("no such row")
				}
			}
		})
	}
}

// BenchmarkList reads rows in order: all, and those of one value of an index.
func BenchmarkList(b *testing.B) {
	s, sh := filled(b, kvtest.NewMemory(), 5_000)
	b.Run("all=5000", func(b *testing.B) {
		for b.Loop() {
			n := 0
			for range sh.replicas.All(s.Snapshot()) {
				n++
			}
			if n != 5_000 {
				b.Fatal(n)
			}
		}
	})
	b.Run("of-index=500", func(b *testing.B) {
		for b.Loop() {
			n := 0
			for range sh.byNode.Get(s.Snapshot(), nodeName(3)) {
				n++
			}
			if n != 500 {
				b.Fatal(n)
			}
		}
	})
	b.Run("lowest-free", func(b *testing.B) {
		for b.Loop() {
			if _, ok := sh.ports.Free(s.Snapshot(), nodePort{nodeName(3), 7003}, nodePort{nodeName(3), 65535}); !ok {
				b.Fatal("none")
			}
		}
	})
}

// BenchmarkOpen loads a store of 60,000 rows.
func BenchmarkOpen(b *testing.B) {
	path := filepath.Join(b.TempDir(), "db")
	s, sh := filled(b, boltkv.New(path), 60_000)
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		s, err := store.Open(b.Context(), boltkv.New(path), sh.all())
		if err != nil {
			b.Fatal(err)
		}
		_ = s.Close()
	}
}
