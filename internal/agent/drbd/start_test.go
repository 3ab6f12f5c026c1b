// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package drbd_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/agent/drbd"
	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/stack"
	"github.com/holdfast-storage/holdfast/internal/command"
)

// forced tells whether alpha used force since it was last asked.
func (r *rig) forced() bool { return r.called("alpha", "drbdsetup primary r0 --force") }

// TestForceSparesWhatHadContent: a disk can be Inconsistent in the midst of a sync, and its data is still better than none.
func TestForceSparesWhatHadContent(t *testing.T) {
	r := newRig(t)
	r.change("alpha", func(w *drbd.Want) { w.Volumes[0].Start = drbd.StartHere })
	line := "drbdsetup get-gi r0 1 0"
	r.cluster.Node("alpha").Answer(line, -1, "9FB5DD639665B69A:0000000000000000:0000000000000000:0000000000000000:0:0:0:0:1:0:0:0:0:0:0:0\n", "", 0)
	r.apply("alpha", "bravo", "charlie", "alpha")
	if r.forced() {
		t.Error("a disk with content was started")
	}
}

// TestForceIsNotUsedWhileTheResourceIs: the role that force gives is taken back after it, and with it a user's.
func TestForceIsNotUsedWhileTheResourceIs(t *testing.T) {
	r := newRig(t)
	r.up()
	r.cluster.Node("alpha").Use(device, pool.Holder{Kind: pool.Mounted, Name: "/srv"})
	for _, name := range []string{"alpha", "bravo"} {
		r.create(name, 1, second, 16*mib)
	}
	r.change("alpha", func(w *drbd.Want) {
		w.Volumes = append(w.Volumes, drbd.Volume{Number: 1, Minor: 1001, Disk: second, Start: drbd.StartHere})
	})
	if _, err := r.try("alpha"); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("%v", err)
	}
	if r.forced() {
		t.Error("force was used")
	}
	r.cluster.Node("alpha").Free(device)
	r.apply("alpha")
	if !r.forced() {
		t.Error("it was never started")
	}
}

// TestForceStartsNoOtherVolume: it makes all volumes of a resource good that are not.
func TestForceStartsNoOtherVolume(t *testing.T) {
	r := newRig(t)
	r.create("alpha", 1, second, 16*mib)
	r.change("alpha", func(w *drbd.Want) {
		w.Volumes[0].Start = drbd.StartNone // Its content is to come from bravo.
		w.Volumes = append(w.Volumes, drbd.Volume{Number: 1, Minor: 1001, Disk: second, Start: drbd.StartHere})
	})
	if _, err := r.try("alpha"); err == nil || !strings.Contains(err.Error(), "would be started with it") {
		t.Errorf("%v", err)
	}
	if r.forced() {
		t.Error("force was used")
	}
}

// TestLookCostsOneCommandWhereNothingChanged: a host with a thousand replicas looks at all of them again and again.
func TestLookCostsOneCommandWhereNothingChanged(t *testing.T) {
	r := newRig(t)
	r.up()
	n := r.cluster.Node("bravo")
	var lines []string
	counted := drbd.New(drbd.Settings{
		Folder: n.Folder, Users: n.Users, Notes: t.TempDir(),
		Runner: command.RunnerFunc(func(ctx context.Context, c command.Command) (command.Result, error) {
			lines = append(lines, c.Program+" "+strings.Join(c.Args, " "))
			return n.Run(ctx, c)
		}),
	})
	for range 3 {
		lines = nil
		if _, err := stack.Converge(t.Context(), counted, r.wants["bravo"]); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(lines, []string{"drbdsetup status r0 --json"}) {
		t.Errorf("%v", lines)
	}
	// Someone has changed something by hand.
	n.Restart()
	lines = nil
	if _, err := stack.Converge(t.Context(), counted, r.wants["bravo"]); err != nil || !slices.Contains(lines, "drbdadm adjust r0") {
		t.Errorf("%v, %v", lines, err)
	}
}
