// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-storage/holdfast/internal/rest"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

func TestOwnOperationsAreNoneOfTheAPIs(t *testing.T) {
	api := map[string]bool{}
	for _, r := range rest.Routes() {
		api[r.Method+" "+r.Path] = true
	}
	for _, r := range rest.OwnRoutes() {
		if api[r.Method+" "+r.Path] || r.State != rest.Served {
			t.Errorf("%s %s is an operation of the API, or is not served", r.Method, r.Path)
		}
	}
}

func TestOrphansAreListedAndDestroyedByName(t *testing.T) {
	c := newCluster(t)
	for _, node := range []string{"Alpha", "beta"} {
		c.node(node)
		c.pool(node, "data", "FILE_THIN")
		c.agents[node].PutVolume("data", "ghost", 0, 4<<20)
	}
	c.agents["Alpha"].PutVolume("data", "ghost", 1, 4<<20)
	c.until(func() bool { return len(read[[]wire.Orphan](c, "/v1/orphans")) == 3 })

	all := read[[]wire.Orphan](c, "/v1/orphans")
	var where []string
	for _, o := range all {
		where = append(where, o.NodeName+" "+o.StoragePoolName)
	}
	if diff := cmp.Diff([]string{"Alpha data", "Alpha data", "beta data"}, where); diff != "" {
		t.Fatal(diff)
	}
	if got := read[[]wire.Orphan](c, "/v1/orphans?nodes=BETA&storage_pools=data"); !slices.Equal(got, all[2:]) {
		t.Errorf("those of one node are %v", got)
	}
	if got := read[[]wire.Orphan](c, "/v1/orphans?storage_pools=other"); len(got) != 0 {
		t.Errorf("those of another pool are %v", got)
	}
	if got := read[[]wire.Orphan](c, "/v1/orphans?limit=1&offset=1"); !slices.Equal(got, all[1:2]) {
		t.Errorf("the second is %v", got)
	}

	const path = "/v1/nodes/alpha/storage-pools/DATA/orphans"
	c.do("DELETE", path, "").code(400, wire.APICallParseError)
	c.do("DELETE", path+"?volume=other", "").code(404, wire.FailNotFoundVlm)
	c.do("DELETE", path+"?volume="+all[0].Volume+"&volume=other", "").code(404, wire.FailNotFoundVlm)
	c.do("DELETE", "/v1/nodes/none/storage-pools/data/orphans?volume="+all[0].Volume, "").code(404, wire.FailNotFoundNode)
	if got := read[[]wire.Orphan](c, "/v1/orphans"); !slices.Equal(got, all) {
		t.Fatalf("what was refused has destroyed something: %v", got)
	}
	e := c.do("DELETE", path+"?volume="+all[0].Volume, "").code(200, wire.Deleted)
	if !strings.Contains(e.Message, all[0].Volume) || strings.Contains(e.Message, all[1].Volume) {
		t.Errorf("it says %q", e.Message)
	}
	c.until(func() bool { return slices.Equal(read[[]wire.Orphan](c, "/v1/orphans"), all[1:]) })
}

func TestJobsAreListed(t *testing.T) {
	c := newCluster(t)
	before := time.Now().UnixMilli()
	c.node("Alpha")
	c.pool("Alpha", "data", "FILE_THIN")
	c.must(http.StatusCreated, "POST", "/v1/resource-groups", `{"name":"Grp","select_filter":{"place_count":1}}`)
	c.must(http.StatusCreated, "POST", "/v1/resource-groups/grp/spawn", `{"resource_definition_name":"vol","volume_sizes":[4096],"definitions_only":true}`)
	c.must(http.StatusOK, "POST", "/v1/resource-groups/grp/adjust", "")
	c.must(http.StatusInternalServerError, "POST", "/v1/resource-groups/grp/adjust", `{"select_filter":{"place_count":2}}`)
	c.must(http.StatusOK, "PUT", "/v1/nodes/alpha/evacuate", "")

	all := read[[]wire.Job](c, "/v1/jobs")
	var got []string
	for _, j := range all {
		got = append(got, j.Kind+" "+j.Object+" "+j.State)
		if j.CreateTimestamp < before || j.UpdateTimestamp < j.CreateTimestamp || (j.EndTimestamp != nil) == (j.State == "running") {
			t.Errorf("the times of %+v", j)
		}
		if one := read[wire.Job](c, "/v1/jobs/"+j.ID); one.ID != j.ID || one.Kind != j.Kind {
			t.Errorf("alone it is %+v", one)
		}
	}
	want := []string{"adjust-group Grp done", "adjust-group Grp failed", "evacuate-node Alpha running"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
	if all[0].Total != 1 || all[0].Done != 1 || all[1].Failed != 1 || !strings.Contains(all[1].Problems[0], "vol") {
		t.Errorf("the jobs are %+v", all)
	}
	if running := read[[]wire.Job](c, "/v1/jobs?states=RUNNING&states=cancelled"); len(running) != 1 || running[0].ID != all[2].ID {
		t.Errorf("those that run are %+v", running)
	}
	if second := read[[]wire.Job](c, "/v1/jobs?offset=1&limit=1"); len(second) != 1 || second[0].ID != all[1].ID {
		t.Errorf("the second is %+v", second)
	}
	c.do("GET", "/v1/jobs/none", "").code(404, wire.UnknownAPICall)
}
