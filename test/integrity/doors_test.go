// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package integrity_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-storage/holdfast/test/cluster"
)

// request is one call of the API. In its texts, # stands for the number of the round, so that
// rounds do not meet.
type request struct {
	method, path, body string
}

// door is a call that makes a child.
type door struct {
	name string
	request
	child string // the path of what it makes
	// cascaded names the deletions that take the child with them.
	cascaded []string
	// parents names the deletions of what the child needs: never may both succeed, unless
	// the deletion is one that takes the child with it.
	parents  []string
	deployed bool // the definition has a replica before

	snapshot   bool // and a snapshot, and there are definitions to restore it to
	more       bool // there is another definition, on another node
	replicated bool // the definition replicates, and has its replica on another node
	changes    bool // the door makes nothing, but changes what is there
}

// doors lists all calls that make a child, or change what a deletion takes.
func doors() []door {
	return append(dataDoors(), []door{
		{
			name:    "spawn of definitions",
			request: request{"POST", "/v1/resource-groups/group-#/spawn", `{"resource_definition_name":"new-#","volume_sizes":[1024],"definitions_only":true}`},
			child:   "/v1/resource-definitions/new-#", parents: []string{"group"},
		},
		{
			name:    "spawn",
			request: request{"POST", "/v1/resource-groups/group-#/spawn", `{"resource_definition_name":"new-#","volume_sizes":[1024]}`},
			child:   "/v1/resource-definitions/new-#/resources/n1", parents: []string{"group", "node", "pool"},
		},
		{
			name:    "definition",
			request: request{"POST", "/v1/resource-definitions", `{"resource_definition":{"name":"new-#","resource_group_name":"group-#"}}`},
			child:   "/v1/resource-definitions/new-#", parents: []string{"group"},
		},
		{
			name:    "move of a definition",
			request: request{"PUT", "/v1/resource-definitions/def-#", `{"resource_group":"group-#"}`},
			child:   "/v1/resource-definitions/def-#", parents: []string{"group"}, cascaded: []string{"definition"},
		},
		{
			name:    "volume group",
			request: request{"POST", "/v1/resource-groups/group-#/volume-groups", `{}`},
			child:   "/v1/resource-groups/group-#/volume-groups/0", parents: []string{"group"}, cascaded: []string{"group"},
		},
		{
			name:    "volume definition",
			request: request{"POST", "/v1/resource-definitions/def-#/volume-definitions", `{"volume_definition":{"volume_number":1,"size_kib":1024}}`},
			child:   "/v1/resource-definitions/def-#/volume-definitions/1", parents: []string{"definition"}, cascaded: []string{"definition"},
		},
		{
			name:    "volume definition of a replica",
			request: request{"POST", "/v1/resource-definitions/def-#/volume-definitions", `{"volume_definition":{"volume_number":1,"size_kib":1024}}`},
			child:   "/v1/resource-definitions/def-#/volume-definitions/1", parents: []string{"definition", "node", "pool"},
			cascaded: []string{"definition"}, deployed: true,
		},
		{
			name:    "resource",
			request: request{"POST", "/v1/resource-definitions/def-#/resources/n1", `{"resource":{"props":{"StorPoolName":"data"}},"layer_list":["STORAGE"]}`},
			child:   "/v1/resource-definitions/def-#/resources/n1", parents: []string{"definition", "node", "pool"},
			cascaded: []string{"definition", "resource"},
		},
		{
			name:    "resources at once",
			request: request{"POST", "/v1/resource-definitions/def-#/resources", `[{"resource":{"node_name":"n1","props":{"StorPoolName":"data"}},"layer_list":["STORAGE"]}]`},
			child:   "/v1/resource-definitions/def-#/resources/n1", parents: []string{"definition", "node", "pool"},
			cascaded: []string{"definition", "resource"},
		},
		{
			name:    "autoplace",
			request: request{"POST", "/v1/resource-definitions/def-#/autoplace", `{"select_filter":{"place_count":1},"layer_list":["STORAGE"]}`},
			child:   "/v1/resource-definitions/def-#/resources/n1", parents: []string{"definition", "node", "pool"},
			cascaded: []string{"definition", "resource"},
		},
		{
			name:    "adjustment of a group",
			request: request{"POST", "/v1/resource-groups/DfltRscGrp/adjust", `{"select_filter":{"place_count":1,"layer_stack":["STORAGE"]}}`},
			child:   "/v1/resource-definitions/def-#/resources/n1", parents: []string{"definition", "node", "pool"},
			cascaded: []string{"definition", "resource"},
		},
		{
			name:    "making available",
			request: request{"POST", "/v1/resource-definitions/def-#/resources/n1/make-available", `{"diskful":true,"layer_list":["STORAGE"]}`},
			child:   "/v1/resource-definitions/def-#/resources/n1", parents: []string{"definition", "node", "pool"},
			cascaded: []string{"definition", "resource"},
		},
		{
			name:    "storage pool",
			request: request{"POST", "/v1/nodes/n1/storage-pools", `{"storage_pool_name":"more-#","provider_kind":"FILE_THIN","props":{"StorDriver/StorPoolName":"/srv/more-#"}}`},
			child:   "/v1/nodes/n1/storage-pools/more-#", parents: []string{"node"}, cascaded: []string{"node"},
		},
		{
			name:    "network interface",
			request: request{"POST", "/v1/nodes/n1/net-interfaces", `{"name":"if-#x","address":"127.0.0.2"}`},
			child:   "/v1/nodes/n1/net-interfaces/if-#x", parents: []string{"node"}, cascaded: []string{"node"},
		},
	}...)
}

// deletion is a call that deletes a parent, or makes a node take nothing new.
type deletion struct {
	name string
	request
	object string // the path of what goes; empty when nothing does at once
	away   bool   // the node is not connected
	later  bool   // it goes when what is made from it, or rolled back to it, is complete
}

// deletions lists all calls that delete a parent.
func deletions() []deletion {
	return append([]deletion{
		{name: "group", request: request{"DELETE", "/v1/resource-groups/group-#", ""}, object: "/v1/resource-groups/group-#"},
		{name: "definition", request: request{"DELETE", "/v1/resource-definitions/def-#", ""}, object: "/v1/resource-definitions/def-#"},
		{
			name: "volume definition", request: request{"DELETE", "/v1/resource-definitions/def-#/volume-definitions/0", ""},
			object: "/v1/resource-definitions/def-#/volume-definitions/0",
		},
		{
			name: "resource", request: request{"DELETE", "/v1/resource-definitions/def-#/resources/n1", ""},
			object: "/v1/resource-definitions/def-#/resources/n1",
		},
		{name: "node", request: request{"DELETE", "/v1/nodes/n1", ""}, object: "/v1/nodes/n1"},
		{name: "lost node", request: request{"DELETE", "/v1/nodes/n1/lost", ""}, object: "/v1/nodes/n1", away: true},
		{name: "evacuation", request: request{"PUT", "/v1/nodes/n1/evacuate", ""}},
		{name: "pool", request: request{"DELETE", "/v1/nodes/n1/storage-pools/data", ""}, object: "/v1/nodes/n1/storage-pools/data"},
	}, dataDeletions()...)
}

// scene is a cluster with the parents of one round.
type scene struct {
	*cluster.Cluster
	t     *testing.T
	round string
}

// prepare makes the parents: a group without definitions, and a definition with a volume in
// the default group.
func prepare(t *testing.T, c *cluster.Cluster, round string, d door, x deletion) *scene {
	t.Helper()
	s := &scene{Cluster: c, t: t, round: round}
	s.must(request{"POST", "/v1/resource-groups", `{"name":"group-#","select_filter":{"place_count":1,"layer_stack":["STORAGE"],"storage_pool_list":["data"]}}`})
	s.must(request{"POST", "/v1/resource-definitions", `{"resource_definition":{"name":"def-#"}}`})
	s.must(request{"POST", "/v1/resource-definitions/def-#/volume-definitions", `{"volume_definition":{"size_kib":1024}}`})
	s.furnish(d)
	if x.away {
		c.StopAgent("n1")
	}
	return s
}

func (s *scene) must(q request) {
	s.t.Helper()
	if a := s.call(q); a.status >= 300 {
		s.t.Fatalf("%s %s: %d %s", q.method, q.path, a.status, a.text)
	}
}

// answer is what a request was answered with.
type answer struct {
	status int
	text   string
}

func (a answer) ok() bool { return a.status > 0 && a.status < 300 }

// absent tells whether a deletion found nothing to delete.
func (a answer) absent() bool {
	return strings.Contains(a.text, "does not exist") || strings.Contains(a.text, "has no volume") || strings.Contains(a.text, "has no snapshot")
}

func (s *scene) call(q request) answer {
	r := strings.NewReplacer("#", s.round)
	req, err := http.NewRequestWithContext(s.t.Context(), q.method, s.URL+r.Replace(q.path), strings.NewReader(r.Replace(q.body)))
	if err != nil {
		return answer{0, err.Error()}
	}
	got, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{0, err.Error()}
	}
	text, err := io.ReadAll(got.Body)
	if err := errors.Join(err, got.Body.Close()); err != nil {
		return answer{0, err.Error()}
	}
	return answer{got.StatusCode, string(text)}
}

func (s *scene) exists(path string) bool {
	return s.call(request{"GET", path, ""}).status == http.StatusOK
}
