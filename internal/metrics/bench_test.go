// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/holdfast-storage/holdfast/internal/kv/kvtest"
	"github.com/holdfast-storage/holdfast/internal/metrics"
	nouns "github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

const (
	largeNodes       = 100
	largeDefinitions = 10_000
)

// large returns the exporter of a cluster of many definitions with two replicas each, all of
// which their nodes have reported.
func large(b *testing.B) *metrics.Exporter {
	b.Helper()
	st, err := store.Open(context.Background(), kvtest.NewMemory(), schema.Collections())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = st.Close() })
	if err := schema.Bootstrap(context.Background(), st, "1"); err != nil {
		b.Fatal(err)
	}
	write := func(fn func(*store.Tx) error) {
		if _, err := st.Update(context.Background(), fn); err != nil {
			b.Fatal(err)
		}
	}
	seen := observed.New(time.Now)
	reports := make([]observed.Report, largeNodes)
	for i := range reports {
		reports[i].Resources = make(map[nouns.DefinitionKey]observed.ResourceStatus)
		write(func(tx *store.Tx) error {
			if err := schema.Nodes.Insert(tx, schema.Node{Name: nodeName(i), Type: nouns.SatelliteNode}); err != nil {
				return err
			}
			return schema.Pools.Insert(tx, schema.Pool{Node: nodeName(i).Key(), Name: "data", Provider: nouns.LVMThin})
		})
	}
	const inOne = 10
	for i := 0; i < largeDefinitions; i += inOne {
		write(func(tx *store.Tx) error {
			for n := range inOne {
				if err := definition(tx, i+n, reports); err != nil {
					return err
				}
			}
			return nil
		})
	}
	for i, r := range reports {
		seen.Connect(nodeName(i).Key(), observed.Facts{}, false)
		seen.Ready(nodeName(i).Key())
		seen.Report(nodeName(i).Key(), r)
	}
	return metrics.New(metrics.Config{Store: st, Observed: seen})
}

func nodeName(i int) nouns.NodeName { return nouns.NodeName(fmt.Sprintf("node-%03d", i)) }

func definition(tx *store.Tx, i int, reports []observed.Report) error {
	name := nouns.DefinitionName(fmt.Sprintf("pvc-0b7f5a52-6a1c-4f7e-9d2a-%012d", i))
	if err := schema.Definitions.Insert(tx, schema.Definition{
		Name: name, Group: schema.DefaultGroup.Key(), Layers: []nouns.Layer{nouns.DRBD, nouns.Storage},
	}); err != nil {
		return err
	}
	if err := schema.VolumeDefinitions.Insert(tx, schema.VolumeDefinition{Definition: name.Key(), Size: 1 << 30}); err != nil {
		return err
	}
	for n := range 2 {
		at := (i + n) % largeNodes
		if err := schema.Resources.Insert(tx, schema.Resource{
			Definition: name.Key(), Node: nodeName(at).Key(), Kind: schema.Diskful, Volumes: []schema.Volume{{Pool: "data", Size: 1 << 30}},
		}); err != nil {
			return err
		}
		size, used := int64(1<<30), false
		reports[at].Resources[name.Key()] = observed.ResourceStatus{Phase: observed.Ready, Volumes: []observed.VolumeStatus{{
			DevicePath: fmt.Sprintf("/dev/drbd%d", 1000+i), Usable: &size, Allocated: &size, InUse: &used, DiskState: "UpToDate",
		}}}
	}
	return nil
}

// discard takes an answer and keeps nothing but its length.
type discard struct {
	header http.Header
	bytes  int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(int)             {}
func (d *discard) Write(p []byte) (int, error) { d.bytes += len(p); return len(p), nil }

// BenchmarkScrape is one scrape of a cluster of 10,000 definitions with 20,000 replicas.
func BenchmarkScrape(b *testing.B) {
	e := large(b)
	for _, encoding := range []string{"plain", "gzip"} {
		b.Run(encoding, func(b *testing.B) {
			b.ReportAllocs()
			r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
			r.Header.Set("Accept-Encoding", encoding)
			var bytes int
			for b.Loop() {
				w := &discard{header: http.Header{}}
				e.ServeHTTP(w, r)
				bytes = w.bytes
			}
			b.ReportMetric(float64(bytes)/(1<<20), "MiB/answer")
		})
	}
}
