// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package hold_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/agent/hold"
	"github.com/holdfast-storage/holdfast/internal/agent/mount"
)

func TestFirstHolderMountsAndLastOneUnmounts(t *testing.T) {
	bubble(t, func(r *rig) {
		h := r.get(pool, hold.Request{ID: "a", Holder: hold.Holder{Kind: hold.Job, Name: "copy 1"}, Subpath: "tmpl/2"})
		if h.Path() != target(nas)+"/tmpl/2" || h.Mount.Target != target(nas) || h.Mode != hold.ReadWrite {
			t.Errorf("hold %+v", h)
		}
		r.get(pool, req("b"))
		r.want("p", hold.Ready, "a", "b")
		if td := r.give("a"); td.Outcome != hold.NotNeeded || td.Holders != 1 {
			t.Errorf("the first leaves: %v", td)
		}
		if td := r.give("b"); td.Outcome != hold.Done {
			t.Errorf("the last leaves: %v", td)
		}
		r.want("p", hold.Absent)
		if r.mounted(nas) != 0 || r.happened(hold.MountedEvent) != 1 || r.happened(hold.Unmounted) != 1 {
			t.Error("it is mounted, or was not mounted and unmounted once")
		}
	})
}

func TestHoldIsGrantedOnlyAfterItWasRecordedAndThenVerified(t *testing.T) {
	bubble(t, func(r *rig) {
		first := r.get(pool, req("first")) // So that it is mounted.
		r.gateAt("append")
		a := r.begin(pool, req("a"))
		r.waiting("append")
		if st := r.want("p", hold.Ready, "a", "first"); !st.Holds[0].Waiting {
			t.Error("a hold that is not recorded does not wait")
		}
		r.lose(nas) // Between the record and the grant.
		r.open()
		synctest.Wait()
		if !a.ended() || a.err != nil || a.hold.Mount.Same(first.Mount) || r.mounted(nas) != 1 {
			t.Errorf("acquire ended %v with %v on %v", a.ended(), a.err, a.hold.Mount)
		}
	})
}

func TestCancelledAcquireLeavesNoHold(t *testing.T) {
	for _, at := range []string{"append", "mount"} {
		t.Run(at, func(t *testing.T) {
			bubble(t, func(r *rig) {
				r.gateAt(at)
				a := r.begin(pool, req("a"))
				r.waiting(at)
				a.cancel()
				synctest.Wait()
				if !a.ended() || !errors.Is(a.err, context.Canceled) {
					t.Fatalf("acquire ended %v with %v", a.ended(), a.err)
				}
				if st, _ := r.Inspect(context.Background(), "p"); len(st.Holds) != 0 {
					t.Errorf("holds %v are left", st.Holds)
				}
				r.open()
				synctest.Wait()
				r.want("p", hold.Absent)
				if r.mounted(nas) != 0 {
					t.Error("it is mounted and nobody holds it")
				}
				r.restart()
				synctest.Wait()
				if st, _ := r.Inspect(context.Background(), "p"); len(st.Holds) != 0 {
					t.Errorf("holds %v are back after a restart", st.Holds)
				}
			})
		})
	}
}

func TestCancelWhileGrantedIsOneOfBoth(t *testing.T) {
	bubble(t, func(r *rig) {
		r.gateAt("mount")
		a := r.begin(pool, req("a"))
		c := r.waiting("mount")
		a.cancel() // Both may be seen first.
		r.let(c, does)
		synctest.Wait()
		if a.err == nil {
			r.give("a")
		}
		r.open()
		synctest.Wait()
		r.want("p", hold.Absent)
	})
}

func TestAllWhoWaitForAMountThatFailsGetItsError(t *testing.T) {
	bubble(t, func(r *rig) {
		r.gateAt("mount")
		a, b := r.begin(pool, req("a")), r.begin(pool, req("b"))
		r.pass("mount", fails(&mount.Error{Fault: mount.Failed, Step: "mount", Source: nas.String(), Code: 32, Stderr: "mount.nfs: access denied by server"}))
		for _, x := range []*acquired{a, b} {
			if !x.ended() || !hold.IsKind(x.err, hold.MountFailed) || !strings.Contains(x.err.Error(), "access denied by server") {
				t.Errorf("acquire ended %v with %v", x.ended(), x.err)
			}
		}
		// The next one waits for the end of the backoff, and then has a mount of its own.
		began := time.Now()
		c := r.begin(pool, req("c"))
		if len(r.calls()) != 0 {
			t.Error("a second attempt follows at once")
		}
		st := r.want("p", hold.Absent, "c")
		if st.NextTry.Sub(began) != time.Second || !strings.Contains(st.LastError, "access denied") {
			t.Errorf("next try in %s, last error %s", st.NextTry.Sub(began), st.LastError)
		}
		time.Sleep(time.Second)
		r.pass("mount", does)
		if !c.ended() || c.err != nil {
			t.Errorf("acquire ended %v with %v", c.ended(), c.err)
		}
	})
}

func TestMountThatIsOnlyReportedIsNone(t *testing.T) {
	bubble(t, func(r *rig) {
		r.gateAt("mount")
		a := r.begin(pool, req("a"))
		r.pass("mount", lies)
		if !a.ended() || !hold.IsKind(a.err, hold.MountFailed) || !strings.Contains(a.err.Error(), "reported as done") {
			t.Errorf("acquire ended %v with %v", a.ended(), a.err)
		}
		r.want("p", hold.Absent)
	})
}

func TestBackoffGrowsToItsLimit(t *testing.T) {
	bubble(t, func(r *rig) {
		r.judge(func(c *call) verdict {
			if c.what == "mount" {
				return fails(unix.EHOSTDOWN)
			}
			return does
		})
		want := []time.Duration{0, 1, 2, 4, 8, 16, 30, 30}
		for i, seconds := range want {
			began := time.Now()
			if _, err := r.Acquire(context.Background(), pool, req("a")); !errors.Is(err, unix.EHOSTDOWN) {
				t.Fatal(err)
			}
			if took := time.Since(began); took != seconds*time.Second {
				t.Errorf("try %d came after %s, want %d s", i, took, seconds)
			}
		}
	})
}

func TestErrorsOfMountsAreClassed(t *testing.T) {
	foreign := mount.Entry{Source: "foreign", FSType: "tmpfs"}
	cases := map[hold.Kind]error{
		hold.MountFailed:   errors.New("whatever"),
		hold.WrongIdentity: &mount.Error{Fault: mount.WrongIdentity, Marker: [2]string{"1", "2"}},
		hold.Foreign:       &mount.Error{Fault: mount.Taken, Found: &foreign},
		hold.TimedOut:      &mount.Error{Fault: mount.TimedOut, Err: context.DeadlineExceeded},
		hold.Stale:         &mount.Error{Fault: mount.StaleHandle, Errno: unix.ESTALE},
	}
	for kind, err := range cases {
		bubble(t, func(r *rig) {
			r.judge(func(*call) verdict { return does })
			r.gateAt("mount")
			a := r.begin(pool, req("a"))
			r.pass("mount", fails(err))
			if !hold.IsKind(a.err, kind) || !errors.Is(a.err, err) {
				t.Errorf("%v is %v", err, a.err)
			}
		})
	}
}

func TestAcquiringTwiceIsTheSameHold(t *testing.T) {
	bubble(t, func(r *rig) {
		r.gateAt("mount")
		a, b := r.begin(pool, req("a")), r.begin(pool, req("a"))
		r.want("p", hold.Mounting, "a")
		a.cancel() // The other still wants it.
		synctest.Wait()
		r.pass("mount", does)
		if a.err == nil || b.err != nil || b.hold.ID != "a" {
			t.Errorf("first %v, second %v", a.err, b.err)
		}
		c := r.begin(pool, req("a"))
		if c.err != nil || c.hold.Created != b.hold.Created {
			t.Errorf("third %v", c.err)
		}
		r.want("p", hold.Ready, "a")
		other := req("a")
		other.Holder.Name = "somebody else"
		if _, err := r.Acquire(context.Background(), pool, other); !hold.IsKind(err, hold.Reused) {
			t.Errorf("another holder gets the same id: %v", err)
		}
		elsewhere := hold.Pool{ID: "q", Spec: mount.Spec{Source: nas2}}
		if _, err := r.Acquire(context.Background(), elsewhere, req("a")); !hold.IsKind(err, hold.Reused) {
			t.Errorf("another pool gets the same id: %v", err)
		}
		r.open()
		if td := r.give("a"); td.Outcome != hold.Done {
			t.Errorf("one release is not enough: %v", td)
		}
		r.get(pool, other) // It is free again.
	})
}

func TestRetryThatIsCancelledLeavesTheFirstHoldAlone(t *testing.T) {
	bubble(t, func(r *rig) {
		r.get(pool, req("a"))
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		for range 20 { // Whichever is seen first.
			ctx2, cancel2 := context.WithCancel(context.Background())
			go cancel2()
			_, _ = r.Acquire(ctx2, pool, req("a"))
			cancel2()
		}
		if _, err := r.Acquire(ctx, pool, req("a")); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		r.want("p", hold.Ready, "a")
	})
}

func TestReleaseOfWhatIsNotHeldIsAnAnomaly(t *testing.T) {
	bubble(t, func(r *rig) {
		r.get(pool, req("a"))
		r.get(pool, req("b"))
		for range 2 {
			if td := r.give("nobody"); td.Outcome != hold.NotNeeded || !td.Anomaly {
				t.Errorf("released: %v", td)
			}
		}
		r.give("b")
		if td := r.give("b"); !td.Anomaly {
			t.Errorf("released twice: %v", td)
		}
		r.want("p", hold.Ready, "a")
		if c, err := r.Count(context.Background()); err != nil || c.Anomalies != 3 || c.Holds[hold.Job] != 1 || c.Sources[hold.Ready] != 1 {
			t.Errorf("counts %+v, %v", c, err)
		}
	})
}

func TestHoldThatIsReleasedWhileItIsAcquiredIsNotGranted(t *testing.T) {
	bubble(t, func(r *rig) {
		r.gateAt("mount")
		a := r.begin(pool, req("a"))
		l := r.leave("a")
		if !a.ended() || !hold.IsKind(a.err, hold.Released) {
			t.Errorf("acquire ended %v with %v", a.ended(), a.err)
		}
		r.pass("mount", does)
		r.open()
		synctest.Wait()
		if !l.ended() || l.teardown.Outcome != hold.Done {
			t.Errorf("release ended %v with %v", l.ended(), l.teardown)
		}
	})
}

func TestUnrecordedHoldIsNotGranted(t *testing.T) {
	bubble(t, func(r *rig) {
		full := unix.ENOSPC
		r.judge(func(c *call) verdict {
			if c.what == "append" {
				return fails(full)
			}
			return does
		})
		if _, err := r.Acquire(context.Background(), pool, req("a")); !hold.IsKind(err, hold.NotRecorded) || !errors.Is(err, full) {
			t.Errorf("acquire: %v", err)
		}
		r.judge(nil)
		r.get(pool, req("b"))
		r.judge(func(c *call) verdict {
			if c.what == "append" {
				return fails(full)
			}
			return does
		})
		if _, err := r.Release(context.Background(), "b"); !hold.IsKind(err, hold.NotRecorded) {
			t.Errorf("release: %v", err)
		}
		r.judge(nil)
		r.want("p", hold.Ready, "b")
		time.Sleep(time.Minute) // The journal is written anew.
		r.restart()
		synctest.Wait()
		r.want("p", hold.Ready, "b")
		r.give("b")
	})
}

func TestReadOnlySourceIsNotHeldForWriting(t *testing.T) {
	bubble(t, func(r *rig) {
		r.readOnly[nas] = true
		if _, err := r.Acquire(context.Background(), pool, req("a")); !hold.IsKind(err, hold.ReadOnlySource) {
			t.Errorf("acquire: %v", err)
		}
		ro := req("b")
		ro.Mode = hold.ReadOnly
		r.get(pool, ro)
	})
}

func TestWrongRequestsAreRefused(t *testing.T) {
	bubble(t, func(r *rig) {
		holder := hold.Holder{Kind: hold.Job, Name: "x"}
		for name, c := range map[string]struct {
			p hold.Pool
			r hold.Request
		}{
			"a pool without an id":     {hold.Pool{Spec: pool.Spec}, req("a")},
			"a pool without a source":  {hold.Pool{ID: "p"}, req("a")},
			"an unknown class":         {hold.Pool{ID: "p", Spec: pool.Spec, Class: "x"}, req("a")},
			"an unknown residency":     {hold.Pool{ID: "p", Spec: pool.Spec, Residency: "x"}, req("a")},
			"a hold without an id":     {pool, hold.Request{Holder: holder}},
			"a hold without a holder":  {pool, hold.Request{ID: "a"}},
			"an unknown mode":          {pool, hold.Request{ID: "a", Holder: holder, Mode: "x"}},
			"a folder that leads out":  {pool, hold.Request{ID: "a", Holder: holder, Subpath: "../x"}},
			"a folder that is no path": {pool, hold.Request{ID: "a", Holder: holder, Subpath: "/x"}},
		} {
			if _, err := r.Acquire(context.Background(), c.p, c.r); !hold.IsKind(err, hold.Invalid) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func TestOptionsOfOthersAreNotTakenFromThem(t *testing.T) {
	soft := hold.Pool{ID: "q", Spec: mount.Spec{Source: nas, Options: "soft"}, Class: hold.Transfer}
	bubble(t, func(r *rig) {
		r.get(pool, req("a"))
		_, err := r.Acquire(context.Background(), soft, req("b"))
		var e *hold.Error
		if !errors.As(err, &e) || e.Kind != hold.OptionsConflict || e.Running != "" || e.Wanted != "soft" || len(e.Holders) != 1 {
			t.Errorf("acquire with other options: %v", err)
		}
		r.give("a")
		h := r.get(soft, req("b")) // Nobody is left who wants the old ones.
		if !strings.Contains(h.Mount.Options, "soft") {
			t.Errorf("mounted with %s", h.Mount.Options)
		}
	})
}

func TestNewOptionsWaitForTheLastHoldToGo(t *testing.T) {
	newer := pool
	newer.Generation, newer.Spec.Options, newer.Residency = 2, "vers=4.2", hold.Always
	bubble(t, func(r *rig) {
		r.get(pool, req("a"))
		if err := r.Ensure(context.Background(), newer); err != nil {
			t.Fatal(err)
		}
		st := r.want("p", hold.Ready, "a")
		if !st.OptionsPending || st.Running != "" || st.Wanted != "vers=4.2" || r.happened(hold.OptionsPending) != 1 {
			t.Errorf("status %+v", st)
		}
		r.get(newer, req("b")) // It has what is there.
		r.give("a")
		r.give("b")
		synctest.Wait()
		if st = r.want("p", hold.Ready); st.OptionsPending || st.Running != "vers=4.2" {
			t.Errorf("status %+v", st)
		}
		if err := r.Forget(context.Background(), "p"); err != nil {
			t.Error(err)
		}
	})
}

func TestOptionsOfAMountThatNobodyHoldsAreChangedAtOnce(t *testing.T) {
	idle := pool
	idle.Idle = time.Hour
	soft := hold.Pool{ID: "q", Spec: mount.Spec{Source: nas, Options: "soft"}, Class: hold.Transfer}
	bubble(t, func(r *rig) {
		r.get(idle, req("a"))
		if td := r.give("a"); td.Outcome != hold.Deferred || time.Until(td.Next) != time.Hour {
			t.Errorf("the last leaves: %v", td)
		}
		h := r.get(soft, req("b"))
		if !strings.Contains(h.Mount.Options, "soft") || r.mounted(nas) != 1 {
			t.Errorf("mounted with %s", h.Mount.Options)
		}
		r.give("b")
		// When it cannot be unmounted, the newcomer is told why.
		r.get(idle, req("c"))
		r.give("c")
		r.use(nas, mount.User{Use: mount.Open, PID: 7, Command: "bash", Path: "/x"})
		_, err := r.Acquire(context.Background(), soft, req("d"))
		if !hold.IsKind(err, hold.OptionsConflict) || !strings.Contains(err.Error(), "bash (pid 7)") {
			t.Errorf("acquire: %v", err)
		}
		r.use(nas)
	})
}

func TestOneFileSystemUnderTwoNamesIsRefused(t *testing.T) {
	alias := hold.Pool{ID: "q", Spec: mount.Spec{Source: nas2}, Class: hold.Transfer}
	for name, same := range map[string]func(w *world){
		"the kernel shows one device": func(w *world) { w.devices[nas], w.devices[nas2] = 7, 7 },
		"both carry one identity":     func(w *world) { w.uuids[nas], w.uuids[nas2] = "1", "1" },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(r *rig) {
				same(r.world)
				r.get(pool, req("a"))
				_, err := r.Acquire(context.Background(), alias, req("b"))
				if !hold.IsKind(err, hold.SameSource) || !strings.Contains(err.Error(), "nas1:/a") {
					t.Errorf("acquire: %v", err)
				}
				synctest.Wait()
				if r.mounted(nas2) != 0 {
					t.Error("the second name is mounted")
				}
				alias.Residency = hold.Always
				if err := r.Ensure(context.Background(), alias); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Minute)
				if n := r.happened(hold.MountError); n > 10 || r.mounted(nas2) != 0 {
					t.Errorf("it was tried %d times in a minute, %d mounts", n, r.mounted(nas2))
				}
				r.want("p", hold.Ready, "a")
				if err := r.Forget(context.Background(), "q"); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestFoldersOfOneServerAreTwoSources(t *testing.T) {
	sibling := hold.Pool{ID: "q", Spec: mount.Spec{Source: nas2}, Class: hold.Transfer}
	bubble(t, func(r *rig) {
		r.devices[nas], r.devices[nas2] = 7, 7 // The kernel has one file system for both exports.
		r.inodes[nas2] = 42
		r.get(pool, req("a"))
		r.get(sibling, req("b"))
		r.restart()
		r.want("p", hold.Ready, "a")
		r.want("q", hold.Ready, "b")
	})
}

func TestOneSourceUnderTwoPoolsIsOneMount(t *testing.T) {
	other := hold.Pool{ID: "q", Spec: mount.Spec{Source: nas}}
	bubble(t, func(r *rig) {
		r.get(pool, req("a"))
		r.get(other, req("b"))
		if st := r.want("q", hold.Ready, "a", "b"); len(st.Pools) != 2 || r.mounted(nas) != 1 {
			t.Errorf("status %+v", st)
		}
		r.give("a")
		if td := r.give("b"); td.Outcome != hold.Done {
			t.Errorf("the last leaves: %v", td)
		}
	})
}

func TestPoolThatIsAlwaysResidentIsMountedAndStays(t *testing.T) {
	always := pool
	always.Residency = hold.Always
	bubble(t, func(r *rig) {
		r.judge(func(c *call) verdict {
			if c.what == "mount" && r.happened(hold.MountError) < 3 {
				return fails(unix.EHOSTDOWN)
			}
			return does
		})
		if err := r.Ensure(context.Background(), always); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		r.want("p", hold.Ready)
		r.get(always, req("a"))
		if td := r.give("a"); td.Outcome != hold.NotNeeded || td.Holders != 0 || td.Reason == "" {
			t.Errorf("the last leaves: %v", td)
		}
		if err := errors.Join(r.Forget(context.Background(), "p"), r.Forget(context.Background(), "p")); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		r.want("p", hold.Absent)
		if r.mounted(nas) != 0 {
			t.Error("it is still mounted")
		}
	})
}

func TestWorkHasItsOwnResult(t *testing.T) {
	failed := errors.New("the copy failed")
	bubble(t, func(r *rig) {
		td, err := r.With(context.Background(), pool, req("a"), func(_ context.Context, h hold.Hold) error {
			r.want("p", hold.Ready, "a")
			return failed
		})
		if td.Outcome != hold.Done || !errors.Is(err, failed) {
			t.Errorf("%v, %v", td, err)
		}
		r.use(nas, mount.User{Use: mount.WorkDir, PID: 7})
		td, err = r.With(context.Background(), pool, req("a"), func(context.Context, hold.Hold) error { return nil })
		if td.Outcome != hold.Deferred || len(td.Blockers) != 1 || err != nil {
			t.Errorf("%v, %v", td, err)
		}
		r.use(nas)
		ctx, cancel := context.WithCancel(context.Background())
		_, err = r.With(ctx, pool, req("a"), func(ctx context.Context, _ hold.Hold) error { cancel(); return ctx.Err() })
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		r.want("p", hold.Absent)
		func() {
			defer func() { _ = recover() }()
			_, _ = r.With(context.Background(), pool, req("a"), func(context.Context, hold.Hold) error { panic("no") })
		}()
		r.want("p", hold.Absent)
	})
}
