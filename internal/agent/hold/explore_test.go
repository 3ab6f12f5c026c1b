// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package hold_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/agent/hold"
	"github.com/holdfast-storage/holdfast/internal/agent/mount"
)

// chooser walks through all sequences of choices, one for each run, depth first.
type chooser struct {
	path  []int // The choice at each point of this run,
	width []int // and how many there were.
	at    int
	said  []string
}

// pick returns a number below n.
func (c *chooser) pick(n int, what func(int) string) int {
	if c.at == len(c.path) {
		c.path, c.width = append(c.path, 0), append(c.width, n)
	}
	i := c.path[c.at]
	c.at++
	c.said = append(c.said, what(i))
	return i
}

// next prepares for the next run, or returns false when all were made.
func (c *chooser) next() bool {
	for n := len(c.path) - 1; n >= 0; n-- {
		if c.path[n]+1 < c.width[n] {
			c.path, c.width = c.path[:n+1], c.width[:n+1]
			c.path[n]++
			c.at, c.said = 0, nil
			return true
		}
	}
	return false
}

// user takes a hold and gives it back, or gives up while he waits.
type user struct {
	id   string
	pool hold.Pool
	step int // 0: has not come; 1: acquires or holds; 2: has left or given up.
	got  *acquired
	left *released

	again bool // He has asked twice, because the first call got no answer.
}

// scope is what is explored: who comes, which calls wait for a verdict, and how often one of them may go wrong.
type scope struct {
	users  []user
	gated  []string
	cancel bool // Users may give up.
	crash  bool // The agent may die and be started again, as one of the faults.
	faults int
}

// TestSmallScopesAreExplored runs every order in which users, mounts and unmounts can follow each other, with every single fault.
func TestSmallScopesAreExplored(t *testing.T) {
	t.Parallel()
	same := hold.Pool{ID: "q", Spec: pool.Spec, Class: hold.Transfer}
	other := hold.Pool{ID: "o", Spec: mount.Spec{Source: nas2}, Class: hold.Transfer}
	scopes := map[string]scope{
		"one user and any two faults": {users: []user{{id: "a", pool: pool}}, gated: []string{"mount", "unmount", "users", "append"}, cancel: true, crash: true, faults: 2},
		"two users and any fault":     {users: []user{{id: "a", pool: pool}, {id: "b", pool: pool}}, gated: []string{"mount", "unmount", "append"}, crash: true, faults: 1},
		"two users who give up":       {users: []user{{id: "a", pool: pool}, {id: "b", pool: pool}}, gated: []string{"mount", "unmount", "users"}, cancel: true, crash: true, faults: 1},
		"three users of two pools":    {users: []user{{id: "a", pool: pool}, {id: "b", pool: same}, {id: "c", pool: pool}}, gated: []string{"mount", "unmount"}, faults: 1},
		"users of two sources":        {users: []user{{id: "a", pool: pool}, {id: "b", pool: other}}, gated: []string{"mount", "unmount"}, faults: 1},
	}
	for name, sc := range scopes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &chooser{}
			runs := 0
			for ok := true; ok; ok = c.next() {
				runs++
				var wrong []string
				synctest.Test(t, func(t *testing.T) { wrong = explore(t, sc, c) })
				if len(wrong) > 0 {
					t.Fatalf("run %d: %v\n%s", runs, c.said, strings.Join(wrong, "\n"))
				}
			}
			t.Logf("%d schedules", runs)
		})
	}
}

// faultsOf are the ways in which a call can go wrong.
func faultsOf(what string) []verdict {
	switch what {
	case "mount":
		return []verdict{fails(&mount.Error{Fault: mount.Failed, Code: 32}), lies, late(errors.New("late"))}
	case "unmount":
		return []verdict{fails(&mount.Error{Fault: mount.Busy, Errno: unix.EBUSY}), lies, late(errors.New("late"))}
	case "append":
		return []verdict{fails(unix.ENOSPC)}
	case "users":
		return []verdict{fails(context.DeadlineExceeded)}
	}
	return nil
}

// explore runs one schedule, and returns what went wrong.
func explore(t *testing.T, sc scope, c *chooser) []string {
	t.Helper()
	jobs := &registry{}
	r := start(t, newWorld(), func(c *hold.Config) {
		c.Limits.CheckEvery = time.Minute
		c.Liveness = map[hold.HolderKind]hold.Liveness{hold.Job: jobs}
	})
	synctest.Wait()
	r.gateAt(sc.gated...)
	users, faults := slices.Clone(sc.users), sc.faults
	for {
		type move struct {
			name string
			do   func()
		}
		var moves []move
		for i := range users {
			u := &users[i]
			switch {
			case u.step == 0:
				moves = append(moves, move{u.id + " comes", func() { u.step, u.got = 1, r.begin(u.pool, req(u.id)) }})
			case u.step == 1 && u.got.ended() && u.got.err == nil:
				moves = append(moves, move{u.id + " leaves", func() { u.step, u.left = 2, r.leave(u.id) }})
			case u.step == 1 && !u.got.ended() && sc.cancel:
				moves = append(moves, move{u.id + " gives up", func() { u.step = 2; u.got.cancel() }})
			}
		}
		for _, call := range r.calls() {
			moves = append(moves, move{call.what + " is done", func() { r.let(call, does) }})
			if faults == 0 {
				continue
			}
			for _, v := range faultsOf(call.what) {
				moves = append(moves, move{fmt.Sprintf("%s goes wrong (%+v)", call.what, v), func() { faults--; r.let(call, v) }})
			}
		}
		if sc.crash && faults > 0 && len(moves) > 0 {
			moves = append(moves, move{"the agent dies", func() { faults--; crash(r, users, sc.gated) }})
		}
		if len(moves) == 0 {
			break
		}
		moves[c.pick(len(moves), func(i int) string { return moves[i].name })].do()
		synctest.Wait()
	}
	wrong := ending(r, users)
	jobs.set(nil, "a", "b", "c") // Nobody holds anything any more. What a crash left behind is released in a while.
	return append(wrong, finish(r)...)
}

// crash kills the agent and starts it again. Whoever got no answer asks again.
func crash(r *rig, users []user, gated []string) {
	r.restart()
	r.gateAt(gated...)
	synctest.Wait()
	for i := range users {
		u := &users[i]
		if u.step == 1 && u.got.ended() && unanswered(u.got.err) {
			u.got, u.again = r.begin(u.pool, req(u.id)), true
		}
		if u.left != nil && u.left.ended() && unanswered(u.left.err) {
			u.left, u.again = r.leave(u.id), true
		}
	}
}

// unanswered tells whether an error comes from the death of the process, which would have told nobody.
func unanswered(err error) bool {
	return hold.IsKind(err, hold.ShuttingDown) || errors.Is(err, errDead)
}

// ending checks that everybody has an answer, and that those who hold the pool have it.
func ending(r *rig, users []user) (wrong []string) {
	r.open()
	time.Sleep(time.Minute) // Retries.
	synctest.Wait()
	for _, u := range users {
		switch {
		case !u.got.ended() || u.left != nil && !u.left.ended():
			wrong = append(wrong, u.id+" waits for ever")
		case u.left != nil && u.left.err != nil && !hold.IsKind(u.left.err, hold.NotRecorded):
			wrong = append(wrong, fmt.Sprintf("%s could not leave: %v", u.id, u.left.err))
		case u.left != nil && u.left.teardown.Anomaly && !u.again:
			wrong = append(wrong, u.id+" left what it did not hold")
		case u.left == nil && u.got.err == nil && u.step == 1:
			if r.mounted(u.pool.Spec.Source) != 1 {
				wrong = append(wrong, u.id+" holds what is not mounted")
			}
			r.give(u.id)
		case u.left == nil && u.again: // Perhaps the first call made a hold.
			r.give(u.id)
		case u.left != nil && u.left.err != nil: // It stays, as it was told.
			if td := r.give(u.id); td.Anomaly {
				wrong = append(wrong, u.id+" was told that its hold stays, and it is gone")
			}
		}
	}
	all, _ := r.InspectAll(context.Background())
	for _, st := range all {
		for _, h := range st.Holds {
			for _, u := range users {
				if u.id == string(h.ID) && (u.step == 1 || u.left != nil) && !hold.IsKind(u.got.err, hold.NotRecorded) {
					wrong = append(wrong, fmt.Sprintf("%s still holds; acquire said %v, release %+v", h.ID, u.got.err, u.left))
				}
			}
		}
	}
	return wrong
}

// finish checks that nothing is left when nobody holds anything, and ends the Set.
func finish(r *rig) (wrong []string) {
	time.Sleep(20 * time.Minute)
	synctest.Wait()
	all, err := r.InspectAll(context.Background())
	if err != nil {
		wrong = append(wrong, err.Error())
	}
	for _, st := range all {
		if st.State != hold.Absent || len(st.Holds) > 0 || r.mounted(st.Source) > 0 {
			wrong = append(wrong, fmt.Sprintf("%s is %s, held by %v, mounted %d times", st.Source, st.State, st.Holds, r.mounted(st.Source)))
		}
	}
	if err := r.Close(context.Background()); err != nil {
		wrong = append(wrong, err.Error())
	}
	r.p.end()
	return append(wrong, r.violations()...)
}
