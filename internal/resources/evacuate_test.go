// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package resources_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/resources"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/test/cluster"
)

// evacuate evacuates a node.
func (r *rig) evacuate(node string, e resources.Evacuation) schema.Job {
	r.t.Helper()
	j, _, err := r.Resources.EvacuateNode(r.t.Context(), node, e)
	if err != nil {
		r.t.Fatal(err)
	}
	return j
}

// restore restores a node.
func (r *rig) restore(node string, o resources.Restoration) []errs.Notice {
	r.t.Helper()
	notices, err := r.Resources.RestoreNode(r.t.Context(), node, o)
	if err != nil {
		r.t.Fatal(err)
	}
	return notices
}

// evacuated waits until the job about a node is done.
func (r *rig) evacuated(node string) {
	r.t.Helper()
	r.ended(schema.EvacuateNode, node, schema.JobDone)
}

func TestAnEvacuatedNodeLosesItsReplicasToOthers(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 4})
	r.lead()
	const many = 10
	for i := range many {
		r.spawn("DfltRscGrp", fmt.Sprintf("vol-%d", i), mib)
	}
	j, notices, err := r.Resources.EvacuateNode(t.Context(), "N1", resources.Evacuation{})
	if err != nil || j.State != schema.JobRunning {
		t.Fatal(j, err)
	}
	noted(t, notices, errs.GoesOn, "the evacuation of node n1 has begun")
	n, _ := schema.Nodes.Get(r.Store.Snapshot(), "n1")
	if !n.Evacuating || n.LeftAt.IsZero() {
		t.Errorf("the node is %+v", n)
	}
	r.evacuated("n1")
	r.Until(func() bool { return !schema.ResourcesByNode.Has(r.Store.Snapshot(), "n1") })
	if list := r.Agents["n1"].Volumes(); len(list) > 0 {
		t.Errorf("the host still has %v", list)
	}
	for i := range many {
		list := schemaReplicas(r, fmt.Sprintf("vol-%d", i))
		if len(list) != 2 || list[0].Node == "n1" {
			t.Errorf("vol-%d lies on %s", i, r.replicas(fmt.Sprintf("vol-%d", i)))
		}
	}
	_, err = r.Resources.Create(t.Context(), "vol-0", on("n1"))
	refused(t, err, errs.Closing, "node n1 takes no new replica of vol-0", "node is being evacuated", "node restore n1")
	_, err = r.autoplace("vol-0", count(4))
	refused(t, err, errs.NotEnough, "1 node: node is being evacuated")
}

func TestARepeatedEvacuationMakesNoMoreReplicas(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 5})
	r.group("free", model.Filter{})
	for _, group := range []string{"DfltRscGrp", "free"} {
		for i := range 5 {
			name := fmt.Sprintf("%s-%d", group, i)
			if _, err := r.Resources.Spawn(t.Context(), group, resources.NewSpawn{
				Name: name, Sizes: []int64{mib}, Filter: model.Filter{PlaceCount: new(int32(2)), Nodes: []string{"n1", "n2"}},
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	r.Agents["n1"].Use("free-0", "qemu") // keeps the evacuation from ending
	r.evacuate("n1", resources.Evacuation{})
	stop := r.lead()
	for range 5 {
		r.evacuate("n1", resources.Evacuation{})
	}
	stop()
	r.lead()
	r.Until(func() bool { return r.job(schema.EvacuateNode, "n1").Done == 9 })
	r.evacuate("n1", resources.Evacuation{})
	j := r.job(schema.EvacuateNode, "n1")
	if !strings.Contains(j.LastError(), "qemu") {
		t.Errorf("the problem is %q", j.LastError())
	}
	for _, group := range []string{"DfltRscGrp", "free"} {
		for i := range 5 {
			name := fmt.Sprintf("%s-%d", group, i)
			want := 2
			if name == "free-0" {
				want = 3 // the one in use, its peer, and its replacement
			}
			r.Until(func() bool { return len(schemaReplicas(r, name)) == want })
		}
	}
	r.Agents["n1"].Leave("free-0")
	r.evacuated("n1")
	r.Until(func() bool { return len(schemaReplicas(r, "free-0")) == 2 && len(r.Agents["n1"].Volumes()) == 0 })
	if n := schema.Jobs.Len(r.Store.Snapshot()); n != 1 {
		t.Errorf("there are %d jobs", n)
	}
}

func TestTheOldReplicaStaysUntilTheNewOneIsReady(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 2})
	r.group("one", count(1))
	if _, err := r.Resources.Spawn(t.Context(), "one", resources.NewSpawn{
		Name: "vol", Sizes: []int64{mib}, Filter: model.Filter{Nodes: []string{"n1"}},
	}); err != nil {
		t.Fatal(err)
	}
	hold := r.Agents["n2"].HoldApplies("vol")
	r.lead()
	r.evacuate("n1", resources.Evacuation{})
	if err := hold.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	same(t, "while the new one is being made", r.replicas("vol"), "n1 diskful, n2 diskful")
	hold.Release()
	r.evacuated("n1")
	r.Until(func() bool { return r.replicas("vol") == "n2 diskful" })
}

// TestAReplacementThatIsNotReadyYetIsWaitedForOverARestart evacuates a replica that has a sound
// peer, and whose replacement was put, but not made, when the leader ended.
func TestAReplacementThatIsNotReadyYetIsWaitedForOverARestart(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 3})
	r.group("free", model.Filter{})
	if _, err := r.Resources.Spawn(t.Context(), "free", resources.NewSpawn{
		Name: "vol", Sizes: []int64{mib}, Filter: model.Filter{PlaceCount: new(int32(2)), Nodes: []string{"n1", "n2"}},
	}); err != nil {
		t.Fatal(err)
	}
	hold := r.Agents["n3"].HoldApplies("vol")
	stop := r.lead()
	r.evacuate("n1", resources.Evacuation{})
	if err := hold.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	stop()
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("the loops took %s to end while a host was busy", took)
	}
	same(t, "what was begun stays", r.replicas("vol"), "n1 diskful, n2 diskful, n3 diskful")
	r.lead()
	r.Until(func() bool {
		return strings.Contains(r.job(schema.EvacuateNode, "n1").LastError(), "does not have all data yet")
	})
	same(t, "replicas", r.replicas("vol"), "n1 diskful, n2 diskful, n3 diskful")
	hold.Release()
	r.evacuated("n1")
	r.Until(func() bool { return r.replicas("vol") == "n2 diskful, n3 diskful" })
}

func TestAPeerThatIsAwayKeepsAReplicaFromGoing(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 4})
	r.lead()
	r.group("grp", count(2))
	if _, err := r.Resources.Spawn(t.Context(), "grp", resources.NewSpawn{
		Name: "vol", Sizes: []int64{mib}, Filter: model.Filter{PlaceCount: new(int32(3)), Nodes: []string{"n1", "n2", "n3"}},
	}); err != nil {
		t.Fatal(err)
	}
	r.StopAgent("n3")
	r.evacuate("n1", resources.Evacuation{})
	r.Until(func() bool {
		return strings.Contains(r.job(schema.EvacuateNode, "n1").LastError(), "only 1 of 2 other replicas that it takes are known to have all data")
	})
	same(t, "replicas", r.replicas("vol"), "n1 diskful, n2 diskful, n3 diskful")
	r.StartAgent("n3")
	r.evacuated("n1")
	r.Until(func() bool { return r.replicas("vol") == "n2 diskful, n3 diskful" })
}

func TestAnEvictedReplicaDoesNotCount(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 4})
	if _, err := r.Resources.Spawn(t.Context(), "DfltRscGrp", resources.NewSpawn{
		Name: "vol", Sizes: []int64{mib}, Filter: model.Filter{Nodes: []string{"n1", "n2"}},
	}); err != nil {
		t.Fatal(err)
	}
	r.StopAgent("n1")
	if _, _, err := r.Resources.EvictNode(t.Context(), "n1"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.autoplace("vol", count(2)); err != nil {
		t.Fatal(err)
	}
	same(t, "replicas", r.replicas("vol"), "n1 diskful, n2 diskful, n3 diskful")
}

func TestAPropertySaysHowFewReplicasAnEvictedOneMayLeave(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 4})
	r.lead()
	for name, few := range map[string]string{"few": "1", "many": "2"} {
		if _, err := r.Resources.Spawn(t.Context(), "DfltRscGrp", resources.NewSpawn{
			Name: name, Sizes: []int64{mib}, Filter: model.Filter{Nodes: []string{"n1", "n2"}},
			Props: map[string]string{"DrbdOptions/AutoEvictMinReplicaCount": few},
		}); err != nil {
			t.Fatal(err)
		}
	}
	r.StopAgent("n1")
	if _, _, err := r.Resources.EvictNode(t.Context(), "n1"); err != nil {
		t.Fatal(err)
	}
	r.evacuated("n1")
	same(t, "replicas", r.replicas("few"), "n1 diskful, n2 diskful")
	same(t, "replicas", r.replicas("many"), "n1 diskful, n2 diskful, n3 diskful")
}

func TestAClientGetsTheDiskOfAnEvacuatedNode(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 3})
	r.lead()
	r.definition("vol", mib)
	r.create("vol", on("n1", "n2")...)
	r.create("vol", resources.NewResource{Node: "n3", Kind: schema.Client})
	r.Agents["n3"].Use("vol", "qemu")
	r.evacuate("n1", resources.Evacuation{})
	r.evacuated("n1")
	r.Until(func() bool { return r.replicas("vol") == "n2 diskful, n3 diskful" })
}

func TestReplicasWithoutADiskJustGo(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 3})
	r.lead()
	r.definition("vol", mib)
	r.create("vol", on("n1")...)
	r.create("vol", resources.NewResource{Node: "n2", Kind: schema.Client}, resources.NewResource{Node: "n3", Kind: schema.TieBreaker})
	r.evacuate("n3", resources.Evacuation{})
	r.evacuated("n3")
	r.Agents["n2"].Use("vol", "qemu")
	r.evacuate("n2", resources.Evacuation{})
	r.Until(func() bool { return r.job(schema.EvacuateNode, "n2").Attempts > 1 })
	same(t, "a client in use", r.replicas("vol"), "n1 diskful, n2 client")
	r.Agents["n2"].Leave("vol")
	r.evacuated("n2")
	r.Until(func() bool { return r.replicas("vol") == "n1 diskful" })
}

func TestDataThatNothingReplicatesIsNotMoved(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 2, Agent: withoutDRBD})
	r.lead()
	r.group("one", count(1))
	r.spawn("one", "vol", mib)
	r.evacuate("n1", resources.Evacuation{})
	j := r.ended(schema.EvacuateNode, "n1", schema.JobFailed)
	if want := "resource vol stays on node n1: no layer of the stack STORAGE replicates"; !strings.HasPrefix(j.LastError(), want) {
		t.Errorf("the problem is %q", j.LastError())
	}
	same(t, "replicas", r.replicas("vol"), "n1 diskful")
	same(t, "hosts", r.hosts("vol"), "n1/0 1 MiB")
}

func TestEvacuationKeepsToItsTargets(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 5})
	r.lead()
	for i := range 4 {
		if _, err := r.Resources.Spawn(t.Context(), "DfltRscGrp", resources.NewSpawn{
			Name: fmt.Sprintf("vol-%d", i), Sizes: []int64{mib}, Filter: model.Filter{Nodes: []string{"n1", "n2"}},
		}); err != nil {
			t.Fatal(err)
		}
	}
	_, _, err := r.Resources.EvacuateNode(t.Context(), "n1", resources.Evacuation{Targets: []string{"n9"}})
	refused(t, err, errs.NotFound, "node n9 does not exist")
	_, _, err = r.Resources.EvacuateNode(t.Context(), "n1", resources.Evacuation{Targets: []string{"N1"}})
	refused(t, err, errs.Invalid, "node n1 cannot be evacuated to itself")
	_, _, err = r.Resources.EvacuateNode(t.Context(), "n8", resources.Evacuation{})
	refused(t, err, errs.NotFound, "node n8 does not exist")
	r.evacuate("n1", resources.Evacuation{Targets: []string{"N3", "n4"}, Avoid: []string{"n3"}})
	r.evacuated("n1")
	r.evacuate("n2", resources.Evacuation{Avoid: []string{"n3"}})
	r.evacuated("n2")
	for i := range 4 {
		r.Until(func() bool { return r.replicas(fmt.Sprintf("vol-%d", i)) == "n4 diskful, n5 diskful" })
	}
}

func TestAnEvacuationWithoutRoomWaitsForIt(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 2})
	r.lead()
	r.spawn("DfltRscGrp", "vol", mib)
	r.evacuate("n1", resources.Evacuation{})
	r.Until(func() bool { return r.job(schema.EvacuateNode, "n1").Attempts > 2 })
	if j := r.job(schema.EvacuateNode, "n1"); !strings.Contains(j.LastError(), "not enough nodes") {
		t.Errorf("the problem is %q", j.LastError())
	}
	same(t, "replicas", r.replicas("vol"), "n1 diskful, n2 diskful")
	r.Register("n3")
	r.StartAgent("n3")
	r.AddPool("n3", cluster.Pool)
	r.evacuated("n1")
	r.Until(func() bool { return r.replicas("vol") == "n2 diskful, n3 diskful" })
}

func TestANodeThatIsAwayIsEvacuatedFromItsPeers(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 3})
	r.lead()
	if _, err := r.Resources.Spawn(t.Context(), "DfltRscGrp", resources.NewSpawn{
		Name: "vol", Sizes: []int64{mib}, Filter: model.Filter{Nodes: []string{"n1", "n2"}},
	}); err != nil {
		t.Fatal(err)
	}
	r.StopAgent("n1")
	r.evacuate("n1", resources.Evacuation{})
	r.evacuated("n1")
	same(t, "replicas", r.replicas("vol"), "n1 diskful deleting, n2 diskful, n3 diskful")
	r.StartAgent("n1")
	r.Until(func() bool {
		return r.replicas("vol") == "n2 diskful, n3 diskful" && len(r.Agents["n1"].Volumes()) == 0
	})
}

func TestAnEvictedNodeIsReplacedAndKeepsItsReplicas(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 4})
	r.lead()
	if _, err := r.Resources.Spawn(t.Context(), "DfltRscGrp", resources.NewSpawn{
		Name: "vol", Sizes: []int64{mib}, Filter: model.Filter{Nodes: []string{"n1", "n2"}},
	}); err != nil {
		t.Fatal(err)
	}
	_, _, err := r.Resources.EvictNode(t.Context(), "n1")
	refused(t, err, errs.InUse, "node n1 cannot be evicted", "it is connected")
	r.StopAgent("n1")
	for range 3 {
		if _, _, err := r.Resources.EvictNode(t.Context(), "n1"); err != nil {
			t.Fatal(err)
		}
	}
	r.evacuated("n1")
	same(t, "replicas", r.replicas("vol"), "n1 diskful, n2 diskful, n3 diskful")
	r.StartAgent("n1")
	_, err = r.Resources.Create(t.Context(), "vol", on("n4"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.autoplace("vol", count(3))
	if err != nil {
		t.Fatal(err)
	}
	same(t, "replicas", r.replicas("vol"), "n1 diskful, n2 diskful, n3 diskful, n4 diskful")

	if notices := r.restore("n1", resources.Restoration{}); len(notices) > 0 {
		t.Errorf("notices: %+v", notices)
	}
	if x := r.row("vol", "n1"); x.ReplacedBy != "" {
		t.Errorf("the replica is still replaced by that on %s", x.ReplacedBy)
	}
	if r.Observed.Node("n1").Connection != observed.Online {
		t.Error("the restored node is not online")
	}
	noted(t, r.restore("n1", resources.Restoration{}), errs.NotEvacuating, "node n1 is neither evacuated nor evicted")
}

func TestRestoreDeletesWhatIsElsewhereWhenItIsAsked(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 3})
	r.lead()
	for _, name := range []string{"vol", "used"} {
		if _, err := r.Resources.Spawn(t.Context(), "DfltRscGrp", resources.NewSpawn{
			Name: name, Sizes: []int64{mib}, Filter: model.Filter{Nodes: []string{"n1", "n2"}},
		}); err != nil {
			t.Fatal(err)
		}
	}
	r.group("one", count(1))
	if _, err := r.Resources.Spawn(t.Context(), "one", resources.NewSpawn{
		Name: "single", Sizes: []int64{mib}, Filter: model.Filter{Nodes: []string{"n1"}, Layers: []string{"storage"}},
	}); err != nil {
		t.Fatal(err)
	}
	r.StopAgent("n1")
	if _, _, err := r.Resources.EvictNode(t.Context(), "n1"); err != nil {
		t.Fatal(err)
	}
	r.Until(func() bool { return r.job(schema.EvacuateNode, "n1").Done == 2 })
	r.StartAgent("n1")
	r.Agents["n1"].Use("used", "qemu")
	notices := r.restore("n1", resources.Restoration{DeleteResources: true})
	noted(t, notices, errs.SuccessNote, "resource single on node n1 stays: no other replica is known to have its data")
	noted(t, notices, errs.SuccessNote, "resource used on node n1 stays")
	r.Until(func() bool { return r.replicas("vol") == "n2 diskful, n3 diskful" })
	same(t, "replicas", r.replicas("used"), "n1 diskful, n2 diskful, n3 diskful")
	same(t, "replicas", r.replicas("single"), "n1 diskful")
}

func TestRestoreCancelsAnEvacuation(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 2})
	r.spawn("DfltRscGrp", "vol", mib)
	r.evacuate("n1", resources.Evacuation{})
	r.restore("n1", resources.Restoration{})
	if j := r.job(schema.EvacuateNode, "n1"); j.State != schema.JobCancelled {
		t.Errorf("the job is %+v", j)
	}
	r.lead()
	n, _ := schema.Nodes.Get(r.Store.Snapshot(), "n1")
	if n.Leaving() || !n.LeftAt.IsZero() {
		t.Errorf("the node is %+v", n)
	}
	r.evacuate("n1", resources.Evacuation{})
	if n := schema.Jobs.Len(r.Store.Snapshot()); n != 2 {
		t.Errorf("there are %d jobs", n)
	}
}
