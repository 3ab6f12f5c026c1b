// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package hold_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent/hold"
	"github.com/holdfast-storage/holdfast/internal/agent/mount"
)

// changes are news of the table that a test gives.
func changes() (chan struct{}, func(*hold.Config)) {
	ch := make(chan struct{}, 1)
	return ch, func(c *hold.Config) { c.Changes = ch }
}

// notice tells the Set that the table has changed, and returns when nothing goes on by itself any more.
func notice(ch chan struct{}) {
	ch <- struct{}{}
	synctest.Wait()
}

func TestLostMountIsNotReplacedUnderItsWriters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ch, with := changes()
		r := start(t, newWorld(), with)
		defer r.stop()
		r.get(pool, req("a"))
		r.use(nas, shell) // He has a file open, and goes on with it.
		r.lose(nas)
		notice(ch)
		st := r.want("p", hold.StateLost, "a")
		if st.Holds[0].Broken == "" || r.mounted(nas) != 0 || r.happened(hold.LostEvent) != 2 || len(st.Blockers) != 1 {
			t.Errorf("status %+v", st)
		}
		if _, err := r.Acquire(context.Background(), pool, req("b")); !hold.IsKind(err, hold.Lost) {
			t.Errorf("acquire: %v", err)
		}
		r.use(nas)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		// Nobody has anything open any more, so the holder can have a new one.
		if st = r.want("p", hold.Ready, "a"); st.Holds[0].Broken != "" || r.mounted(nas) != 1 || r.happened(hold.Regained) != 1 {
			t.Errorf("status %+v", st)
		}
	})
}

func TestLostMountIsReplacedForReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ch, with := changes()
		r := start(t, newWorld(), with)
		defer r.stop()
		ro := req("a")
		ro.Mode = hold.ReadOnly
		r.get(pool, ro)
		r.use(nas, shell)
		r.lose(nas)
		notice(ch)
		r.want("p", hold.Ready, "a")
		if r.mounted(nas) != 1 {
			t.Error("it is not mounted")
		}
		r.use(nas)
	})
}

func TestLostMountOfADesiredPoolIsMountedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ch, with := changes()
		r := start(t, newWorld(), with)
		defer r.stop()
		always := pool
		always.Residency = hold.Always
		if err := r.Ensure(context.Background(), always); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		r.lose(nas)
		notice(ch)
		r.want("p", hold.Ready)
		if r.mounted(nas) != 1 {
			t.Error("it is not mounted")
		}
		if err := r.Forget(context.Background(), "p"); err != nil {
			t.Error(err)
		}
	})
}

func TestLossIsNoticedWithoutNewsOfTheTable(t *testing.T) {
	bubble(t, func(r *rig) {
		r.get(pool, req("a"))
		r.lose(nas)
		time.Sleep(time.Minute)
		synctest.Wait()
		r.want("p", hold.Ready, "a")
		if r.mounted(nas) != 1 || r.happened(hold.LostEvent) != 1 {
			t.Error("it was not noticed")
		}
	}, func(c *hold.Config) { c.Limits.CheckEvery = time.Minute })
}

func TestReplacedFileSystemIsNotGivenToThoseWhoHoldTheOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ch, with := changes()
		w := newWorld()
		w.uuids[nas] = "1"
		r := start(t, w, with)
		defer r.stop()
		r.get(pool, req("a"))
		w.uuids[nas] = "2" // The export was made anew.
		r.lose(nas)
		notice(ch)
		st := r.want("p", hold.Absent, "a")
		if r.mounted(nas) != 0 || st.Identity != "1" || st.LastError == "" {
			t.Errorf("status %+v", st)
		}
		if _, err := r.Acquire(context.Background(), pool, req("b")); !hold.IsKind(err, hold.WrongIdentity) {
			t.Errorf("acquire: %v", err)
		}
		r.give("a")
		r.get(pool, req("b")) // He begins with what there is.
	})
}

func TestRemountBehindOurBackIsVerifiedAndTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ch, with := changes()
		r := start(t, newWorld(), with)
		defer r.stop()
		first := r.get(pool, req("a"))
		r.use(nas, shell)
		r.lose(nas)
		r.remount(nas) // The same file system: who has files open, has the same ones.
		notice(ch)
		st := r.want("p", hold.Ready, "a")
		if st.Mount.Same(first.Mount) || r.mounted(nas) != 1 || r.happened(hold.Adopted) != 1 {
			t.Errorf("status %+v", st)
		}
		r.use(nas)
		if td := r.give("a"); td.Outcome != hold.Done {
			t.Errorf("teardown %v", td)
		}
	})
}

func TestForeignMountIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ch, with := changes()
		r := start(t, newWorld(), with)
		defer r.stop()
		r.cover(nas)
		_, err := r.Acquire(context.Background(), pool, req("a"))
		if !hold.IsKind(err, hold.Foreign) {
			t.Errorf("acquire: %v", err)
		}
		if st := r.want("p", hold.StateForeign); st.Found == nil || st.Found.Source != "foreign" || r.mounted(nas) != 1 {
			t.Errorf("status %+v", st)
		}
		r.lose(nas)
		notice(ch)
		r.get(pool, req("a"))
		r.cover(nas) // On top of ours.
		notice(ch)
		r.want("p", hold.StateForeign, "a")
		if td := r.give("a"); td.Outcome != hold.Deferred || r.mounted(nas) != 2 {
			t.Errorf("teardown %v, %d mounts", td, r.mounted(nas))
		}
		r.lose(nas)
		notice(ch)
		r.want("p", hold.Absent)
		if r.mounted(nas) != 0 || r.happened(hold.ForeignEvent) != 2 {
			t.Errorf("%d mounts, told %d times", r.mounted(nas), r.happened(hold.ForeignEvent))
		}
	})
}

func TestMountOfTheOperatorIsNeitherMountedNorUnmounted(t *testing.T) {
	src := mount.Source{Kind: mount.Existing, Path: "/srv/shared"}
	shared := hold.Pool{ID: "s", Spec: mount.Spec{Source: src, Device: "nas9:/x"}}
	synctest.Test(t, func(t *testing.T) {
		ch, with := changes()
		r := start(t, newWorld(), with)
		defer r.stop()
		if _, err := r.Acquire(context.Background(), shared, req("a")); !hold.IsKind(err, hold.MountFailed) {
			t.Errorf("nothing is mounted there: %v", err)
		}
		r.mu.Lock()
		e := r.put(src.Path, "ext4", "/dev/sdz", 50, "")
		r.mu.Unlock()
		if _, err := r.Acquire(context.Background(), shared, req("a")); !hold.IsKind(err, hold.Foreign) {
			t.Errorf("something else is mounted there: %v", err)
		}
		r.mu.Lock()
		r.take(e)
		e = r.put(src.Path, "nfs4", "nas9:/x", 51, "")
		r.mu.Unlock()
		notice(ch)
		h, err := r.Acquire(context.Background(), shared, req("a"))
		if err != nil || h.Path() != src.Path {
			t.Errorf("hold %+v, %v", h, err)
		}
		td, err := r.Release(context.Background(), "a")
		if err != nil || td.Outcome != hold.Done || td.Reason == "" || r.mounted(src) != 1 {
			t.Errorf("teardown %v, %v", td, err)
		}
		r.get(shared, req("b"))
		r.mu.Lock()
		r.take(e)
		r.mu.Unlock()
		notice(ch)
		st, err := r.Inspect(context.Background(), "s")
		if err != nil || st.Mounted || st.LastError == "" {
			t.Errorf("status %+v, %v", st, err)
		}
		r.unhold(src, "b")
		if td, err := r.Release(context.Background(), "b"); err != nil || td.Outcome != hold.Done {
			t.Errorf("teardown %v, %v", td, err)
		}
	})
}
