// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package replicas_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
)

const device = "/dev/drbd1000"

// both is what the API says when both replicas have all data.
func both() map[string]string { return map[string]string{"n1": "UpToDate", "n2": "UpToDate"} }

// TestVolumeOnTwoHostsFromItsBeginningToItsEnd: spawned, used and kept, failed over, grown while it is used, snapshotted, restored into another, one replica
// removed while the other is used, and all deleted.
func TestVolumeOnTwoHostsFromItsBeginningToItsEnd(t *testing.T) {
	r := newRig(t)
	r.spawn()
	n1, n2 := r.drbd.Node("n1"), r.drbd.Node("n2")

	// Used on one host, it is not taken away.
	n1.Use(device, pool.Holder{Kind: pool.Mounted, Name: "/srv/db"})
	if status, answer := r.call("DELETE", "/v1/resource-definitions/db", ""); status < 300 || !strings.Contains(answer, "/srv/db") {
		t.Errorf("a volume in use was deleted: %d %s", status, answer)
	}
	n1.Write(1000)

	// Failed over, and grown while it is used.
	n1.Free(device)
	n2.Use(device, pool.Holder{Kind: pool.Mounted, Name: "/srv/db"})
	r.must("PUT", "/v1/resource-definitions/db/volume-definitions/0", `{"size_kib":65536}`)

	r.must("POST", "/v1/resource-definitions/db/snapshots", `{"name":"before"}`)
	r.must("POST", "/v1/resource-definitions", `{"resource_definition":{"name":"db-before","resource_group_name":"mirrored"}}`)
	r.must("POST", "/v1/resource-definitions/db/snapshot-restore-volume-definition/before", `{"to_resource":"db-before"}`)
	r.must("POST", "/v1/resource-definitions/db/snapshot-restore-resource/before", `{"to_resource":"db-before"}`)
	r.Until(func() bool { return maps.Equal(r.replicas("db-before"), both()) })

	// One replica goes, and the one that is used stays.
	if status, answer := r.call("DELETE", "/v1/resource-definitions/db/resources/n2", ""); status < 300 {
		t.Errorf("a replica in use was deleted: %s", answer)
	}
	r.must("DELETE", "/v1/resource-definitions/db/resources/n1", "")
	r.Until(func() bool { return maps.Equal(r.replicas("db"), map[string]string{"n2": "UpToDate"}) })
	r.Until(func() bool {
		return slices.ContainsFunc(n2.Calls(), func(c string) bool { return strings.HasPrefix(c, "drbdsetup forget-peer db") })
	})

	n2.Free(device)
	r.must("DELETE", "/v1/resource-definitions/db/snapshots/before", "")
	r.must("DELETE", "/v1/resource-definitions/db", "")
	r.must("DELETE", "/v1/resource-definitions/db-before", "")
	r.nothingIsLeft()
	if _, orphans := r.call(http.MethodGet, "/v1/controller/database", ""); !strings.Contains(orphans, `"unknown_volumes":0`) {
		t.Error(orphans)
	}
}

// TestEachHostSpeaksForItsOwnDisk: what one sees of the other's may be old, for as long as they are apart and a while longer.
func TestEachHostSpeaksForItsOwnDisk(t *testing.T) {
	r := newRig(t)
	r.spawn()
	connected := func() bool {
		_, answer := r.call(http.MethodGet, "/v1/view/resources", "")
		return strings.Count(answer, `"connected":true`) == 2
	}
	r.Until(connected)
	r.drbd.Cut("n1", "n2")
	r.Until(func() bool { return !connected() })
	if got := r.replicas("db"); !maps.Equal(got, both()) {
		t.Errorf("apart: %v", got)
	}
	r.drbd.Join("n1", "n2")
	r.Until(connected)
}

// spawn makes the definition db with a replica on each host.
func (r *rig) spawn() {
	r.Helper()
	r.must("POST", "/v1/resource-groups", `{"name":"mirrored","select_filter":{"place_count":2,"layer_stack":["DRBD","STORAGE"]}}`)
	r.must("POST", "/v1/resource-groups/mirrored/spawn", `{"resource_definition_name":"db","volume_sizes":[32768]}`)
	if got := r.replicas("db"); !maps.Equal(got, both()) {
		r.Fatalf("spawned: %v", got)
	}
}
