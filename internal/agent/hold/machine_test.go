// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package hold_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-storage/holdfast/internal/agent/hold"
	"github.com/holdfast-storage/holdfast/internal/agent/mount"
)

// happening is one thing that happens to a host. It is drawn before the run, so that it means something whatever came before.
type happening struct {
	Name string
	A, B int
}

func (c happening) String() string { return fmt.Sprintf("%s(%d,%d)", c.Name, c.A, c.B) }

// happenings are what can happen, with weights.
var happenings = []string{
	"acquire", "acquire", "acquire", "release", "release", "release", "cancel", "let", "let", "let", "let", "gate", "open",
	"crash", "restart", "umount", "cover", "uncover", "remount", "libvirt", "vm", "process", "ensure", "forget", "wait", "wait", "unknown", "drain", "resume",
}

var schedules = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) happening {
	return happening{rapid.SampledFrom(happenings).Draw(t, "what"), rapid.IntRange(0, 3).Draw(t, "a"), rapid.IntRange(0, 5).Draw(t, "b")}
}), 1, 40)

// TestWhateverHappensNothingIsTakenFromItsUsers runs random schedules against a model: who was told that he holds what.
func TestWhateverHappensNothingIsTakenFromItsUsers(t *testing.T) {
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		if err := f.Value.Set("2000"); err != nil { // A schedule takes three milliseconds.
			t.Fatal(err)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		schedule := schedules.Draw(rt, "schedule")
		var wrong []string
		synctest.Test(t, func(t *testing.T) { wrong = play(t, schedule) })
		if len(wrong) > 0 {
			rt.Fatalf("%v\n%s", schedule, strings.Join(wrong, "\n"))
		}
	})
}

// player is a schedule under way, and its model.
type player struct {
	*rig

	users   []user
	libvirt *machines
	jobs    *registry
	vms     map[mount.Source]bool
	gen     int64
	wrong   []string
}

func play(t *testing.T, schedule []happening) []string {
	t.Helper()
	p := &player{libvirt: &machines{}, jobs: &registry{}, vms: map[mount.Source]bool{}}
	p.users = []user{
		{id: "a", pool: pool},
		{id: "b", pool: pool},
		{id: "c", pool: hold.Pool{ID: "q", Spec: pool.Spec}},
		{id: "d", pool: hold.Pool{ID: "o", Spec: mount.Spec{Source: nas2}, Class: hold.Transfer, Idle: 30 * time.Second}},
	}
	p.rig = start(t, newWorld(), func(c *hold.Config) {
		c.Finders, c.Limits.CheckEvery, c.Limits.ProbeEvery = []hold.Finder{p.libvirt}, time.Minute, 15*time.Second
		c.Liveness = map[hold.HolderKind]hold.Liveness{hold.Job: p.jobs}
	})
	synctest.Wait()
	for _, c := range schedule {
		p.do(c)
		synctest.Wait()
		p.check(c)
		if len(p.wrong) > 0 {
			break
		}
	}
	return append(p.wrong, p.finish()...)
}

// sourceOf is the source that a number stands for.
func sourceOf(n int) mount.Source { return []mount.Source{nas, nas2}[n%2] }

func (p *player) do(c happening) {
	u, s := &p.users[c.A], sourceOf(c.A)
	switch c.Name {
	case "acquire":
		if u.step == 0 {
			u.step, u.got, u.again = 1, p.begin(u.pool, req(u.id)), false
		}
	case "release":
		if u.step == 1 && u.got.ended() && u.got.err == nil {
			u.step, u.left = 2, p.leave(u.id)
		}
	case "cancel":
		if u.step == 1 {
			u.got.cancel()
		}
	case "let":
		if calls := p.calls(); len(calls) > 0 {
			call := calls[c.A%len(calls)]
			verdicts := append([]verdict{does, does}, faultsOf(call.what)...)
			p.let(call, verdicts[c.B%len(verdicts)])
		}
	case "gate":
		p.gateAt([][]string{{"mount"}, {"unmount"}, {"mount", "unmount"}, {"users"}}[c.A]...)
	case "open":
		p.open()
	case "crash":
		p.crashAndAskAgain()
	case "restart":
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		_ = p.Close(ctx)
		cancel()
		p.crashAndAskAgain()
	default:
		p.disturb(c, s)
	}
}

// disturb is what happens without the agent's doing.
func (p *player) disturb(c happening, s mount.Source) {
	switch c.Name {
	case "umount":
		p.lose(s)
	case "cover":
		p.cover(s)
	case "uncover":
		p.mu.Lock()
		if at := p.at(target(s)); len(at) > 0 && at[len(at)-1].Source == "foreign" {
			p.take(at[len(at)-1])
		}
		p.mu.Unlock()
	case "remount":
		if p.mounted(s) == 0 {
			p.remount(s)
		}
	case "libvirt":
		p.libvirt.mu.Lock()
		p.libvirt.err = []error{nil, errors.New("libvirt is down")}[c.A%2]
		p.libvirt.mu.Unlock()
	case "vm":
		p.vm(s, c.B%2 == 0)
	case "process":
		p.use(s, []mount.User{shell}[:c.B%2]...)
	case "ensure":
		want := p.users[c.A].pool
		p.gen++
		want.Generation, want.Residency = p.gen, hold.Always
		want.Spec.Options = []mount.Options{"", "soft"}[c.B%2]
		_ = p.Ensure(context.Background(), want)
	case "forget":
		_ = p.Forget(context.Background(), p.users[c.A].pool.ID)
	case "wait":
		time.Sleep([]time.Duration{time.Second, 10 * time.Second, time.Minute, 10 * time.Minute}[c.A])
	case "unknown":
		if td, err := p.Release(context.Background(), "nobody"); err != nil || !td.Anomaly {
			p.wrong = append(p.wrong, fmt.Sprintf("release of an unknown hold: %v, %v", td, err))
		}
	case "drain":
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		_, _ = p.Drain(ctx, p.users[c.A].pool.ID)
		cancel()
	case "resume":
		_ = p.Resume(context.Background(), p.users[c.A].pool.ID)
	}
}

// vm starts or stops a virtual machine with a disk on a source. It starts only on what is mounted and not about to be unmounted: whoever starts
// one holds the pool first.
func (p *player) vm(s mount.Source, on bool) {
	for _, c := range p.calls() {
		if on && c.source == s && c.what != "mount" {
			return
		}
	}
	p.mu.Lock()
	if on = on && len(p.at(target(s))) > 0; p.machine[s] == on {
		p.mu.Unlock()
		return
	}
	p.machine[s] = on
	p.mu.Unlock()
	p.vms[s] = on
	var found []hold.Found
	for _, s := range []mount.Source{nas, nas2} {
		if p.vms[s] {
			found = append(found, hold.Found{Holder: hold.Holder{Kind: hold.VM, Name: "vm"}, Path: target(s) + "/disk"})
		}
	}
	p.libvirt.mu.Lock()
	p.libvirt.found = found
	p.libvirt.mu.Unlock()
}

// crashAndAskAgain kills the agent and starts it again. Whoever got no answer asks again.
func (p *player) crashAndAskAgain() {
	p.open()
	p.restart()
	synctest.Wait()
	for i := range p.users {
		u := &p.users[i]
		if u.step == 1 && u.got.ended() && unanswered(u.got.err) {
			u.got, u.again = p.begin(u.pool, req(u.id)), true
		}
		if u.step == 2 && u.left.ended() && u.left.err != nil {
			u.left, u.again = p.leave(u.id), true
		}
	}
}

// check compares what is with what must be, after each thing that happened.
func (p *player) check(c happening) {
	bad := func(format string, args ...any) {
		p.wrong = append(p.wrong, "after "+c.String()+": "+fmt.Sprintf(format, args...))
	}
	p.wrong = append(p.wrong, p.violations()...)
	p.inspect(bad) // What it makes the agent notice is over before the look that counts.
	synctest.Wait()
	held, journal := p.inspect(bad), p.journal()
	for i := range p.users {
		u := &p.users[i]
		switch {
		case u.step == 1 && u.got.ended() && u.got.err == nil:
			if !held[u.id] || !journal[u.id] {
				bad("%s was told that it holds the pool; it does: %v, in the journal: %v", u.id, held[u.id], journal[u.id])
			}
		case u.step == 1 && u.got.ended():
			if u.again && held[u.id] { // It does not know whether the first call made a hold, and gives it back to be sure.
				u.step, u.left = 2, p.leave(u.id)
				continue
			}
			if held[u.id] {
				bad("%s was told that it does not hold the pool, and it does: %v", u.id, u.got.err)
			}
			u.step = 0
		case u.step == 2 && u.left.ended():
			if u.left.err != nil {
				bad("%s could not leave: %v", u.id, u.left.err)
			}
			if held[u.id] || u.left.teardown.Anomaly && !u.again {
				bad("%s has left and holds %v: %v", u.id, held[u.id], u.left.teardown)
			}
			u.step = 0
		}
	}
	for _, s := range []mount.Source{nas, nas2} {
		ours := 0
		p.mu.Lock()
		for _, e := range p.at(target(s)) {
			if e.Source == s.Device() {
				ours++
			}
		}
		p.mu.Unlock()
		if ours > 1 {
			bad("%s is mounted %d times", s, ours)
		}
	}
}

// inspect returns who holds something.
func (p *player) inspect(bad func(string, ...any)) map[string]bool {
	held := map[string]bool{}
	all, err := p.InspectAll(context.Background())
	if err != nil {
		bad("inspect: %v", err)
	}
	for _, st := range all {
		for _, h := range st.Holds {
			if !h.Derived {
				held[string(h.ID)] = true
			}
		}
	}
	return held
}

// journal returns who holds something according to the records.
func (p *player) journal() map[string]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	held := map[string]bool{}
	for _, records := range p.saved {
		for _, rec := range records {
			switch rec.Type {
			case hold.HoldAdded:
				held[string(rec.Hold.ID)] = true
			case hold.HoldRemoved:
				delete(held, string(rec.ID))
			default:
			}
		}
	}
	return held
}

// finish lets everything end well and checks that nothing is left.
func (p *player) finish() []string {
	p.open()
	p.libvirt.set(nil)
	for _, s := range []mount.Source{nas, nas2} {
		p.use(s)
		p.mu.Lock()
		p.machine[s] = false
		p.set(slices.DeleteFunc(slices.Clone(p.table), func(e mount.Entry) bool { return e.Source == "foreign" }))
		p.mu.Unlock()
	}
	for i := range p.users {
		u := &p.users[i]
		_ = p.Forget(context.Background(), u.pool.ID)
		_ = p.Resume(context.Background(), u.pool.ID)
	}
	time.Sleep(10 * time.Minute)
	synctest.Wait()
	var wrong []string
	for i := range p.users {
		u := &p.users[i]
		if u.step == 1 && !u.got.ended() || u.step == 2 && !u.left.ended() {
			wrong = append(wrong, u.id+" waits for ever")
			u.got.cancel()
		}
		if u.step == 1 && u.got.ended() && u.got.err == nil {
			if p.mounted(u.pool.Spec.Source) != 1 {
				wrong = append(wrong, fmt.Sprintf("%s holds what is mounted %d times", u.id, p.mounted(u.pool.Spec.Source)))
			}
			if td := p.give(u.id); td.Anomaly {
				wrong = append(wrong, u.id+" has lost its hold")
			}
		}
	}
	p.jobs.set(nil, "a", "b", "c", "d")
	return append(wrong, finish(p.rig)...)
}
