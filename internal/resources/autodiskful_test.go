// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package resources_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-storage/holdfast/internal/catalog"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/resources"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/test/cluster"
)

// looks is a rig with the loop that gives disks, whose time is the test's own.
type looks struct {
	*rig
	auto *resources.AutoDiskful
	now  time.Time
	log  bytes.Buffer
}

// looking starts a cluster with a definition that wants two disks, on n1 and n2, and has a client
// on n3.
func looking(t *testing.T, o cluster.Options) *looks {
	t.Helper()
	l := &looks{rig: start(t, o), now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	l.Resources.Now = func() time.Time { return l.now }
	l.auto = resources.NewAutoDiskful(l.Resources, slog.New(slog.NewTextHandler(&l.log, nil)))
	l.definition("vol", gib)
	l.create("vol", on("n1", "n2")...)
	if !o.TieBreakers {
		l.create("vol", resources.NewResource{Node: "n3", Kind: schema.Client})
	}
	return l
}

// set sets a property of the definition.
func (l *looks) set(key, value string) {
	l.t.Helper()
	_, err := l.Catalog.ModifyDefinition(l.t.Context(), "vol", catalog.DefinitionChange{Props: model.PropsChange{Set: map[string]string{key: value}}})
	if err != nil {
		l.t.Fatal(err)
	}
}

// use makes a node use the resource, or leave it, and waits until that is known.
func (l *looks) use(node string, used bool) {
	l.t.Helper()
	if used {
		l.Agents[node].Use("vol", "qemu")
	} else {
		l.Agents[node].Leave("vol")
	}
	l.Until(func() bool {
		st, _ := l.Observed.Resource(model.ResourceID{Definition: "vol", Node: model.NodeName(node).Key()})
		inUse, known := st.InUse()
		return known && inUse == used
	})
}

// pass lets time pass, looks, and compares what there is then.
func (l *looks) pass(d time.Duration, want string) {
	l.t.Helper()
	l.now = l.now.Add(d)
	l.auto.Look(l.t.Context())
	same(l.t, "after "+d.String(), l.replicas("vol"), want)
}

// until looks until the replicas are as they should be, without time passing.
func (l *looks) until(want string) {
	l.t.Helper()
	l.Until(func() bool {
		l.auto.Look(l.t.Context())
		return l.replicas("vol") == want
	})
}

const (
	client = "n1 diskful, n2 diskful, n3 client"
	three  = "n1 diskful, n2 diskful, n3 diskful"
)

func TestAClientInUseForLongGetsADiskAndAnotherGoes(t *testing.T) {
	l := looking(t, cluster.Options{Nodes: 3})
	l.use("n1", true)
	l.use("n3", true)
	l.pass(0, client)
	l.pass(24*time.Hour, client) // the property is not set
	l.use("n3", false)
	l.pass(0, client)
	l.set("DrbdOptions/auto-diskful", "10")
	l.pass(time.Hour, client) // nobody uses it
	l.use("n3", true)
	l.pass(time.Hour, client)
	l.pass(10*time.Minute-time.Second, client)
	hold := l.Agents["n3"].HoldApplies("vol")
	l.pass(time.Second, three)
	if err := hold.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		l.pass(time.Hour, three) // its disk is not there yet
	}
	hold.Release()
	l.until("n1 diskful, n3 diskful")
	l.pass(time.Hour, "n1 diskful, n3 diskful")
	if v := l.Agents["n2"].Volumes(); len(v) > 0 {
		t.Errorf("node n2 has %v left", v)
	}
	for node, x := range map[string]schema.Resource{"n1": l.row("vol", "n1"), "n3": l.row("vol", "n3")} {
		if _, marked := x.Props.Get("Internal/Drbd/AutoDiskful"); marked || x.Adding {
			t.Errorf("on node %s it is still %+v", node, x)
		}
	}
}

func TestATieBreakerInUseForLongTurnsWithTheDiskOfAnother(t *testing.T) {
	l := looking(t, cluster.Options{Nodes: 3, TieBreakers: true})
	l.settings(map[string]string{"DrbdOptions/auto-diskful": "5"})
	l.use("n2", true)
	l.use("n3", true)
	l.pass(0, "n1 diskful, n2 diskful, n3 tie-breaker")
	l.pass(5*time.Minute, three)
	l.until("n1 tie-breaker, n2 diskful, n3 diskful")
	same(t, "quorum", l.quorum("vol"), "majority")
}

func TestNoReplicaInUseGoesForADiskThatCame(t *testing.T) {
	l := looking(t, cluster.Options{Nodes: 3})
	l.set("DrbdOptions/auto-diskful", "1")
	for _, node := range []string{"n1", "n2", "n3"} {
		l.use(node, true)
	}
	l.pass(0, client)
	l.pass(time.Minute, three)
	l.Until(func() bool {
		l.auto.Look(t.Context())
		return !l.row("vol", "n3").Adding
	})
	l.pass(time.Hour, three)
	l.use("n2", false)
	l.until("n1 diskful, n3 diskful")
}

func TestNothingGoesWhereCleanUpIsForbiddenOrNothingIsTooMany(t *testing.T) {
	for name, prepare := range map[string]func(l *looks){
		"forbidden": func(l *looks) { l.set("DrbdOptions/auto-diskful-allow-cleanup", "False") },
		"three are wanted": func(l *looks) {
			if _, err := l.Catalog.ModifyGroup(l.t.Context(), "DfltRscGrp", catalog.GroupChange{Filter: new(count(3))}); err != nil {
				l.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := looking(t, cluster.Options{Nodes: 3})
			prepare(l)
			l.nodeProps("n3", map[string]string{"DrbdOptions/auto-diskful": "1"})
			l.use("n3", true)
			l.pass(0, client)
			l.pass(time.Minute, three)
			l.Until(func() bool {
				l.auto.Look(t.Context())
				_, marked := l.row("vol", "n3").Props.Get("Internal/Drbd/AutoDiskful")
				return !marked
			})
			l.pass(time.Hour, three)
		})
	}
}

func TestADiskForWhichThereIsNoRoomIsTriedLater(t *testing.T) {
	l := looking(t, cluster.Options{Nodes: 3})
	l.set("DrbdOptions/auto-diskful", "1")
	l.Agents["n3"].FailPool(cluster.Pool, "the disk is broken")
	pool := model.PoolID{Node: "n3", Pool: cluster.Pool}
	l.Until(func() bool { p, _ := l.Observed.Pool(pool); return len(p.Faults) > 0 })
	l.use("n3", true)
	l.pass(0, client)
	for range 20 {
		l.pass(10*time.Minute, client)
	}
	if n := strings.Count(l.log.String(), "could not be given a disk"); n != 1 {
		t.Errorf("it was logged %d times:\n%s", n, &l.log)
	}
	l.Agents["n3"].HealPool(cluster.Pool)
	l.Until(func() bool { p, _ := l.Observed.Pool(pool); return len(p.Faults) == 0 })
	l.pass(time.Second, client) // the delay is not over
	l.pass(16*time.Minute, three)
}

func TestNoReplicaGoesWhileTooFewOthersAreKnownToHaveAllData(t *testing.T) {
	l := looking(t, cluster.Options{Nodes: 3})
	l.set("DrbdOptions/auto-diskful", "1")
	l.use("n3", true)
	l.pass(0, client)
	l.pass(time.Minute, three)
	l.StopAgent("n1")
	id := model.ResourceID{Definition: "vol", Node: "n3"}
	l.Until(func() bool { // the node has said that the disk is there, of the row as it is
		l.auto.Look(t.Context())
		st, _ := l.Observed.Resource(id)
		rev := schema.Resources.Revision(l.Store.Snapshot(), id)
		return !l.row("vol", "n3").Adding && st.Phase == observed.Ready && st.Generation >= uint64(rev)
	})
	for range 3 {
		l.pass(time.Hour, three)
	}
	l.Agents["n1"].Use("vol", "qemu")
	l.StartAgent("n1")
	l.until("n1 diskful, n3 diskful")
}
