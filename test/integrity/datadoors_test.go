// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package integrity_test

// dataDoors lists the calls that make or change data: snapshots and what is made from them, sizes, and disks that move.
func dataDoors() []door {
	const definition = "/v1/resource-definitions/def-#"
	return []door{
		{
			name:    "snapshot",
			request: request{"POST", definition + "/snapshots", `{"name":"new-#"}`},
			child:   definition + "/snapshots/new-#", parents: []string{"definition", "node", "pool"}, deployed: true,
		},
		{
			name:    "snapshots at once",
			request: request{"POST", "/v1/actions/snapshot/multi", `{"snapshots":[{"resource_name":"def-#","name":"new-#"},{"resource_name":"more-#","name":"new-#"}]}`},
			child:   definition + "/snapshots/new-#", parents: []string{"definition", "node", "pool"}, deployed: true, more: true,
		},
		{
			name:    "restored volumes",
			request: request{"POST", definition + "/snapshot-restore-volume-definition/snap-#", `{"to_resource":"empty-#"}`},
			child:   "/v1/resource-definitions/empty-#/volume-definitions/0", parents: []string{"empty target"}, cascaded: []string{"empty target"},
			deployed: true, snapshot: true,
		},
		{
			name:    "restore",
			request: request{"POST", definition + "/snapshot-restore-resource/snap-#", `{"to_resource":"target-#"}`},
			child:   "/v1/resource-definitions/target-#/resources/n1", parents: []string{"target", "node", "pool"}, cascaded: []string{"target"},
			deployed: true, snapshot: true,
		},
		{
			name:    "clone",
			request: request{"POST", definition + "/clone", `{"name":"new-#","resource_group":"group-#"}`},
			child:   "/v1/resource-definitions/new-#", parents: []string{"group"}, deployed: true,
		},
		{
			name:    "roll-back",
			request: request{"POST", definition + "/snapshot-rollback/snap-#", ""},
			child:   definition + "/resources/n1", cascaded: []string{"resource", "lost node"}, deployed: true, snapshot: true, changes: true,
		},
		{
			name:    "resize",
			request: request{"PUT", definition + "/volume-definitions/0", `{"size_kib":2048}`},
			child:   definition + "/volume-definitions/0", cascaded: []string{"definition", "volume definition"}, deployed: true,
		},
		{
			name:    "migration",
			request: request{"PUT", definition + "/resources/n1/migrate-disk/n2/data", ""},
			child:   definition + "/resources/n1", parents: []string{"node", "pool"}, cascaded: []string{"definition", "resource", "evacuation"}, replicated: true,
		},
		{
			name:    "deactivation",
			request: request{"POST", definition + "/resources/n1/deactivate", ""},
			child:   definition + "/resources/n1", cascaded: []string{"definition", "resource", "lost node"}, deployed: true, changes: true,
		},
	}
}

// dataDeletions lists the deletions of what only these doors need.
func dataDeletions() []deletion {
	return []deletion{
		{
			name: "snapshot", request: request{"DELETE", "/v1/resource-definitions/def-#/snapshots/snap-#", ""},
			object: "/v1/resource-definitions/def-#/snapshots/snap-#", later: true,
		},
		{name: "target", request: request{"DELETE", "/v1/resource-definitions/target-#", ""}, object: "/v1/resource-definitions/target-#"},
		{name: "empty target", request: request{"DELETE", "/v1/resource-definitions/empty-#", ""}, object: "/v1/resource-definitions/empty-#"},
	}
}

// concerns tells whether a deletion has anything to do with a door. Those of what the door does not have are left out.
func (x deletion) concerns(d door) bool {
	switch x.name {
	case "snapshot", "target", "empty target":
		return d.snapshot
	}
	return true
}

// furnish makes what a door needs beside the parents of all.
func (s *scene) furnish(d door) {
	s.t.Helper()
	const local = `{"resource":{"props":{"StorPoolName":"data"}},"layer_list":["STORAGE"]}`
	if d.deployed {
		s.must(request{"POST", "/v1/resource-definitions/def-#/resources/n1", local})
	}
	if d.replicated {
		s.must(request{"POST", "/v1/resource-definitions/def-#/resources/n2", `{"resource":{"props":{"StorPoolName":"data"}},"layer_list":["DRBD","STORAGE"]}`})
	}
	if d.more {
		s.must(request{"POST", "/v1/resource-definitions", `{"resource_definition":{"name":"more-#"}}`})
		s.must(request{"POST", "/v1/resource-definitions/more-#/volume-definitions", `{"volume_definition":{"size_kib":1024}}`})
		s.must(request{"POST", "/v1/resource-definitions/more-#/resources/n2", local})
	}
	if d.snapshot {
		s.must(request{"POST", "/v1/resource-definitions/def-#/snapshots", `{"name":"snap-#"}`})
		s.must(request{"POST", "/v1/resource-definitions", `{"resource_definition":{"name":"target-#"}}`})
		s.must(request{"POST", "/v1/resource-definitions", `{"resource_definition":{"name":"empty-#"}}`})
		s.must(request{"POST", "/v1/resource-definitions/def-#/snapshot-restore-volume-definition/snap-#", `{"to_resource":"target-#"}`})
	}
}

// nodes is how many nodes a door needs.
func (d door) nodes() int {
	if d.replicated || d.more {
		return 2
	}
	return 1
}

// doorNamed returns the door of a name.
func doorNamed(name string) door {
	for _, d := range doors() {
		if d.name == name {
			return d
		}
	}
	panic("there is no door " + name)
}
