// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package integrity_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/test/cluster"
)

// newScene starts a cluster whose check of the database ends the test.
func newScene(t *testing.T, nodes int) *scene {
	t.Helper()
	c := cluster.Start(t, cluster.Options{Nodes: nodes})
	return &scene{Cluster: c, t: t, round: "0"}
}

// do sends a request that has to succeed.
func (s *scene) do(method, path, body string) answer {
	s.t.Helper()
	a := s.call(request{method, path, body})
	if !a.ok() {
		s.t.Errorf("%s %s: %d %s", method, path, a.status, a.text)
	}
	return a
}

// shown is a replica as the list of all of them has it.
type shown struct {
	Name  string   `json:"name"`
	Node  string   `json:"node_name"`
	Flags []string `json:"flags"`
	Layer struct {
		DRBD struct {
			Ports   []int32 `json:"tcp_ports"`
			Volumes []struct {
				Definition struct {
					Minor int32 `json:"minor_number"`
				} `json:"drbd_volume_definition"`
			} `json:"drbd_volumes"`
		} `json:"drbd"`
	} `json:"layer_object"`
}

func (s *scene) view() (all []shown) {
	s.t.Helper()
	if err := json.Unmarshal([]byte(s.do("GET", "/v1/view/resources", "").text), &all); err != nil {
		s.t.Fatal(err)
	}
	return all
}

// volumes counts what lies on all hosts.
func (s *scene) volumes() (n int) {
	for _, a := range s.Agents {
		n += len(a.Volumes())
	}
	return n
}

// empty fails the test unless nothing is left: no row, no volume on a host, no promise.
func (s *scene) empty() {
	s.t.Helper()
	s.rest()
	s.Until(func() bool { return s.volumes() == 0 })
	v := s.Store.Snapshot()
	if schema.Definitions.Len(v)+schema.Resources.Len(v)+schema.VolumeDefinitions.Len(v) > 0 {
		s.t.Errorf("rows are left: %d definitions, %d resources", schema.Definitions.Len(v), schema.Resources.Len(v))
	}
	for p := range schema.Pools.All(v) {
		if n := schema.Promised.Of(v, model.PoolID{Node: p.Node, Pool: p.Name.Key()}); n != 0 {
			s.t.Errorf("pool %s on node %s still promises %d bytes", p.Name, p.Node, n)
		}
	}
	s.Check()
}

// A delete while one host is away takes the others' devices and space at once, is shown as pending at that one alone, and ends
// with the node that is given up, after which the name is free.
func TestADeleteWaitsForTheNodeThatIsAwayAloneAndEndsWhenItIsLost(t *testing.T) {
	s := newScene(t, 3)
	spawn := `{"resource_definition_name":"vol","volume_sizes":[4096],"select_filter":{"place_count":3}}`
	s.do("POST", "/v1/resource-groups/DfltRscGrp/spawn", spawn)
	s.StopAgent("n3")
	began := time.Now()
	s.do("DELETE", "/v1/resource-definitions/vol", "")
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the delete took %v", took)
	}
	if n := len(s.Agents["n1"].Volumes()) + len(s.Agents["n2"].Volumes()); n != 0 {
		t.Errorf("%d volumes are left on the hosts that are there", n)
	}
	if all := s.view(); len(all) != 1 || all[0].Node != "n3" || fmt.Sprint(all[0].Flags) != "[DELETE]" {
		t.Errorf("shown are %+v", all)
	}
	s.do("DELETE", "/v1/nodes/n3/lost", "")
	if a := s.call(request{"GET", "/v1/resource-definitions/vol", ""}); a.status != 404 {
		t.Errorf("the definition is still there: %d %s", a.status, a.text)
	}
	s.do("POST", "/v1/resource-groups/DfltRscGrp/spawn", strings.Replace(spawn, "3}}", "2}}", 1))
	s.Check()
}

// Creating over a delete that waits for its host cancels it.
func TestAReplicaWhoseDeleteIsPendingIsTakenBackByCreatingIt(t *testing.T) {
	s := newScene(t, 3)
	s.do("POST", "/v1/resource-groups/DfltRscGrp/spawn", `{"resource_definition_name":"vol","volume_sizes":[4096],"select_filter":{"node_name_list":["n1","n2"]}}`)
	s.do("POST", "/v1/resource-definitions/vol/resources/n3", `{"resource":{"flags":["DRBD_DISKLESS"]}}`)
	s.StopAgent("n3")
	s.do("DELETE", "/v1/resource-definitions/vol/resources/n3", "")
	s.do("POST", "/v1/resource-definitions/vol/resources/n3", `{"resource":{"flags":["DRBD_DISKLESS"]}}`)
	s.StartAgent("n3")
	for _, r := range s.view() {
		if strings.Contains(strings.Join(r.Flags, " "), "DELETE") {
			t.Errorf("%+v is still being deleted", r)
		}
	}
	s.do("POST", "/v1/resource-definitions/vol/resources/n3/make-available", "{}")
	s.Check()
}

// Fifty deletes outlive an agent that dies in the middle of them.
func TestManyDeletesSurviveAnAgentThatDiesInTheMiddle(t *testing.T) {
	const volumes = 50
	s := newScene(t, 1)
	s.do("POST", "/v1/resource-groups", `{"name":"grp","select_filter":{"place_count":1,"layer_stack":["STORAGE"]}}`)
	var calls sync.WaitGroup
	for i := range volumes {
		calls.Go(func() {
			s.do("POST", "/v1/resource-groups/grp/spawn", fmt.Sprintf(`{"resource_definition_name":"vol-%d","volume_sizes":[4096]}`, i))
		})
	}
	calls.Wait()
	for i := range volumes {
		calls.Go(func() { s.call(request{"DELETE", fmt.Sprintf("/v1/resource-definitions/vol-%d", i), ""}) })
	}
	s.Until(func() bool { return s.volumes() < volumes })
	s.StopAgent("n1")
	calls.Wait()
	// What was not marked when the host went away could not be asked about, and says so: it is asked for again.
	s.StartAgent("n1")
	for i := range volumes {
		s.Until(func() bool {
			return s.call(request{"DELETE", fmt.Sprintf("/v1/resource-definitions/vol-%d", i), ""}).ok()
		})
	}
	s.empty()
}

// A delete that comes while the spawn still works wins in the end, whichever of both is answered first.
func TestADeleteDuringASpawnWinsInTheEnd(t *testing.T) {
	const rounds = 60
	s := newScene(t, 2)
	var calls sync.WaitGroup
	for i := range rounds {
		path := fmt.Sprintf("/v1/resource-definitions/vol-%d", i)
		calls.Go(func() {
			s.call(request{
				"POST", "/v1/resource-groups/DfltRscGrp/spawn", fmt.Sprintf(`{"resource_definition_name":"vol-%d","volume_sizes":[4096]}`, i),
			})
		})
		calls.Go(func() {
			s.Until(func() bool { return s.exists(path) || s.t.Failed() })
			s.Until(func() bool { return s.call(request{"DELETE", path, ""}).ok() })
		})
	}
	calls.Wait()
	s.empty()
}

// The hundreds of replicas of a node that is given up go with it, and nothing of them is in the way of what comes after.
func TestALostNodeLeavesNoneOfItsManyReplicas(t *testing.T) {
	const volumes = 200
	s := newScene(t, 3)
	s.do("POST", "/v1/resource-groups", `{"name":"grp","select_filter":{"place_count":1,"layer_stack":["STORAGE"],"node_name_list":["n3"]}}`)
	var calls sync.WaitGroup
	for i := range volumes {
		calls.Go(func() {
			s.do("POST", "/v1/resource-groups/grp/spawn", fmt.Sprintf(`{"resource_definition_name":"vol-%d","volume_sizes":[4096]}`, i))
		})
	}
	calls.Wait()
	s.StopAgent("n3")
	s.do("DELETE", "/v1/nodes/n3/lost", "")
	if all := s.view(); len(all) > 0 {
		t.Errorf("%d replicas are left, the first is %+v", len(all), all[0])
	}
	s.do("POST", "/v1/resource-groups/DfltRscGrp/spawn", `{"resource_definition_name":"next","volume_sizes":[4096]}`)
	s.Check()
}

// Numbers stay unique, and nothing is a fault, while volumes are spawned, get and lose replicas and are deleted all at once.
func TestNumbersStayUniqueWhileVolumesComeAndGo(t *testing.T) {
	const workers, rounds = 12, 6
	s := newScene(t, 4)
	var calls sync.WaitGroup
	for w := range workers {
		calls.Go(func() {
			for i := range rounds {
				name := fmt.Sprintf("vol-%d-%d", w, i)
				path := "/v1/resource-definitions/" + name
				s.do("POST", "/v1/resource-groups/DfltRscGrp/spawn", fmt.Sprintf(`{"resource_definition_name":%q,"volume_sizes":[4096]}`, name))
				for n := range 4 {
					s.call(request{"POST", fmt.Sprintf("%s/resources/n%d/make-available", path, n+1), `{}`})
				}
				s.call(request{"DELETE", fmt.Sprintf("%s/resources/n%d", path, i%4+1), ""})
				s.call(request{"PUT", fmt.Sprintf("%s/resources/n%d/toggle-disk/diskful/data", path, (i+1)%4+1), ""})
				if w == 0 {
					s.unique()
				}
				if i%2 == 0 {
					s.do("DELETE", path, "")
				}
			}
		})
	}
	calls.Wait()
	if seen := s.unique(); seen == 0 {
		t.Error("no replica has a port")
	}
	s.rest()
	s.Check()
	if text := s.do("GET", "/v1/error-reports", "").text; strings.TrimSpace(text) != "[]" {
		t.Errorf("faults were reported: %s", text)
	}
}

// unique fails the test when two replicas on a node have a port, or two definitions a minor, in common. It returns how many
// ports there are.
func (s *scene) unique() int {
	s.t.Helper()
	ports, minors := map[string]string{}, map[int32]string{}
	for _, r := range s.view() {
		for _, p := range r.Layer.DRBD.Ports {
			at := fmt.Sprintf("%s:%d", r.Node, p)
			if other, taken := ports[at]; taken {
				s.t.Errorf("port %s has %s and %s", at, other, r.Name)
			}
			ports[at] = r.Name
		}
		for _, v := range r.Layer.DRBD.Volumes {
			minor := v.Definition.Minor
			if other, taken := minors[minor]; taken && other != r.Name {
				s.t.Errorf("minor %d has %s and %s", minor, other, r.Name)
			}
			minors[minor] = r.Name
		}
	}
	return len(ports)
}

// A group is changed, spawned from and joined by definitions at the same time: nobody sees an error.
func TestAGroupChangesWhileDefinitionsComeIntoIt(t *testing.T) {
	const workers, rounds = 16, 8
	s := newScene(t, 3)
	s.do("POST", "/v1/resource-groups", `{"name":"grp","select_filter":{"place_count":1,"layer_stack":["STORAGE"]}}`)
	var calls sync.WaitGroup
	for w := range workers {
		calls.Go(func() {
			for i := range rounds {
				name := fmt.Sprintf("vol-%d-%d", w, i)
				s.do("PUT", "/v1/resource-groups/grp", fmt.Sprintf(`{"description":%q,"override_props":{"Aux/w%d":"%d"},"select_filter":{"place_count":1}}`, name, w, i))
				s.do("POST", "/v1/resource-groups/grp/spawn", fmt.Sprintf(`{"resource_definition_name":%q,"volume_sizes":[4096]}`, name))
				s.do("POST", "/v1/resource-definitions", fmt.Sprintf(`{"resource_definition":{"name":"moved-%d-%d"}}`, w, i))
				s.do("PUT", fmt.Sprintf("/v1/resource-definitions/moved-%d-%d", w, i), `{"resource_group":"grp"}`)
			}
		})
	}
	calls.Wait()
	var grp struct {
		Props map[string]string `json:"props"`
	}
	if err := json.Unmarshal([]byte(s.do("GET", "/v1/resource-groups/grp", "").text), &grp); err != nil {
		t.Fatal(err)
	}
	for w := range workers {
		if got := grp.Props[fmt.Sprintf("Aux/w%d", w)]; got != fmt.Sprint(rounds-1) {
			t.Errorf("the last edit of client %d is lost: %q", w, got)
		}
	}
	s.Check()
}

// A host that hangs, and is not known to be away yet, holds up neither lists nor what is placed on others.
func TestAHostThatHangsHoldsUpNobodyElse(t *testing.T) {
	s := newScene(t, 3)
	s.do("POST", "/v1/resource-definitions", `{"resource_definition":{"name":"vol"}}`)
	s.do("POST", "/v1/resource-definitions/vol/volume-definitions", `{"volume_definition":{"size_kib":4096}}`)
	s.Agents["n3"].Silence()
	defer s.Agents["n3"].Speak()
	within := func(limit time.Duration, method, path, body string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		began := time.Now()
		if a := s.call(request{method, path, body}); !a.ok() || ctx.Err() != nil {
			t.Errorf("%s %s: %d after %v: %s", method, path, a.status, time.Since(began), a.text)
		}
	}
	within(5*time.Second, "POST", "/v1/resource-definitions/vol/autoplace", `{"select_filter":{"place_count":2,"node_name_list":["n1","n2"]}}`)
	for _, path := range []string{"/v1/view/resources", "/v1/view/storage-pools", "/v1/nodes", "/metrics", "/health"} {
		within(time.Second, "GET", path, "")
	}
}

// A raised place count is answered at once, and reaches every definition of the group.
func TestARaisedPlaceCountIsAnsweredAtOnceAndReachesAll(t *testing.T) {
	const volumes = 100
	s := newScene(t, 3)
	s.do("POST", "/v1/resource-groups", `{"name":"grp","select_filter":{"place_count":2}}`)
	var calls sync.WaitGroup
	for i := range volumes {
		calls.Go(func() {
			s.do("POST", "/v1/resource-groups/grp/spawn", fmt.Sprintf(`{"resource_definition_name":"vol-%d","volume_sizes":[4096]}`, i))
		})
	}
	calls.Wait()
	began := time.Now()
	s.do("PUT", "/v1/resource-groups/grp", `{"select_filter":{"place_count":3}}`)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the answer took %v", took)
	}
	s.Until(func() bool { return len(s.view()) == 3*volumes })
	s.Check()
}
