// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/agent/fakecontroller"
)

func removeUnknown(id string, volumes ...string) *agentpb.Ask {
	return &agentpb.Ask{Id: id, Question: &agentpb.Ask_RemoveUnknown{RemoveUnknown: &agentpb.RemoveUnknown{Pool: "pool1", Volumes: volumes}}}
}

func TestUnknownVolumesAreRemovedOnlyWhenTheyAreNamed(t *testing.T) {
	inBubble(t, func(b *bench) {
		for _, name := range []string{"a", "b", "used"} {
			b.PutVolume("pool1", name, 0, mib)
		}
		b.Use("used", "qemu")
		s := b.serve(resource("r1", "pool1", 1))
		b.awaitReady("r1", 1)
		b.await("the unknown ones", func(n fakecontroller.Node) bool { return len(n.Pools["pool1"].GetUnknownVolumes()) == 3 })
		for id, c := range map[string]struct {
			volumes []string
			removed string
			why     string
		}{
			"named":          {[]string{"a_00000"}, "a_00000", ""},
			"already gone":   {[]string{"a_00000"}, "a_00000", ""},
			"assigned":       {[]string{"r1_00000"}, "", "it is assigned to this node"},
			"not ours":       {[]string{"../etc/passwd", "lost+found"}, "", "no volume of Holdfast has such a name"},
			"in use, others": {[]string{"used_00000", "b_00000"}, "b_00000", "used/0"},
		} {
			b.send(s, &agentpb.Assignments{Asks: []*agentpb.Ask{removeUnknown(id, c.volumes...)}})
			a := b.answer(id)
			if got := strings.Join(a.GetRemoved(), " "); got != c.removed {
				t.Errorf("%s: removed %q, want %q", id, got, c.removed)
			}
			if got := a.GetFailure().GetMessage(); !strings.Contains(got, c.why) || (a.GetFailure() != nil) != (c.why != "") {
				t.Errorf("%s: failure %q, want %q", id, got, c.why)
			}
		}
		b.wantVolumes("pool1/r1/0 pool1/used/0")
		b.await("the one that stays", func(n fakecontroller.Node) bool {
			return slices.Equal(n.Pools["pool1"].GetUnknownVolumes(), []string{"used_00000"})
		})
	})
}

// TestAVolumeThatIsAssignedWhileItIsRemovedIsMadeAnew assigns a resource while the unknown
// volume of its name is on its way out.
func TestAVolumeThatIsAssignedWhileItIsRemovedIsMadeAnew(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.PutVolume("pool1", "r2", 0, 7*mib)
		s := b.serve(resource("r1", "pool1", 1))
		b.awaitReady("r1", 1)
		hold := b.HoldPool("pool1")
		b.send(s, &agentpb.Assignments{Asks: []*agentpb.Ask{removeUnknown("ask", "r2_00000")}})
		synctest.Wait()
		apply := b.HoldApplies("r2")
		b.send(s, increment("1", "2", resource("r2", "pool1", 2)))
		soon, cancel := context.WithTimeout(b.ctx, time.Second)
		defer cancel()
		if apply.Wait(soon) == nil {
			t.Error("the resource is worked on while the volume of its name is being removed")
		}
		apply.Release()
		hold.Release()
		if a := b.answer("ask"); a.GetFailure() != nil {
			t.Errorf("answer: %v", a)
		}
		if st := b.awaitReady("r2", 2); st.GetVolumes()[0].GetUsable() != mib {
			t.Errorf("the new volume has %d bytes: it is the one that was to be removed", st.GetVolumes()[0].GetUsable())
		}
		b.wantVolumes("pool1/r1/0 pool1/r2/0")
	})
}

func TestWhatAssignedVolumesTakeIsToldApart(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.PutVolume("pool1", "stray", 0, 3*mib)
		b.PutVolume("pool1", "large", 0, 5*mib) // larger than it is assigned
		b.serve(resource("r1", "pool1", 1), resource("large", "pool1", 1))
		b.awaitReady("large", 1)
		b.awaitReady("r1", 1)
		b.await("the figures", func(n fakecontroller.Node) bool {
			p := n.Pools["pool1"]
			return p.GetAllocated() == 9*mib && p.GetAssignedAllocated() == 2*mib
		})
	})
}
