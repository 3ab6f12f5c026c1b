// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package hold_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/agent/hold"
	"github.com/holdfast-storage/holdfast/internal/agent/mount"
)

var shell = mount.User{Use: mount.WorkDir, PID: 7, Command: "bash", Path: "/p"}

func TestBusyMountIsReportedWithItsBlockersAndTriedForEver(t *testing.T) {
	bubble(t, func(r *rig) {
		r.get(pool, req("a"))
		r.use(nas, shell)
		td := r.give("a")
		if td.Outcome != hold.Deferred || len(td.Blockers) != 1 || !strings.Contains(td.String(), "bash (pid 7) works in /p") || time.Until(td.Next) != time.Second {
			t.Errorf("teardown %v", td)
		}
		st := r.want("p", hold.Busy)
		if len(st.Blockers) != 1 || st.NextTry != td.Next {
			t.Errorf("status %+v", st)
		}
		time.Sleep(time.Hour)
		if n := r.happened(hold.UnmountDeferred); n < 15 || n > 25 {
			t.Errorf("%d tries in an hour", n)
		}
		if r.happened(hold.Unmounted)+r.happened(hold.Forced) != 0 {
			t.Error("it was unmounted under its user")
		}
		r.use(nas)
		time.Sleep(5 * time.Minute)
		r.want("p", hold.Absent)
	})
}

func TestAcquireTakesBackABusyMount(t *testing.T) {
	bubble(t, func(r *rig) {
		first := r.get(pool, req("a"))
		r.use(nas, shell)
		r.give("a")
		second := r.get(pool, req("b"))
		if !second.Mount.Same(first.Mount) || r.happened(hold.MountedEvent) != 1 {
			t.Error("it was mounted again")
		}
		st := r.want("p", hold.Ready, "b")
		if !st.NextTry.IsZero() || len(st.Blockers) != 0 {
			t.Errorf("status %+v", st)
		}
		r.use(nas)
		if td := r.give("b"); td.Outcome != hold.Done {
			t.Errorf("teardown %v", td)
		}
	})
}

func TestAcquireThatWaitsForAnUnmountHasLostNothing(t *testing.T) {
	bubble(t, func(r *rig) {
		r.get(pool, req("a"))
		r.gateAt("unmount")
		r.leave("a")
		synctest.Wait()
		b := r.begin(pool, req("b"))
		r.pass("unmount", does)
		synctest.Wait()
		if !b.ended() || b.err != nil {
			t.Fatalf("it does not have the pool: %v", b.err)
		}
		if n := r.happened(hold.LostEvent) + r.happened(hold.Regained); n != 0 {
			t.Errorf("%d times something was told to be lost or regained", n)
		}
		r.open()
		r.give("b")
	})
}

func TestKernelThatRefusesIsBelieved(t *testing.T) {
	bubble(t, func(r *rig) {
		r.get(pool, req("a"))
		r.judge(func(c *call) verdict {
			if c.what == "unmount" {
				return fails(&mount.Error{Fault: mount.Busy, Step: "unmount", Errno: unix.EBUSY})
			}
			return does
		})
		if td := r.give("a"); td.Outcome != hold.Deferred || !strings.Contains(td.Reason, "is busy") {
			t.Errorf("teardown %v", td)
		}
		r.judge(nil)
		time.Sleep(time.Second)
		synctest.Wait()
		r.want("p", hold.Absent)
	})
}

func TestWhoeverComesBeforeTheUnmountKeepsIt(t *testing.T) {
	for _, at := range []string{"users", "append"} {
		t.Run(at, func(t *testing.T) {
			bubble(t, func(r *rig) {
				first := r.get(pool, req("a"))
				r.gateAt("users")
				l := r.leave("a")
				if at == "append" { // The intent to unmount is being written.
					r.gateAt("append")
					r.let(r.calls()[0], does)
				}
				c := r.waiting(at)
				b := r.begin(pool, req("b"))
				r.gateAt()
				r.let(c, does)
				r.open()
				synctest.Wait()
				if b.err != nil || !b.ended() || !b.hold.Mount.Same(first.Mount) || r.happened(hold.Unmounted) != 0 {
					t.Errorf("acquire ended %v with %v", b.ended(), b.err)
				}
				if !l.ended() || l.teardown.Outcome != hold.NotNeeded || l.teardown.Holders != 1 {
					t.Errorf("release ended %v with %v", l.ended(), l.teardown)
				}
				r.want("p", hold.Ready, "b")
			})
		})
	}
}

func TestWhoeverComesDuringTheUnmountGetsANewMount(t *testing.T) {
	bubble(t, func(r *rig) {
		first := r.get(pool, req("a"))
		r.gateAt("unmount")
		l := r.leave("a")
		c := r.waiting("unmount")
		b := r.begin(pool, req("b"))
		r.want("p", hold.Unmounting, "b")
		if b.ended() {
			t.Error("a hold was granted during an unmount")
		}
		r.let(c, does)
		synctest.Wait()
		if !l.ended() || l.teardown.Outcome != hold.Done {
			t.Errorf("release ended %v with %v", l.ended(), l.teardown)
		}
		if b.err != nil || b.hold.Mount.Same(first.Mount) {
			t.Errorf("acquire ended with %v", b.err)
		}
	})
}

func TestIdleMountStaysForAWhile(t *testing.T) {
	idle := pool
	idle.Idle = 30 * time.Second
	bubble(t, func(r *rig) {
		r.get(idle, req("a"))
		r.give("a")
		time.Sleep(29 * time.Second)
		r.get(idle, req("b"))
		time.Sleep(time.Minute)
		r.want("p", hold.Ready, "b")
		if td := r.give("b"); td.Outcome != hold.Deferred || time.Until(td.Next) != 30*time.Second {
			t.Errorf("teardown %v", td)
		}
		time.Sleep(30 * time.Second)
		r.want("p", hold.Absent)
		if r.happened(hold.MountedEvent) != 1 {
			t.Error("it was mounted more than once")
		}
	})
}

// machines is a Finder whose answer a test sets.
type machines struct {
	mu    sync.Mutex
	found []hold.Found
	err   error
	hang  chan struct{}
	asked int // How many calls have not returned.
}

func (m *machines) Find(context.Context) ([]hold.Found, error) {
	m.mu.Lock()
	m.asked++
	m.mu.Unlock()
	if m.hang != nil {
		<-m.hang
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked--
	return m.found, m.err
}

func (m *machines) set(err error, found ...hold.Found) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.found, m.err = found, err
}

func TestNothingIsUnmountedWhileItsUsersCannotBeLearned(t *testing.T) {
	libvirt := &machines{err: errors.New("libvirt does not answer")}
	withFinder := func(c *hold.Config) { c.Finders, c.Limits.CheckEvery = []hold.Finder{libvirt}, time.Minute }
	bubble(t, func(r *rig) {
		r.get(pool, req("a"))
		if td := r.give("a"); td.Outcome != hold.Deferred || !strings.Contains(td.Reason, "libvirt does not answer") {
			t.Errorf("teardown %v", td)
		}
		time.Sleep(time.Hour)
		if st := r.want("p", hold.Busy); st.UsersKnown || r.happened(hold.FinderError) == 0 {
			t.Errorf("status %+v", st)
		}
		// It answers, and a virtual machine has a disk there.
		vm := hold.Holder{Kind: hold.VM, Name: "i-2-41"}
		libvirt.set(nil, hold.Found{Holder: vm, Path: target(nas) + "/base.qcow2"}, hold.Found{Holder: vm, Path: "/elsewhere/x"}, hold.Found{Holder: vm, Path: target(nas) + "-not/x"})
		time.Sleep(5 * time.Minute)
		st := r.want("p", hold.Ready, "vm i-2-41 "+target(nas)+"/base.qcow2")
		if !st.UsersKnown || !st.Holds[0].Derived || st.Holds[0].Subpath != "base.qcow2" {
			t.Errorf("status %+v", st)
		}
		if td := r.give(string(st.Holds[0].ID)); !td.Anomaly {
			t.Errorf("a derived hold was released: %v", td)
		}
		libvirt.set(nil)
		time.Sleep(time.Minute)
		r.want("p", hold.Absent)
	}, withFinder)
}

func TestFinderThatHangsKeepsNobodyWaiting(t *testing.T) {
	libvirt := &machines{}
	bubble(t, func(r *rig) {
		r.get(pool, req("a"))
		l := r.leave("a")
		r.get(pool, req("b"))
		synctest.Wait()
		if !l.ended() || l.teardown.Outcome != hold.NotNeeded {
			t.Errorf("release ended %v with %v", l.ended(), l.teardown)
		}
		l = r.leave("b")
		time.Sleep(time.Minute)
		synctest.Wait()
		if !l.ended() || l.teardown.Outcome != hold.Deferred || !strings.Contains(l.teardown.Reason, "not answered yet") {
			t.Errorf("release ended %v with %v", l.ended(), l.teardown)
		}
		libvirt.mu.Lock()
		if libvirt.asked != 1 {
			t.Errorf("%d questions are open", libvirt.asked)
		}
		libvirt.mu.Unlock()
		close(libvirt.hang)
		time.Sleep(5 * time.Minute)
		r.want("p", hold.Absent)
	}, func(c *hold.Config) {
		libvirt.hang = make(chan struct{})
		c.Finders = []hold.Finder{libvirt}
	})
}

func TestMountThatHangsIsAbandoned(t *testing.T) {
	other := hold.Pool{ID: "q", Spec: mount.Spec{Source: nas2}, Class: hold.Transfer}
	bubble(t, func(r *rig) {
		r.gateAt("mount")
		a := r.begin(pool, req("a"))
		c := r.waiting("mount")
		r.mu.Lock()
		r.gate = nil // For all that comes.
		r.mu.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		r.want("p", hold.Mounting, "a")
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if !a.ended() || !hold.IsKind(a.err, hold.TimedOut) {
			t.Errorf("acquire ended %v with %v", a.ended(), a.err)
		}
		r.want("p", hold.StateUnknown)
		_, err := r.Acquire(context.Background(), pool, req("b"))
		var e *hold.Error
		if !errors.As(err, &e) || e.Kind != hold.TimedOut || e.Phase != "mount" {
			t.Errorf("acquire: %v", err)
		}
		r.get(other, req("c")) // Nobody else notices.
		if n, err := r.Count(context.Background()); err != nil || n.Hanging != 1 {
			t.Errorf("counts %+v, %v", n, err)
		}
		r.let(c, does) // It succeeds at last.
		synctest.Wait()
		if r.happened(hold.Returned) != 1 || r.mounted(nas) != 0 {
			t.Errorf("%d mounts are left", r.mounted(nas))
		}
		time.Sleep(time.Minute)
		r.get(pool, req("d"))
	})
}

func TestUnmountThatHangsIsAbandoned(t *testing.T) {
	bubble(t, func(r *rig) {
		r.get(pool, req("a"))
		r.gateAt("unmount")
		l := r.leave("a")
		c := r.waiting("unmount")
		b := r.begin(pool, req("b"))
		time.Sleep(35 * time.Second)
		synctest.Wait()
		if !l.ended() || l.teardown.Outcome != hold.Abandoned {
			t.Errorf("release ended %v with %v", l.ended(), l.teardown)
		}
		if !b.ended() || !hold.IsKind(b.err, hold.TimedOut) {
			t.Errorf("acquire ended %v with %v", b.ended(), b.err)
		}
		r.want("p", hold.StateUnknown)
		r.let(c, fails(&mount.Error{Fault: mount.TimedOut, Step: "unmount"}))
		synctest.Wait()
		r.want("p", hold.Busy)
		d := r.begin(pool, req("d"))
		if !d.ended() || d.err != nil {
			t.Errorf("acquire ended %v with %v", d.ended(), d.err)
		}
	})
}

// used returns the degrees of force of all unmounts so far, each once.
func (w *world) used() []mount.Force {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Compact(slices.Clone(w.forces))
}

func TestForceIsUsedOnlyOnTransfersThatNobodyUses(t *testing.T) {
	run := func(name string, p hold.Pool, users []mount.User, want mount.Force) {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(r *rig) {
				r.judge(func(c *call) verdict {
					if c.what != "unmount" || c.force != mount.Plain && c.force == want {
						return does
					}
					return fails(&mount.Error{Fault: mount.TimedOut, Step: "unmount"})
				})
				r.get(p, req("a"))
				r.give("a")
				r.use(nas, users...)
				time.Sleep(time.Hour)
				synctest.Wait()
				switch {
				case want == mount.Plain:
					if f := r.used(); len(f) != 1 || f[0] != mount.Plain || r.mounted(nas) != 1 {
						t.Errorf("force %q was used, %d mounts", f, r.mounted(nas))
					}
				case r.mounted(nas) != 0 || r.happened(hold.Forced) != 1:
					t.Errorf("%d mounts after %q", r.mounted(nas), r.used())
				}
				r.judge(nil)
				r.use(nas)
			})
		})
	}
	primary := pool
	primary.Class = hold.Primary
	run("a transfer is aborted", pool, nil, mount.Abort)
	run("a transfer is detached", pool, nil, mount.Detach)
	run("not under a process", pool, []mount.User{shell}, mount.Plain)
	run("not a pool that volumes live on", primary, nil, mount.Plain)
}

func TestForceIsNotUsedOnWhatIsOnlyBusy(t *testing.T) {
	bubble(t, func(r *rig) {
		r.judge(func(c *call) verdict {
			if c.what == "unmount" {
				return fails(&mount.Error{Fault: mount.Busy, Errno: unix.EBUSY})
			}
			return does
		})
		r.get(pool, req("a"))
		r.give("a")
		time.Sleep(time.Hour)
		synctest.Wait()
		if f := r.used(); len(f) != 1 || f[0] != mount.Plain {
			t.Errorf("force %q was used", f)
		}
		r.judge(nil)
	})
}

func TestServerThatHangsIsSuspectAndNothingElse(t *testing.T) {
	other := hold.Pool{ID: "q", Spec: mount.Spec{Source: nas2}, Class: hold.Transfer}
	bubble(t, func(r *rig) {
		r.get(pool, req("a"))
		r.gateAt("probe")
		time.Sleep(15 * time.Second)
		c := r.waiting("probe")
		r.want("p", hold.Ready, "a")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		st := r.want("p", hold.StateSuspect, "a")
		if r.happened(hold.SuspectEvent) != 1 || st.LastError == "" {
			t.Errorf("status %+v", st)
		}
		if _, err := r.Acquire(context.Background(), pool, req("b")); !hold.IsKind(err, hold.Suspect) {
			t.Errorf("acquire: %v", err)
		}
		r.get(pool, hold.Request{ID: "c", Holder: hold.Holder{Kind: hold.Probe, Name: "heartbeat"}})
		r.give("c")
		r.get(other, req("d"))
		time.Sleep(time.Minute)
		synctest.Wait()
		if n, err := r.Count(context.Background()); err != nil || n.Hanging != 2 {
			t.Errorf("counts %+v, %v", n, err)
		}
		if n := len(r.calls()); n != 2 { // One for each mount: none is begun while another hangs.
			t.Errorf("%d probes are under way", n)
		}
		r.let(c, does)
		synctest.Wait()
		r.want("p", hold.Ready, "a")
		if r.happened(hold.Recovered) != 1 {
			t.Error("the recovery was not told")
		}
	}, func(c *hold.Config) { c.Limits.ProbeEvery = 15 * time.Second })
}

func TestStaleSourceIsMountedAnewWhenItIsFree(t *testing.T) {
	always := pool
	always.Residency = hold.Always
	bubble(t, func(r *rig) {
		if err := r.Ensure(context.Background(), always); err != nil {
			t.Fatal(err)
		}
		r.get(always, req("a"))
		r.judge(func(c *call) verdict {
			if c.what == "probe" && r.happened(hold.StaleEvent) == 0 {
				return verdict{err: &mount.Error{Fault: mount.StaleHandle, Errno: unix.ESTALE}}
			}
			return does
		})
		time.Sleep(15 * time.Second)
		synctest.Wait()
		r.want("p", hold.StateStale, "a")
		if _, err := r.Acquire(context.Background(), always, req("b")); !hold.IsKind(err, hold.Stale) || !errors.Is(err, unix.ESTALE) {
			t.Errorf("acquire: %v", err)
		}
		r.give("a")
		synctest.Wait()
		r.want("p", hold.Ready)
		if r.happened(hold.MountedEvent) != 2 {
			t.Errorf("mounted %d times", r.happened(hold.MountedEvent))
		}
		r.get(always, req("c"))
		if err := r.Forget(context.Background(), "p"); err != nil {
			t.Error(err)
		}
	}, func(c *hold.Config) { c.Limits.ProbeEvery = 15 * time.Second })
}

func TestDrainedPoolGetsNoNewHolds(t *testing.T) {
	always := pool
	always.Residency = hold.Always
	bubble(t, func(r *rig) {
		if err := r.Ensure(context.Background(), always); err != nil {
			t.Fatal(err)
		}
		r.get(always, req("a"))
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if td, err := r.Drain(ctx, "p"); err != nil || td.Outcome != hold.Deferred || td.Holders != 1 {
			t.Errorf("drain: %v, %v", td, err)
		}
		if _, err := r.Acquire(context.Background(), always, req("b")); !hold.IsKind(err, hold.Draining) {
			t.Errorf("acquire: %v", err)
		}
		drained := make(chan hold.Teardown, 1)
		go func() {
			td, _ := r.Drain(context.Background(), "p")
			drained <- td
		}()
		synctest.Wait()
		r.give("a")
		if td := <-drained; td.Outcome != hold.Done || r.mounted(nas) != 0 {
			t.Errorf("drain: %v", td)
		}
		if st := r.want("p", hold.Absent); len(st.Draining) != 1 {
			t.Errorf("status %+v", st)
		}
		if err := r.Resume(context.Background(), "p"); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		r.want("p", hold.Ready)
		if err := r.Forget(context.Background(), "p"); err != nil {
			t.Error(err)
		}
	})
}

func TestOperatorDetachesWhatHangs(t *testing.T) {
	bubble(t, func(r *rig) {
		r.get(pool, req("a"))
		r.unhold(nas, "a") // What the operator does, he does to the holder.
		st := r.want("p", hold.Ready, "a")
		if _, err := r.Detach(context.Background(), "p", "the server burns", "1-2"); !hold.IsKind(err, hold.Invalid) {
			t.Errorf("detached without having looked: %v", err)
		}
		r.use(nas, shell)
		td, err := r.Detach(context.Background(), "p", "the server burns", st.Token)
		if err != nil || td.Outcome != hold.Done || r.mounted(nas) != 0 {
			t.Errorf("detach: %v, %v", td, err)
		}
		synctest.Wait()
		if st := r.want("p", hold.StateLost, "a"); st.Holds[0].Broken == "" {
			t.Error("the hold is not broken")
		}
		r.use(nas)
		r.give("a")
		synctest.Wait()
		r.want("p", hold.Absent)
	})
}

func TestOperatorDetachesUnderAnUnmountThatHangs(t *testing.T) {
	bubble(t, func(r *rig) {
		r.get(pool, req("a"))
		r.gateAt("unmount")
		r.leave("a")
		stuck := r.waiting("unmount")
		time.Sleep(time.Minute)
		st := r.want("p", hold.StateUnknown)
		r.mu.Lock()
		r.gate, r.changing[nas] = nil, 0 // It is the exception to one change at a time.
		r.mu.Unlock()
		if td, err := r.Detach(context.Background(), "p", "the server burns", st.Token); err != nil || td.Outcome != hold.Done {
			t.Errorf("detach: %v, %v", td, err)
		}
		r.get(pool, req("b"))
		r.let(stuck, fails(&mount.Error{Fault: mount.TimedOut}))
		synctest.Wait()
		r.want("p", hold.Ready, "b")
	})
}

func TestEndOfTheAgentLeavesHeldPoolsMounted(t *testing.T) {
	idle := hold.Pool{ID: "q", Spec: mount.Spec{Source: nas2}, Class: hold.Transfer, Idle: time.Hour}
	bubble(t, func(r *rig) {
		r.get(pool, req("a"))
		r.get(idle, req("b"))
		r.give("b")
		if err := r.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if r.mounted(nas) != 1 || r.mounted(nas2) != 0 {
			t.Errorf("%d and %d mounts", r.mounted(nas), r.mounted(nas2))
		}
		if _, err := r.Acquire(context.Background(), pool, req("c")); !hold.IsKind(err, hold.ShuttingDown) {
			t.Errorf("acquire: %v", err)
		}
		if _, err := r.Release(context.Background(), "a"); !hold.IsKind(err, hold.ShuttingDown) {
			t.Errorf("release: %v", err)
		}
		r.p.end()
		r.boot()
		synctest.Wait()
		r.want("p", hold.Ready, "a")
		r.give("a")
	})
}

func TestEndOfTheAgentDoesNotWaitForWhatHangs(t *testing.T) {
	bubble(t, func(r *rig) {
		r.gateAt("mount")
		a := r.begin(pool, req("a"))
		r.waiting("mount")
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		began := time.Now()
		if err := r.Close(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 3*time.Second {
			t.Errorf("close: %v after %s", err, time.Since(began))
		}
		synctest.Wait()
		if !a.ended() || !hold.IsKind(a.err, hold.ShuttingDown) {
			t.Errorf("acquire ended %v with %v", a.ended(), a.err)
		}
		r.p.end()
		r.boot()
	})
}
