// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package pooltest

import (
	"errors"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
)

// Suite is the test of a driver. Its fields say what the driver is like.
type Suite struct {
	// New makes an empty pool of at least 512 MiB. What it needs to clean up it leaves to t.Cleanup, which runs after the suite has
	// removed all volumes.
	New func(t *testing.T) Fixture

	Granularity int64 // What sizes are rounded up to.
	Thin        bool  // Volumes may be larger than the pool.
	RealDevices bool  // Devices can be read and written.
	Shares      bool  // Snapshots and clones share room with what they were made from.
	Encrypted   bool  // What was never written reads as anything, not as zeros, and the pool takes room for headers.

	// Slow says that each step takes long where the driver is tested. Tests of many things then have fewer, and what no test is about is not looked at.
	Slow bool
}

// Fixture is a pool under test.
type Fixture struct {
	// Open returns a driver of the pool as an agent that has just started has it: it knows only what lies on the host.
	Open func(t *testing.T) pool.Driver

	// Uses are the ways to use the device of a volume. Each returns what ends the use.
	Uses map[pool.HolderKind]func(t *testing.T, id pool.ID, device string) (release func())

	// Fill gives a volume a content that is known by a label, and Label tells which one it has. Nil: the devices are real, and the suite writes and reads them.
	Fill  func(t *testing.T, id pool.ID, label string)
	Label func(t *testing.T, id pool.ID) string

	// Foreign puts things of others into the pool, with names as like to ours as possible, and returns a check that they are untouched. Nil: the
	// pool cannot have such things.
	Foreign func(t *testing.T) (untouched func(t *testing.T))
}

// Run runs the tests, each on a pool of its own.
func (s Suite) Run(t *testing.T) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, *subject)
	}{
		{"VolumeIsNewUntilFinished", testNewUntilFinished},
		{"NewVolumeOfAnotherSizeIsReplaced", testNewIsReplaced},
		{"FinishedVolumeIsNotCreatedAgain", testFinishedStays},
		{"SizesAreRoundedUp", testSizes},
		{"ImpossibleSizesAreRefused", testImpossibleSizes},
		{"OpenIsRepeatable", testOpen},
		{"ContentStaysThroughCloseAndGrow", testContent},
		{"AbsentMeansDone", testAbsent},
		{"MissingVolumeIsNotFound", testNotFound},
		{"GrowNeverShrinks", testGrow},
		{"FullPoolRefusesAndLeavesNothing", testNoSpace},
		{"SpaceIsAccounted", testSpace},
		{"AllocatedIsWhatIsTaken", testAllocated},
		{"InvalidNamesAreRefused", testInvalidNames},
		{"LongestNamesWork", testLongestNames},
		{"CaseOfNamesDoesNotMatter", testCase},
		{"UsedVolumeIsNotTouched", testInUse},
		{"UsedNewVolumeIsNotReplaced", testNewInUse},
		{"ForeignThingsAreLeftAlone", testForeign},
		{"WorkGoesOnAfterACrash", testCrash},
		{"CancelledCallDoesNothing", testCancelled},
		{"ManyVolumesAtOnce", testMany},
		{"OneVolumeByManyAtOnce", testContended},
		{"SnapshotIsNewUntilFinished", testSnapshotNew},
		{"SnapshotKeepsItsMoment", testSnapshotMoment},
		{"SnapshotsGoInAnyOrder", testSnapshotOrder},
		{"SnapshotNamesAreChecked", testSnapshotNames},
		{"SnapshotTakesRoomOfItsOwn", testSnapshotSpace},
		{"SnapshotsOfAMomentAreTold", testSuspend},
		{"SnapshotsAreOfOneMoment", testMoment},
		{"CloneHasTheContentOfItsSource", testClone},
		{"CloneIsNewUntilFinished", testCloneNew},
		{"SizesOfClonesAreRoundedUp", testCloneSizes},
		{"ManyClonesAtOnce", testManyClones},
		{"RollBackGivesTheContentBack", testRollBack},
		{"RollBackIsDoneOnce", testRollBackOnce},
		{"CopiesGoOnAfterACrash", testCopyCrash},
		{"CancelledCopyLeavesNothing", testCopyCancelled},
	} {
		t.Run(test.name, func(t *testing.T) {
			u := &subject{Suite: s, Fixture: s.New(t)}
			u.d = u.Open(t)
			test.run(t, u)
			u.clear(t)
		})
	}
}

// MiB is the size that most volumes of the suite have a few of.
const MiB = 1 << 20

// few is how many things a test of many has at once.
func (s Suite) few(many int) int {
	if s.Slow {
		return min(6, many)
	}
	return many
}

// subject is a pool in one test.
type subject struct {
	Suite
	Fixture
	d pool.Driver
}

// restart makes the driver forget all that it knows.
func (u *subject) restart(t *testing.T) {
	t.Helper()
	u.d = u.Open(t)
}

// clear removes all volumes and looks whether they are gone.
func (u *subject) clear(t *testing.T) {
	t.Helper()
	volumes, err := u.d.List(t.Context())
	if err != nil {
		t.Fatalf("list at the end: %v", err)
	}
	for _, v := range volumes {
		if found, ok, err := u.again(t, v); err != nil || !ok || found != v {
			t.Errorf("at the end: list says %+v and find says %+v, %t, %v", v, found, ok, err)
		}
		if err := u.d.Remove(t.Context(), v.ID); err != nil {
			t.Errorf("remove %s at the end: %v", v.ID, err)
		}
	}
	if d, ok := u.d.(pool.Snapshotter); ok { // After the volumes, so that they are seen to outlive them.
		for _, s := range u.snapshots(t) {
			if err := d.RemoveSnapshot(t.Context(), s.ID); err != nil {
				t.Errorf("remove %s at the end: %v", s.ID, err)
			}
		}
		if left := u.snapshots(t); len(left) > 0 {
			t.Errorf("left at the end: %+v", left)
		}
	}
	if u.Slow && len(volumes) == 0 {
		return
	}
	if left := u.list(t); len(left) > 0 {
		t.Errorf("left at the end: %+v", left)
	}
}

// again looks a volume up that was listed, unless that is slow.
func (u *subject) again(t *testing.T, listed pool.Volume) (pool.Volume, bool, error) {
	t.Helper()
	if u.Slow {
		return listed, true, nil
	}
	return pool.Find(t.Context(), u.d, listed.ID)
}

func (u *subject) list(t *testing.T) []pool.Volume {
	t.Helper()
	volumes, err := u.d.List(t.Context())
	if err != nil {
		t.Fatalf("list: %v", err)
	}
	return volumes
}

// find returns a volume that must exist, and looks whether Find and List agree.
func (u *subject) find(t *testing.T, id pool.ID) pool.Volume {
	t.Helper()
	found, ok, err := pool.Find(t.Context(), u.d, id)
	if err != nil || !ok {
		t.Fatalf("find %s: %t, %v", id, ok, err)
	}
	if u.Slow {
		return u.checked(t, found)
	}
	listed, ok, err := pool.Find(t.Context(), struct{ pool.Driver }{u.d}, id)
	if err != nil || !ok {
		t.Fatalf("find %s in the list: %t, %v", id, ok, err)
	}
	if found != listed {
		t.Errorf("find says %+v and list says %+v", found, listed)
	}
	if found.ID != id.Fold() {
		t.Errorf("find %s returned %s", id, found.ID)
	}
	return u.checked(t, found)
}

// checked looks whether a volume is one that the pool can have.
func (u *subject) checked(t *testing.T, found pool.Volume) pool.Volume {
	t.Helper()
	if found.Granularity != u.Granularity || found.Size%u.Granularity != 0 {
		t.Errorf("%+v does not have the granularity %d", found, u.Granularity)
	}
	return found
}

func (u *subject) absent(t *testing.T, id pool.ID) {
	t.Helper()
	if v, ok, err := pool.Find(t.Context(), u.d, id); ok || err != nil {
		t.Errorf("%s should be absent: %+v, %v", id, v, err)
	}
}

func (u *subject) create(t *testing.T, id pool.ID, size int64) {
	t.Helper()
	if err := u.d.Create(t.Context(), id, size); err != nil {
		t.Fatalf("create %s of %d bytes: %v", id, size, err)
	}
}

func (u *subject) finish(t *testing.T, id pool.ID) {
	t.Helper()
	if err := u.d.Finish(t.Context(), id); err != nil {
		t.Fatalf("finish %s: %v", id, err)
	}
}

func (u *subject) open(t *testing.T, id pool.ID) pool.Device {
	t.Helper()
	d, err := u.d.Open(t.Context(), id)
	if err != nil {
		t.Fatalf("open %s: %v", id, err)
	}
	if u.Slow {
		return d
	}
	if v := u.find(t, id); v.Device != d {
		t.Errorf("open %s returned %+v, and the pool says %+v", id, d, v.Device)
	}
	return d
}

func (u *subject) close(t *testing.T, id pool.ID) {
	t.Helper()
	if err := u.d.Close(t.Context(), id); err != nil {
		t.Fatalf("close %s: %v", id, err)
	}
	if v, _, err := pool.Find(t.Context(), u.d, id); err != nil || v.Device != (pool.Device{}) {
		t.Errorf("%s is closed and has device %+v, %v", id, v.Device, err)
	}
}

func (u *subject) grow(t *testing.T, id pool.ID, size int64) {
	t.Helper()
	if err := u.d.Grow(t.Context(), id, size); err != nil {
		t.Fatalf("grow %s to %d bytes: %v", id, size, err)
	}
}

func (u *subject) remove(t *testing.T, id pool.ID) {
	t.Helper()
	if err := u.d.Remove(t.Context(), id); err != nil {
		t.Fatalf("remove %s: %v", id, err)
	}
	if !u.Slow { // Otherwise it is seen at the end of the test.
		u.absent(t, id)
	}
}

// wantError looks whether an error is of the type E and returns it.
func wantError[E error](t *testing.T, what string, err error) E {
	t.Helper()
	e, ok := errors.AsType[E](err)
	if !ok {
		t.Fatalf("%s: got %v, want a %T", what, err, e)
	}
	return e
}
