// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package converge_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// nodes registers n1 to n of a number.
func (r *rig) nodes(n int) {
	r.Helper()
	for i := range n {
		r.node(fmt.Sprintf("n%d", i+1), nil)
	}
}

func (r *rig) settings(props map[string]string) {
	r.Helper()
	r.update(func(tx *store.Tx) error {
		s, _ := schema.Settings.Get(tx, schema.SettingsKey)
		s.Props = s.Props.Change(model.PropsChange{Set: props})
		return schema.Settings.Update(tx, s)
	})
}

func TestANodeThatStaysAwayIsEvictedOnce(t *testing.T) {
	in(t, func(r *rig) {
		r.nodes(3)
		r.pass(100 * time.Second)
		r.disconnect("n2")
		r.pass(59 * time.Minute)
		r.same("before the hour", r.did(), "[]")
		r.pass(2 * time.Minute)
		r.same("after the hour", r.did(), "[evict n2 at 3700]")
		r.pass(3 * time.Hour)
		r.same("later", r.did(), "[]")
	})
}

func TestANodeThatComesBackInTimeIsNotEvicted(t *testing.T) {
	in(t, func(r *rig) {
		r.nodes(3)
		for range 5 {
			r.disconnect("n2")
			r.pass(50 * time.Minute)
			r.connect("n2")
			r.pass(time.Minute)
		}
		r.same("done", r.did(), "[]")
	})
}

func TestNoNodeIsEvictedWhileTooManyAreAway(t *testing.T) {
	in(t, func(r *rig) {
		r.nodes(4)
		r.disconnect("n1")
		r.disconnect("n2")
		r.pass(3 * time.Hour)
		r.same("with half of the nodes away", r.did(), "[]")
		r.connect("n1")
		r.pass(time.Minute)
		r.same("with a quarter away", r.did(), "[evict n2 at 10810]")
	})
}

func TestPropertiesRuleEviction(t *testing.T) {
	in(t, func(r *rig) {
		r.nodes(4)
		r.node("kept", map[string]string{"DrbdOptions/AutoEvictAllowEviction": "False"})
		r.node("quick", map[string]string{"DrbdOptions/AutoEvictAfterTime": "2"})
		r.settings(map[string]string{"DrbdOptions/AutoEvictAfterTime": "10", "DrbdOptions/AutoEvictMaxDisconnectedNodes": "50"})
		for _, n := range []string{"n1", "kept", "quick"} {
			r.disconnect(n)
		}
		r.pass(3 * time.Hour)
		r.same("done", r.did(), "[evict quick at 120 evict n1 at 600]")
		r.settings(map[string]string{"DrbdOptions/AutoEvictAllowEviction": "False"})
		r.connect("n1")
		r.disconnect("n2")
		r.pass(3 * time.Hour)
		r.same("when it is forbidden for all", r.did(), "[]")
	})
}

func TestTheTimeBeforeThisLeaderDoesNotCount(t *testing.T) {
	in(t, func(r *rig) {
		r.nodes(3)
		r.disconnect("n2")
		r.pass(50 * time.Minute)
		if err := r.end(); err != nil {
			r.Fatal(err)
		}
		r.run()
		r.pass(59 * time.Minute)
		r.same("before an hour of the new leader", r.did(), "[]")
		r.pass(2 * time.Minute)
		r.same("after it", r.did(), "[evict n2 at 6600]")
	})
}

func TestANodeWithoutReplicasIsLeftAlone(t *testing.T) {
	in(t, func(r *rig) {
		r.nodes(3)
		r.update(func(tx *store.Tx) error {
			return schema.Resources.Delete(tx, model.ResourceID{Definition: "vol-n2", Node: "n2"})
		})
		r.disconnect("n2")
		r.pass(3 * time.Hour)
		r.same("done", r.did(), "[]")
	})
}
