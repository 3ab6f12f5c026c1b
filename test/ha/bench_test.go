// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package ha_test

import (
	"fmt"
	"iter"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-storage/holdfast/internal/kv"
	"github.com/holdfast-storage/holdfast/internal/kv/boltkv"
	"github.com/holdfast-storage/holdfast/internal/kv/etcdkv/etcdtest"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// BenchmarkSpawnsOnEtcd measures durable spawns of definitions by 32 clients over the REST API of a controller on etcd, whose
// data lies on the disk for temporary files.
func BenchmarkSpawnsOnEtcd(b *testing.B) {
	for _, members := range []int{1, 3} {
		b.Run(fmt.Sprintf("members=%d", members), func(b *testing.B) {
			etcd := etcdtest.Start(b, etcdtest.Options{Members: members, Dir: b.TempDir()})
			p := newProcess(b, settings{Name: "c1", Endpoints: etcd.Endpoints})
			p.start()
			leading(b, []*process{p}, 20*time.Second)
			const clients = 32
			var next atomic.Int64
			var working sync.WaitGroup
			transport := &http.Transport{MaxIdleConnsPerHost: clients}
			b.ResetTimer()
			began := time.Now()
			for range clients {
				working.Go(func() {
					c := &http.Client{Transport: transport}
					for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
						body := fmt.Sprintf(`{"resource_definition_name":"vol-%d","volume_sizes":[1024],"definitions_only":true}`, n)
						a, err := c.Post(p.url+"/v1/resource-groups/DfltRscGrp/spawn", "application/json", strings.NewReader(body))
						if err != nil {
							b.Error(err)
							return
						}
						_ = a.Body.Close()
						if a.StatusCode != http.StatusCreated {
							b.Errorf("spawn %d: status %d", n, a.StatusCode)
							return
						}
					}
				})
			}
			working.Wait()
			b.ReportMetric(float64(b.N)/time.Since(began).Seconds(), "spawns/s")
			transport.CloseIdleConnections()
		})
	}
}

// generated is a database of definitions, each with a volume and six properties.
func generated(definitions int) iter.Seq2[kv.Entry, error] {
	return func(yield func(kv.Entry, error) bool) {
		put := func(c store.Registered, row string) bool {
			raw := []byte(`{"schema":0,"revision":1,"row":` + row + `}`)
			key, err := store.StoredKey(c, raw)
			return yield(kv.Entry{Key: key, Value: raw}, err)
		}
		if !yield(store.OwnRow(store.Revision(definitions+10), store.Origin{}), nil) ||
			!put(schema.Groups, `{"name":"DfltRscGrp","uuid":"11111111-1111-1111-1111-111111111111"}`) ||
			!put(schema.Settings, `{"props":{}}`) {
			return
		}
		for i := range definitions {
			name := fmt.Sprintf("pvc-%08d-0000-4000-8000-%012d", i, i)
			props := make([]string, 6)
			for p := range props {
				props[p] = fmt.Sprintf(`"Aux/csi.example.com/property-%d":"value %d of definition %d"`, p, p, i)
			}
			if !put(schema.Definitions, fmt.Sprintf(`{"name":%q,"uuid":"22222222-2222-2222-2222-%012d","group":"dfltrscgrp","created":"2026-01-01T00:00:00Z","props":{%s}}`,
				name, i, strings.Join(props, ","))) {
				return
			}
			if !put(schema.VolumeDefinitions, fmt.Sprintf(`{"definition":%q,"number":0,"uuid":"33333333-3333-3333-3333-%012d","size":1073741824}`, name, i)) {
				return
			}
		}
	}
}

var resident = regexp.MustCompile(`VmRSS:\s+(\d+) kB`)

// BenchmarkColdStart measures the time from the start of a process until it is well, and its memory then, for an embedded
// database that is not in the cache of files.
func BenchmarkColdStart(b *testing.B) {
	for _, definitions := range []int{10_000, 100_000} {
		b.Run(fmt.Sprintf("definitions=%d", definitions), func(b *testing.B) {
			p := newProcess(b, settings{Name: "c1"})
			if _, err := boltkv.Write(filepath.Join(p.Dir, "holdfast.db"), 1, generated(definitions)); err != nil {
				b.Fatal(err)
			}
			p.start() // the first start brings the database forward
			leading(b, []*process{p}, time.Minute)
			var took time.Duration
			var memory float64
			for range b.N {
				p.kill()
				_ = os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0) // where that is allowed
				p.start()
				_, t := leading(b, []*process{p}, time.Minute)
				took += t
				text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
				if err != nil {
					b.Fatal(err)
				}
				kib, _ := strconv.ParseFloat(string(resident.FindSubmatch(text)[1]), 64)
				memory = kib / 1024
			}
			b.ReportMetric(took.Seconds()/float64(b.N), "s/start")
			b.ReportMetric(memory, "MiB")
		})
	}
}
