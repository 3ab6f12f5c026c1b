// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package stack_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/pooltest"
	"github.com/holdfast-storage/holdfast/internal/agent/stack"
)

var (
	ready   = &pool.Volume{Size: 8 * mib, Granularity: 4096, Device: pool.Device{Path: "/dev/x", Size: 8 * mib}}
	closed  = &pool.Volume{Size: 8 * mib, Granularity: 4096}
	unready = &pool.Volume{Size: 8 * mib, Granularity: 4096, New: true}
	users   = []pool.Holder{{Kind: pool.Mounted, Name: "/mnt", PID: 7}}

	complete = &pool.Snapshot{Size: 8 * mib}
	partial  = &pool.Snapshot{Size: 8 * mib, New: true}
)

const (
	cloneStep    = "clone snapshot src/1@s to volume db/0 in pool p"
	rollBackStep = "roll volume db/0 in pool p back to snapshot s, by t2"
	takeStep     = "take snapshot s of db, volumes 0, 1"
)

// copyWish is a wish for two volumes, changed by change, and perhaps for a snapshot.
func copyWish(change func(*stack.VolumeWant), snapshots ...stack.SnapshotWant) stack.Want {
	w := stack.Want{Resource: "db", Snapshots: snapshots}
	for i := range 2 {
		w.Volumes = append(w.Volumes, stack.VolumeWant{Number: i, Pool: "p", Size: 8 * mib})
	}
	if change != nil {
		change(&w.Volumes[0])
	}
	return w
}

func snapshotWish(change func(*stack.SnapshotWant)) stack.SnapshotWant {
	s := stack.SnapshotWant{Name: "s", Volumes: []stack.SnapshotVolume{{Number: 0, Pool: "p"}, {Number: 1, Pool: "p"}}}
	if change != nil {
		change(&s)
	}
	return s
}

func restore(v *stack.VolumeWant) {
	v.Source = &stack.Source{Resource: "src", Volume: 1, Snapshot: "s"}
	v.Filesystem = &stack.Filesystem{Type: "ext4"} // Never made on what was restored.
}

func rollBack(v *stack.VolumeWant) { v.RollBack = &stack.RollBack{Snapshot: "s", Token: "t2"} }

func TestPlanOfCopies(t *testing.T) {
	rolledBack := *closed
	rolledBack.RolledBack = "t2"
	earlier := *ready
	earlier.RolledBack = "t1"
	existing := func(s *stack.SnapshotWant) { s.Existing = true }
	gone := func(s *stack.SnapshotWant) { s.Destroy = true }
	other := stack.There{Volume: ready}
	for _, tc := range []struct {
		name  string
		want  stack.Want
		there []stack.There
		steps []string
	}{
		{"restore", copyWish(restore), []stack.There{{}, other}, []string{cloneStep}},
		{"restore over what is new", copyWish(restore), []stack.There{{Volume: unready}, other}, []string{cloneStep}},
		{"restored", copyWish(restore), []stack.There{{Volume: closed}, other}, []string{"open volume db/0 in pool p"}},
		{"restored and open", copyWish(restore), []stack.There{{Volume: ready}, other}, nil},
		{"restore goes on", copyWish(restore), []stack.There{{Volume: unready, Job: cloneStep}, other}, nil},
		{"restore goes on, the other one is made", copyWish(restore), []stack.There{{Job: cloneStep}, {Volume: closed}}, []string{"open volume db/1 in pool p"}},
		{"restore is just being finished", copyWish(restore), []stack.There{{Volume: closed, Job: cloneStep}, other}, nil},
		{"restore failed", copyWish(restore), []stack.There{{Job: cloneStep, Failed: true}, other}, []string{cloneStep + ", which failed"}},
		{
			"restore goes on from another source", copyWish(restore),
			[]stack.There{{Volume: unready, Job: "clone x"}, other},
			[]string{"break off: clone x", cloneStep},
		},
		{
			"restore goes on and is not wanted", copyWish(nil),
			[]stack.There{{Volume: unready, Job: cloneStep}, other},
			[]string{"break off: " + cloneStep, "create volume db/0 of 8388608 bytes in pool p", "open volume db/0 in pool p", "finish volume db/0 in pool p"},
		},
		{
			"restore goes on and is to go", copyWish(func(v *stack.VolumeWant) { v.Destroy = true }),
			[]stack.There{{Volume: unready, Job: cloneStep}, other},
			[]string{"break off: " + cloneStep, "remove volume db/0 in pool p"},
		},
		{
			"restore failed and is to go", copyWish(func(v *stack.VolumeWant) { v.Destroy = true }),
			[]stack.There{{Job: cloneStep, Failed: true}, other},
			[]string{"forget the failure: " + cloneStep},
		},
		{"roll back", copyWish(rollBack), []stack.There{{Volume: &earlier}, other}, []string{rollBackStep}},
		{"roll-back goes on", copyWish(rollBack), []stack.There{{Volume: closed, Job: rollBackStep}, other}, nil},
		{"rolled back", copyWish(rollBack), []stack.There{{Volume: &rolledBack}, other}, []string{"open volume db/0 in pool p"}},
		{"rolled back and used", copyWish(rollBack), []stack.There{{Volume: &rolledBack, Holders: users}, other}, []string{"open volume db/0 in pool p"}},
		{"roll back while used", copyWish(rollBack), []stack.There{{Volume: ready, Holders: users}, other}, []string{"roll back db"}},
		{
			"grow, then roll back", copyWish(func(v *stack.VolumeWant) { rollBack(v); v.Size = 9 * mib }),
			[]stack.There{{Volume: ready}, other},
			[]string{"grow volume db/0 from 8388608 to 9437184 bytes in pool p", rollBackStep},
		},
		{
			"roll back both, one of them used", func() stack.Want { w := copyWish(rollBack); rollBack(&w.Volumes[1]); return w }(),
			[]stack.There{{Volume: ready}, {Volume: ready, Holders: users}},
			[]string{"roll back db"},
		},
		{"take", copyWish(nil, snapshotWish(nil)), []stack.There{other, other, {Parts: []*pool.Snapshot{nil, nil}}}, []string{takeStep}},
		{"take while used", copyWish(nil, snapshotWish(nil)), []stack.There{other, {Volume: ready, Holders: users}, {Parts: []*pool.Snapshot{nil, nil}}}, []string{takeStep}},
		{"taken in part", copyWish(nil, snapshotWish(nil)), []stack.There{other, other, {Parts: []*pool.Snapshot{complete, partial}}}, []string{takeStep}},
		{"taken", copyWish(nil, snapshotWish(existing)), []stack.There{other, other, {Parts: []*pool.Snapshot{complete, complete}}}, nil},
		{"taking goes on", copyWish(nil, snapshotWish(nil)), []stack.There{other, other, {Parts: []*pool.Snapshot{complete, partial}, Job: takeStep}}, nil},
		{"taking failed", copyWish(nil, snapshotWish(nil)), []stack.There{other, other, {Parts: []*pool.Snapshot{nil, nil}, Job: takeStep, Failed: true}}, []string{takeStep + ", which failed"}},
		{
			"take after the volume was made", copyWish(nil, snapshotWish(nil)),
			[]stack.There{other, {}, {Parts: []*pool.Snapshot{nil, nil}}},
			[]string{"create volume db/1 of 8388608 bytes in pool p", "open volume db/1 in pool p", "finish volume db/1 in pool p"},
		},
		{"take after the roll-back", copyWish(rollBack, snapshotWish(nil)), []stack.There{other, other, {Parts: []*pool.Snapshot{nil, nil}}}, []string{rollBackStep}},
		{
			"snapshot is to go", copyWish(nil, snapshotWish(gone)),
			[]stack.There{other, other, {Parts: []*pool.Snapshot{nil, partial}, Job: takeStep}},
			[]string{"break off: " + takeStep, "remove snapshot s of volume db/1 in pool p"},
		},
		{"snapshot is gone", copyWish(nil, snapshotWish(gone)), []stack.There{other, other, {Parts: []*pool.Snapshot{nil, nil}}}, nil},
		{
			"replica is to go, snapshots stay", func() stack.Want { w := copyWish(nil, snapshotWish(nil)); w.Destroy = true; return w }(),
			[]stack.There{{}, {Volume: closed}, {Parts: []*pool.Snapshot{complete, complete}}},
			[]string{"close volume db/1 in pool p", "remove volume db/1 in pool p"},
		},
		{
			"all is to go", func() stack.Want { w := copyWish(nil, snapshotWish(gone)); w.Destroy = true; return w }(),
			[]stack.There{{}, {Volume: closed}, {Parts: []*pool.Snapshot{complete, nil}}},
			[]string{"remove snapshot s of volume db/0 in pool p", "close volume db/1 in pool p", "remove volume db/1 in pool p"},
		},
		{"snapshot without volumes any more", stack.Want{Resource: "db", Snapshots: []stack.SnapshotWant{snapshotWish(existing)}}, []stack.There{{Parts: []*pool.Snapshot{complete, complete}}}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := stack.Plan(pooltest.NewMemory(pooltest.MemoryConfig{}), tc.want, tc.there)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.steps, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCopiesThatCannotBeAreRefused(t *testing.T) {
	existing := func(s *stack.SnapshotWant) { s.Existing = true }
	parts := stack.There{Parts: []*pool.Snapshot{complete, nil}}
	other := stack.There{Volume: ready}
	able := pool.Driver(pooltest.NewMemory(pooltest.MemoryConfig{}))
	bare := pool.Driver(struct{ pool.Driver }{able})
	for _, tc := range []struct {
		name  string
		d     pool.Driver
		want  stack.Want
		there []stack.There
		text  string
	}{
		{"lost snapshot", able, copyWish(nil, snapshotWish(existing)), []stack.There{other, other, parts}, "snapshot s of volume db/1 is not in pool p any more"},
		{"snapshot of a volume that goes", able, copyWish(func(v *stack.VolumeWant) { v.Destroy = true }, snapshotWish(nil)), []stack.There{other, other, parts}, "pool p has no volume db/0"},
		{"snapshot of a volume that is not named", able, stack.Want{Resource: "db", Snapshots: []stack.SnapshotWant{snapshotWish(nil)}}, []stack.There{parts}, "pool p has no volume db/0"},
		{"snapshot of no volume", able, copyWish(nil, stack.SnapshotWant{Name: "s"}), []stack.There{other, other, {}}, "names no volume"},
		{"snapshot of no volume that existed", able, copyWish(nil, stack.SnapshotWant{Name: "s", Existing: true}), []stack.There{other, other, {}}, "names no volume"},
		{"snapshot named twice", able, copyWish(nil, snapshotWish(nil), snapshotWish(func(s *stack.SnapshotWant) { s.Name = "S" })), []stack.There{other, other, parts, parts}, "named twice"},
		{
			"volume named twice", able, copyWish(nil, stack.SnapshotWant{Name: "s", Volumes: make([]stack.SnapshotVolume, 2)}),
			[]stack.There{other, other, parts},
			"names volume 0 twice",
		},
		{"roll back to what goes", able, copyWish(rollBack, snapshotWish(func(s *stack.SnapshotWant) { s.Destroy = true })), []stack.There{other, other, parts}, "is to go, and to be rolled back to"},
		{"roll back without a token", able, copyWish(func(v *stack.VolumeWant) { v.RollBack = &stack.RollBack{Snapshot: "s"} }), []stack.There{other, other}, "use 1 to 128"},
		{"restored volume that was lost", able, copyWish(func(v *stack.VolumeWant) { restore(v); v.Existing = true }), []stack.There{{Volume: unready}, other}, "nobody was to remove it"},
		{"pool without clones", bare, copyWish(restore), []stack.There{{}, other}, "pool p cannot make clones"},
		{"pool without snapshots", bare, copyWish(nil, snapshotWish(nil)), []stack.There{other, other, {Parts: []*pool.Snapshot{nil, nil}}}, "pool p cannot take snapshots"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := stack.Plan(tc.d, tc.want, tc.there)
			got = slices.DeleteFunc(got, func(step string) bool { return strings.Contains(step, " volume db/0 in pool p") }) // as it is to go
			if err == nil || len(got) > 0 || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("got %q, %v, want an error with %q", got, err, tc.text)
			}
		})
	}
}
