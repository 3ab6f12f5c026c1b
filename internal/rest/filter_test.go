// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/rest"
	"github.com/holdfast-storage/holdfast/internal/rest/encode"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

// grid fills a cluster with definitions that have replicas on some nodes, in one or two of two pools.
func grid(c *cluster, definitions, nodes int) {
	c.Helper()
	_, err := c.store.Update(c.Context(), func(tx *store.Tx) error {
		var failed error
		for n := range nodes {
			name := model.NodeName(fmt.Sprintf("Node-%d", n))
			failed = errors.Join(failed, schema.Nodes.Insert(tx, schema.Node{Name: name, Type: model.SatelliteNode}))
			for _, p := range []model.PoolName{"Fast", "slow"} {
				failed = errors.Join(failed, schema.Pools.Insert(tx, schema.Pool{Node: name.Key(), Name: p, Provider: model.LVM}))
			}
		}
		return failed
	})
	if err != nil {
		c.Fatal(err)
	}
	for d := range definitions {
		if _, err := c.store.Update(c.Context(), func(tx *store.Tx) error { return gridDefinition(tx, d, nodes) }); err != nil {
			c.Fatal(err)
		}
	}
}

func gridDefinition(tx *store.Tx, d, nodes int) error {
	name := model.DefinitionName(fmt.Sprintf("Rd-%d", d))
	failed := errors.Join(
		schema.Definitions.Insert(tx, schema.Definition{Name: name, Group: schema.DefaultGroup.Key(), Layers: []model.Layer{model.DRBD, model.Storage}}),
		schema.VolumeDefinitions.Insert(tx, schema.VolumeDefinition{Definition: name.Key(), Size: 1 << 20}),
		schema.VolumeDefinitions.Insert(tx, schema.VolumeDefinition{Definition: name.Key(), Number: 1, Size: 1 << 20}))
	for n := range nodes {
		if (d+n)%3 == 0 {
			continue
		}
		pool := model.PoolKey("fast")
		if (d*n)%2 == 0 {
			pool = "slow"
		}
		failed = errors.Join(failed, schema.Resources.Insert(tx, schema.Resource{
			Definition: name.Key(), Node: model.NodeKey(fmt.Sprintf("node-%d", n)), Kind: schema.Diskful,
			Props:   model.PropsOf(map[string]string{"Aux/parity": fmt.Sprint(d % 2), "Aux/any": "1"}),
			Volumes: []schema.Volume{{Pool: pool, Size: 1 << 20}, {Number: 1, Pool: "slow", Size: 1 << 20}},
		}))
	}
	return failed
}

// TestViewFiltersAgreeWithAScan asks for every mixture of filters and compares with what a scan of everything finds.
func TestViewFiltersAgreeWithAScan(t *testing.T) {
	c := newCluster(t)
	grid(c, 6, 4)
	h := c.server.Handler()
	all := read[[]wire.ResourceWithVolumes](c, "/v1/view/resources")
	some := func(names ...string) *rapid.Generator[[]string] {
		return rapid.SliceOfN(rapid.SampledFrom(names), 0, 3)
	}
	rapid.Check(t, func(t *rapid.T) {
		q := url.Values{
			"nodes":         some("node-0", "NODE-1", "node-3", "nope", "").Draw(t, "nodes"),
			"resources":     some("rd-0", "RD-1", "rd-2", "rd-5", "nope").Draw(t, "resources"),
			"storage_pools": some("FAST", "slow", "nope").Draw(t, "pools"),
			"props":         some("Aux/parity=1", "Aux/parity=0", "Aux/any", "StorPoolName=x").Draw(t, "props"),
			"offset":        {fmt.Sprint(rapid.IntRange(0, 5).Draw(t, "offset"))},
			"limit":         {fmt.Sprint(rapid.IntRange(0, 7).Draw(t, "limit"))},
		}
		var want []string
		for _, r := range all {
			if named(q["nodes"], r.NodeName) && named(q["resources"], r.Name) && (named(q["storage_pools"], r.Volumes[0].StoragePoolName) || named(q["storage_pools"], r.Volumes[1].StoragePoolName)) &&
				model.PropsOf(r.Props).Matches(q["props"]) {
				want = append(want, r.Name+"@"+r.NodeName)
			}
		}
		var offset, limit int
		_, _ = fmt.Sscan(q.Get("offset"), &offset)
		_, _ = fmt.Sscan(q.Get("limit"), &limit)
		if limit > 0 {
			want = want[min(offset, len(want)):]
			want = want[:min(limit, len(want))]
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/v1/view/resources?"+q.Encode(), nil))
		var l []wire.ResourceWithVolumes
		if err := json.Unmarshal(w.Body.Bytes(), &l); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range l {
			got = append(got, r.Name+"@"+r.NodeName)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%s:\ngot  %v\nwant %v", q.Encode(), got, want)
		}
	})
}

// named tells whether a name is among those asked for, or none is.
func named(asked []string, name string) bool {
	asked = slices.DeleteFunc(slices.Clone(asked), func(s string) bool { return s == "" })
	return len(asked) == 0 || slices.ContainsFunc(asked, func(s string) bool { return strings.EqualFold(s, name) })
}

func TestPagesAreStable(t *testing.T) {
	c := newCluster(t)
	const n = 100
	for i := range n {
		c.must(201, "POST", "/v1/resource-definitions", fmt.Sprintf(`{"resource_definition":{"name":"rd-%03d"}}`, i))
	}
	var stop sync.WaitGroup
	done := make(chan struct{})
	stop.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
				c.do("POST", "/v1/resource-definitions", fmt.Sprintf(`{"resource_definition":{"name":"zz-%06d"}}`, i))
			}
		}
	})
	seen := make(map[string]int)
	for offset := 0; offset < n; offset += 7 {
		for _, d := range read[[]wire.ResourceDefinition](c, fmt.Sprintf("/v1/resource-definitions?limit=7&offset=%d", offset)) {
			seen[d.Name]++
		}
	}
	close(done)
	stop.Wait()
	for i := range n {
		if name := fmt.Sprintf("rd-%03d", i); seen[name] != 1 {
			t.Errorf("%s was on %d pages", name, seen[name])
		}
	}
	if l := read[[]wire.ResourceDefinition](c, "/v1/resource-definitions?offset=99999"); len(l) < n {
		t.Errorf("an offset without a limit is not ignored: %d definitions", len(l))
	}
}

func TestEditsOfDifferentKeysAllSurvive(t *testing.T) {
	c := newCluster(t)
	c.must(201, "POST", "/v1/resource-definitions", `{"resource_definition":{"name":"r1"}}`)
	const clients = 32
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			body := fmt.Sprintf(`{"override_props":{"Aux/k%d":"v"}}`, i)
			if a := c.do("PUT", "/v1/resource-definitions/r1", body); a.status != http.StatusOK {
				t.Errorf("client %d: %d %s", i, a.status, a.body)
			}
		})
	}
	wg.Wait()
	if n := len(read[wire.ResourceDefinition](c, "/v1/resource-definitions/r1").Props); n != clients {
		t.Errorf("%d keys are left", n)
	}
}

// TestPropertiesMergeWhereverTheyAre edits the properties of each kind of object in the same way.
func TestPropertiesMergeWhereverTheyAre(t *testing.T) {
	c := newCluster(t)
	c.node("n1")
	c.pool("n1", "data", "FILE")
	c.must(201, "POST", "/v1/resource-groups", `{"name":"g1"}`)
	c.must(201, "POST", "/v1/resource-groups/g1/volume-groups", `{}`)
	c.must(201, "POST", "/v1/resource-definitions", `{"resource_definition":{"name":"r1","layer_data":[{"type":"STORAGE"}]}}`)
	c.must(200, "POST", "/v1/resource-definitions/r1/volume-definitions", `{"volume_definition":{"size_kib":4096}}`)
	c.must(201, "POST", "/v1/resource-definitions/r1/resources/n1", `{"resource":{"props":{"StorPoolName":"data"}}}`)
	type holder struct {
		Props wire.Properties `json:"props"`
	}
	for _, path := range []string{
		"/v1/nodes/n1", "/v1/nodes/n1/storage-pools/data", "/v1/resource-groups/g1", "/v1/resource-groups/g1/volume-groups/0",
		"/v1/resource-definitions/r1", "/v1/resource-definitions/r1/volume-definitions/0", "/v1/resource-definitions/r1/resources/n1",
		"/v1/resource-definitions/r1/resources/n1/volumes/0",
	} {
		before := read[holder](c, path).Props
		c.must(200, "PUT", path, `{"override_props":{"Aux/a":"1","Aux/b":"2","Aux/n/x":"3"}}`)
		c.must(200, "PUT", path, `{"override_props":{"Aux/a":"9"},"delete_props":["Aux/b"],"delete_namespaces":["Aux/n"]}`)
		after := read[holder](c, path).Props
		if after["Aux/a"] != "9" || len(after) != len(before)+1 {
			t.Errorf("%s: %v", path, after)
		}
		if l := c.must(200, "PUT", path, `{}`).entries(); !l.Has(wire.Modified) || len(l) != 1 {
			t.Errorf("%s: an empty change says %v", path, l)
		}
	}
}

// TestFiltersSurviveTheWire: what is stored of a filter is shown as it was said.
func TestFiltersSurviveTheWire(t *testing.T) {
	texts := rapid.SliceOfN(rapid.StringMatching(`[a-z]{1,4}`), 0, 3)
	rapid.Check(t, func(t *rapid.T) {
		list := func(name string) []string {
			if rapid.Bool().Draw(t, name+" is said") {
				return append([]string{}, texts.Draw(t, name)...)
			}
			return nil
		}
		upper := func(name string) []string {
			l := list(name)
			for i := range l {
				l[i] = strings.ToUpper(l[i])
			}
			return l
		}
		var count *int32
		if rapid.Bool().Draw(t, "count is said") {
			n := rapid.Int32().Draw(t, "count")
			count = &n
		}
		yes := true
		regex := "^x"
		want := model.Filter{
			PlaceCount: count, AdditionalPlaceCount: count, Nodes: list("nodes"), Pools: list("pools"), DisklessPools: list("diskless"),
			NotPlaceWith: list("with"), NotPlaceWithRegex: &regex, ReplicasOnSame: list("same"), ReplicasOnDifferent: list("different"),
			XReplicasOnDifferent: map[string]int32{"Aux/a": 2}, Layers: upper("layers"), Providers: upper("providers"),
			DisklessOnRemaining: &yes, DisklessType: &regex, PortCount: count,
		}
		shown := encode.Filter(want)
		text, err := wire.Encode(shown)
		if err != nil {
			t.Fatal(err)
		}
		var back wire.AutoSelectFilter
		if err := json.Unmarshal(text, &back); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, rest.FilterOf(&back)); diff != "" {
			t.Fatal(diff)
		}
	})
}

// TestListsShowWhatSingleReadsShow: an element of a list is, to the letter, what a read of it alone answers.
func TestListsShowWhatSingleReadsShow(t *testing.T) {
	c := newCluster(t)
	grid(c, 150, 1)
	same := func(list, one string, path func(json.RawMessage) string) {
		t.Helper()
		rows := read[[]json.RawMessage](c, list)
		if len(rows) == 0 {
			t.Errorf("%s is empty", list)
		}
		for _, row := range rows {
			if single := c.must(200, "GET", one+path(row), "").body; string(single) != string(row) {
				t.Errorf("in the list it is\n%s\nalone it is\n%s", row, single)
			}
		}
	}
	field := func(row json.RawMessage, name string) string {
		var v map[string]any
		if err := json.Unmarshal(row, &v); err != nil {
			t.Fatal(err)
		}
		s, _ := v[name].(string)
		return s
	}
	byName := func(row json.RawMessage) string { return field(row, "name") }
	same("/v1/resource-definitions", "/v1/resource-definitions/", byName)
	same("/v1/nodes", "/v1/nodes/", byName)
	same("/v1/resource-groups", "/v1/resource-groups/", byName)
	same("/v1/view/storage-pools", "/v1/nodes/node-0/storage-pools/", func(row json.RawMessage) string { return field(row, "storage_pool_name") })
	same("/v1/resource-definitions/rd-1/resources", "/v1/resource-definitions/rd-1/resources/",
		func(row json.RawMessage) string { return field(row, "node_name") })
}
