// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package drbd_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent/drbd"
	"github.com/holdfast-storage/holdfast/internal/agent/drbd/kernel"
	"github.com/holdfast-storage/holdfast/internal/agent/drbd/metadata"
)

func TestRealIOIsHeldBackAndGoesOn(t *testing.T) {
	r := three(t)
	alpha := r.nodes["alpha"]
	held, err := alpha.d.Suspend(t.Context(), r.state("alpha"), 30*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	wrote := make(chan error, 1)
	go func() { wrote <- r.write("alpha", 0, "s") }()
	select {
	case err := <-wrote:
		t.Errorf("a write went through: %v", err)
	case <-time.After(time.Second):
	}
	if whole, err := held.Resume(t.Context()); !whole || err != nil {
		t.Errorf("%v, %v", whole, err)
	}
	if err := <-wrote; err != nil {
		t.Error(err)
	}
	// And once more, with nobody who resumes.
	held, err = alpha.d.Suspend(t.Context(), r.state("alpha"), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := r.write("alpha", 0, "t"); err != nil {
		t.Error(err)
	}
	t.Logf("the guard resumed after %s", time.Since(began).Round(10*time.Millisecond))
	r.until("alpha", "free", func(s kernel.Resource) bool { return len(s.Suspended) == 0 })
	if whole, err := held.Resume(t.Context()); whole || err != nil {
		t.Errorf("%v, %v", whole, err)
	}
}

func TestRealTwoPrimariesOnRequest(t *testing.T) {
	r := three(t)
	open := func(name string) (*os.File, error) {
		return os.OpenFile(r.nodes[name].device(0), os.O_RDWR, 0)
	}
	first, err := open("alpha")
	if err != nil {
		t.Fatal(err)
	}
	if second, err := open("bravo"); err == nil {
		_ = second.Close()
		t.Error("a second Primary that nobody asked for")
	}
	two := func(value string) {
		for _, n := range r.nodes {
			n.want.Net["allow-two-primaries"] = value
		}
	}
	two("yes")
	r.apply("alpha", "bravo", "charlie")
	second, err := open("bravo")
	if err != nil {
		t.Fatal(err)
	}
	two("no")
	if err := r.try("alpha"); err == nil || !strings.Contains(err.Error(), "end one of the uses first") {
		t.Errorf("%v", err)
	}
	_ = second.Close()
	_ = first.Close()
	r.apply("alpha", "bravo", "charlie")
}

func TestRealFailingDiskIsLeftAndTakenBack(t *testing.T) {
	r := three(t)
	if err := r.write("alpha", 0, "1"); err != nil {
		t.Fatal(err)
	}
	dm := r.group + "-alpha--0"
	table := r.run("dmsetup", "table", dm)
	swap := func(to string) {
		r.run("dmsetup", "suspend", "--nolockfs", "--noflush", dm)
		r.run("dmsetup", "load", dm, "--table", to)
		r.run("dmsetup", "resume", dm)
	}
	swap("0 " + strings.Fields(table)[1] + " error")
	if err := r.write("alpha", 0, "2"); err != nil {
		t.Errorf("the writer is told of the disk: %v", err)
	}
	r.until("alpha", "without its disk", func(s kernel.Resource) bool { return s.Devices[0].Disk == kernel.Diskless && !s.Devices[0].Client })
	for deadline := time.Now().Add(time.Minute); r.try("alpha") == nil; r.pause() { // It rests first, when it was attached a moment ago.
		if d := r.state("alpha").Devices[0]; d.Disk != kernel.Diskless || time.Now().After(deadline) {
			t.Fatalf("nothing is said of a disk that fails: %+v", d)
		}
	}
	if problems := drbd.Problems(r.state("alpha")); len(problems) == 0 {
		t.Error("nothing is said")
	}
	swap(strings.TrimSpace(table))
	r.apply("alpha")
	r.until("alpha", "up to date", upToDate(0))
	if got := r.read("alpha", 0); got != "2" {
		t.Errorf("alpha reads %s", got)
	}
}

func TestRealLostMetadataStopsThatVolume(t *testing.T) {
	r := three(t)
	bravo := r.nodes["bravo"]
	r.run("drbdsetup", "down", "r0-bravo")
	size := metadata.Backing(64*mib, room)
	f, err := os.OpenFile(bravo.want.Volumes[0].Disk, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt(make([]byte, 1<<20), size+(4<<20-size%(4<<20))%(4<<20)-1<<20) // The end, after LVM has rounded up.
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	err = r.try("bravo")
	if e := new(drbd.KernelError); !errors.As(err, &e) || e.Code != 119 {
		t.Errorf("%v", err)
	}
	if err := r.write("alpha", 0, "g"); err != nil {
		t.Errorf("the others do not go on: %v", err)
	}
}

func TestRealResourceThatWasTakenDownComesBack(t *testing.T) {
	r := three(t)
	r.run("drbdsetup", "down", "r0-alpha")
	if err := r.write("bravo", 0, "b"); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	r.apply("alpha")
	r.until("alpha", "up to date", upToDate(0))
	t.Logf("back after %s", time.Since(began).Round(10*time.Millisecond))
	if got := r.read("alpha", 0); got != "b" {
		t.Errorf("alpha reads %s", got)
	}
}

func TestRealDisksThatDifferAreSynced(t *testing.T) {
	r := newReal(t)
	r.generation = ""
	for _, name := range []string{"alpha", "bravo"} {
		r.create(r.nodes[name], 0, 64*mib)
	}
	r.wish(r.nodes["charlie"], drbd.Volume{Minor: r.nodes["charlie"].minor(0), Size: 64 * mib})
	r.nodes["alpha"].want.Volumes[0].Start = drbd.StartHere
	r.apply("alpha", "bravo", "charlie")
	r.until("bravo", "up to date", upToDate(0))
	if s := r.state("alpha"); s.Role != kernel.Secondary {
		t.Errorf("%+v", s)
	}
	if c := r.connection("bravo", "alpha"); c.PeerDevices[0].OutOfSync != 0 {
		t.Errorf("%+v", c)
	}
}

func TestRealReplicaAloneIsStarted(t *testing.T) {
	for _, start := range []drbd.Start{drbd.StartEqual, drbd.StartHere} {
		r := newReal(t)
		r.generation = ""
		n := r.nodes["alpha"]
		r.create(n, 0, 16*mib)
		n.want.Peers, n.want.Volumes[0].Start, n.want.Options = nil, start, nil
		r.apply("alpha")
		if !upToDate(0)(r.state("alpha")) {
			t.Errorf("start %d: %+v", start, r.state("alpha"))
		}
		r.clean()
	}
}

func TestRealManyResourcesComeUp(t *testing.T) {
	r := newReal(t)
	n := r.nodes["alpha"]
	const count = 10
	ctx := context.WithoutCancel(t.Context())
	t.Cleanup(func() {
		for i := range count {
			_ = r.client(ctx, n, i, true)
		}
	})
	began := time.Now()
	for i := range count {
		if err := r.client(t.Context(), n, i, false); err != nil {
			t.Fatal(err)
		}
	}
	up := time.Since(began)
	began = time.Now()
	for i := range count {
		if err := r.client(t.Context(), n, i, false); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("a client comes up in %s, and is looked at in %s", (up / count).Round(time.Millisecond), (time.Since(began) / count).Round(time.Millisecond))
}
