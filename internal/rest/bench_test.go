// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-storage/holdfast/internal/kv/kvtest"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/rest"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

const (
	benchNodes       = 100
	benchDefinitions = 5000
)

// loaded is a server with many definitions, each with a volume and two replicas that their nodes have reported.
func loaded(b *testing.B, definitions int) *rest.Server {
	b.Helper()
	st, err := store.Open(context.Background(), kvtest.NewMemory(), schema.Collections())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = st.Close() })
	update := func(fn func(*store.Tx) error) {
		if _, err := st.Update(context.Background(), fn); err != nil {
			b.Fatal(err)
		}
	}
	if err := schema.Bootstrap(context.Background(), st, "1"); err != nil {
		b.Fatal(err)
	}
	seen := observed.New(time.Now)
	reports := make(map[model.NodeKey]observed.Report)
	for i := range benchNodes {
		name := model.NodeName(fmt.Sprintf("node-%03d", i))
		update(func(tx *store.Tx) error {
			if err := schema.Nodes.Insert(tx, schema.Node{Name: name, UUID: benchUUID, Type: model.SatelliteNode}); err != nil {
				return err
			}
			return schema.Pools.Insert(tx, schema.Pool{Node: name.Key(), Name: "data", Provider: model.LVMThin, UUID: benchUUID})
		})
		seen.Connect(name.Key(), observed.Facts{}, false)
		seen.Ready(name.Key())
		reports[name.Key()] = observed.Report{Resources: make(map[model.DefinitionKey]observed.ResourceStatus)}
	}
	for i := range definitions {
		update(func(tx *store.Tx) error { return benchDefinition(tx, i, reports) })
	}
	for n, r := range reports {
		seen.Report(n, r)
	}
	return &rest.Server{Store: st, Observed: seen}
}

const benchUUID = "0b7f5a52-6a1c-4f7e-9d2a-0c2b9b0e7d11"

func benchDefinition(tx *store.Tx, i int, reports map[model.NodeKey]observed.Report) error {
	d := schema.Definition{
		Name: model.DefinitionName(fmt.Sprintf("pvc-%06d", i)), UUID: benchUUID, Group: schema.DefaultGroup.Key(), Created: time.Unix(1e9, 0),
		Layers: []model.Layer{model.DRBD, model.Storage},
		Props: model.PropsOf(map[string]string{
			"Aux/csi-provisioning-completed-by": "linstor-csi/v1.12.0", "Aux/csi.storage.k8s.io/pvc/name": fmt.Sprintf("claim-%d", i),
			"DrbdOptions/Resource/quorum": "majority",
		}),
	}
	if err := schema.Definitions.Insert(tx, d); err != nil {
		return err
	}
	minor := int32(1000 + i)
	if err := schema.VolumeDefinitions.Insert(tx, schema.VolumeDefinition{
		Definition: d.Name.Key(), UUID: benchUUID, Size: 1 << 30, Minor: &minor,
	}); err != nil {
		return err
	}
	for n := range 2 {
		key := model.NodeName(fmt.Sprintf("node-%03d", (i+n)%benchNodes)).Key()
		id := int32(n)
		if err := schema.Resources.Insert(tx, schema.Resource{
			Definition: d.Name.Key(), Node: key, UUID: benchUUID, Created: time.Unix(1e9, 0), Kind: schema.Diskful, NodeID: &id,
			Ports: []int32{int32(7000 + i)}, Props: model.PropsOf(map[string]string{"StorPoolName": "data"}),
			Volumes: []schema.Volume{{UUID: benchUUID, Pool: "data", Size: 1 << 30}},
		}); err != nil {
			return err
		}
		size, used := int64(1<<30), false
		reports[key].Resources[d.Name.Key()] = observed.ResourceStatus{
			Phase: observed.Ready, Volumes: []observed.VolumeStatus{{
				DevicePath: fmt.Sprintf("/dev/drbd%d", minor), BackingPath: fmt.Sprintf("/dev/vg/%s_00000", d.Name),
				Usable: &size, Allocated: &size, InUse: &used, DiskState: "UpToDate",
			}},
		}
	}
	return nil
}

// discard takes an answer and keeps nothing.
type discard struct {
	header http.Header
	bytes  int64
	status int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(status int)      { d.status = status }
func (d *discard) Write(p []byte) (int, error) { d.bytes += int64(len(p)); return len(p), nil }

// BenchmarkList measures whole answers, from the route to the last byte, without a network.
func BenchmarkList(b *testing.B) {
	h := loaded(b, benchDefinitions).Handler()
	for _, c := range []struct{ name, path, encoding string }{
		{"definitions", "/v1/resource-definitions", ""},
		{"definitions with volumes", "/v1/resource-definitions?with_volume_definitions=true", ""},
		{"definitions gzip", "/v1/resource-definitions", "gzip"},
		{"resources", "/v1/view/resources", ""},
		{"resources of one definition", "/v1/view/resources?resources=pvc-002500", ""},
		{"resources of one node", "/v1/view/resources?nodes=node-050", ""},
		{"resources of one pool on two nodes", "/v1/view/resources?nodes=node-050&nodes=node-051&storage_pools=data", ""},
		{"one definition", "/v1/resource-definitions/pvc-002500", ""},
		{"an absent definition", "/v1/resource-definitions/nope", ""},
		{"pools", "/v1/view/storage-pools", ""},
	} {
		b.Run(c.name, func(b *testing.B) {
			r := httptest.NewRequest("GET", c.path, nil)
			if c.encoding != "" {
				r.Header.Set("Accept-Encoding", c.encoding)
			}
			b.ReportAllocs()
			var bytes int64
			before := cpu()
			for b.Loop() {
				w := &discard{header: make(http.Header)}
				h.ServeHTTP(w, r)
				bytes = w.bytes
			}
			b.ReportMetric(float64(bytes), "B/answer")
			b.ReportMetric(float64(cpu()-before)/float64(b.N), "cpu-ns/op")
		})
	}
}

// BenchmarkJSON is what encoding/json takes for the same text: a measure of the machine, to read the others by.
func BenchmarkJSON(b *testing.B) {
	h := loaded(b, benchDefinitions).Handler()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/v1/resource-definitions", nil))
	var l []wire.ResourceDefinition
	if err := json.Unmarshal(w.Body.Bytes(), &l); err != nil {
		b.Fatal(err)
	}
	before := cpu()
	for b.Loop() {
		if _, err := wire.Encode(l); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(cpu()-before)/float64(b.N), "cpu-ns/op")
}

// cpu is the processor time of the process so far: unlike the time of day it does not count what other programs took.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
