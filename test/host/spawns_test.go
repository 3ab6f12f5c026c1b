// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package host_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// promised reads what each pool has promised by the controller's own sums.
func (s *system) promised() map[string]int64 {
	s.t.Helper()
	sums := map[string]int64{}
	line := regexp.MustCompile(`(?m)^holdfast_storage_pool_promised_bytes\{[^}]*node="([^"]*)"[^}]*\} (\S+)$`)
	for _, m := range line.FindAllStringSubmatch(s.must("GET", "/metrics", ""), -1) {
		n, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			s.t.Fatal(err)
		}
		if n > 0 {
			sums[m[1]] = int64(n)
		}
	}
	return sums
}

// counted counts the volumes, and what was promised for each, from the list of all replicas.
func (s *system) counted() (sums map[string]int64, replicas map[string]int, devices map[string]bool) {
	s.t.Helper()
	var list []struct {
		Node    string `json:"node_name"`
		Volumes []struct {
			Device string `json:"device_path"`
			Layers []struct {
				Data struct {
					Usable int64 `json:"usable_size_kib"`
				} `json:"data"`
			} `json:"layer_data_list"`
		} `json:"volumes"`
	}
	if err := json.Unmarshal([]byte(s.must("GET", "/v1/view/resources", "")), &list); err != nil {
		s.t.Fatal(err)
	}
	sums, replicas, devices = map[string]int64{}, map[string]int{}, map[string]bool{}
	for _, r := range list {
		replicas[r.Node]++
		for _, v := range r.Volumes {
			devices[v.Device] = true
			sums[r.Node] += v.Layers[len(v.Layers)-1].Data.Usable << 10
		}
	}
	return sums, replicas, devices
}

// TestTwoHundredSpawnsAtOnceOnFourNodes spawns with placement from 200 clients at once: all succeed, each volume has a device
// of its own, all nodes get some, and what is promised equals a recount, also when all is deleted again at once.
func TestTwoHundredSpawnsAtOnceOnFourNodes(t *testing.T) {
	const spawns, nodes, kib = 200, 4, 4 << 10
	s := start(t)
	dirs := make([]string, nodes)
	for i := range nodes {
		name := fmt.Sprintf("n%d", i)
		s.node(name)
		dirs[i] = s.folder("pool-" + name)
		s.pool(name, "data", "FILE_THIN", dirs[i])
	}
	s.must("POST", "/v1/resource-groups", strings.Replace(group, `"FileSystem/Type":"ext4"`, "", 1))
	each := func(do func(i int)) time.Duration {
		began := time.Now()
		var calls sync.WaitGroup
		for i := range spawns {
			calls.Go(func() { do(i) })
		}
		calls.Wait()
		return time.Since(began)
	}
	took := each(func(i int) {
		if a := s.call("POST", "/v1/resource-groups/group/spawn", spawn(fmt.Sprintf("many-%d", i), kib)); a.status != 201 {
			t.Errorf("spawn %d: %d %s", i, a.status, a.text)
		}
	})
	if t.Failed() {
		return
	}
	t.Logf("%d spawns at once took %v", spawns, took.Round(time.Millisecond))
	sums, replicas, devices := s.counted()
	if len(devices) != spawns || devices[""] {
		t.Errorf("%d volumes have %d devices", spawns, len(devices))
	}
	promised := s.promised()
	for i := range nodes {
		name := fmt.Sprintf("n%d", i)
		if promised[name] != sums[name] || sums[name] != int64(replicas[name])*kib<<10 {
			t.Errorf("node %s: %d bytes are promised, and its %d volumes have %d", name, promised[name], replicas[name], sums[name])
		}
		if n := replicas[name]; n < spawns/nodes/5 { // They share a disk, so that none has more room than the others for long.
			t.Errorf("node %s has %d of %d volumes", name, n, spawns)
		}
	}
	took = each(func(i int) {
		if a := s.call("DELETE", fmt.Sprintf("/v1/resource-definitions/many-%d", i), ""); a.status != 200 {
			t.Errorf("delete %d: %d %s", i, a.status, a.text)
		}
	})
	t.Logf("%d deletes at once took %v", spawns, took.Round(time.Millisecond))
	for _, dir := range dirs {
		s.nothingLeft(dir, "many-")
	}
	if promised = s.promised(); len(promised) > 0 {
		t.Errorf("after all was deleted, bytes are promised: %v", promised)
	}
}
