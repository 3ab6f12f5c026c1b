// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package hold_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/holdfast-storage/holdfast/internal/agent/hold"
	"github.com/holdfast-storage/holdfast/internal/agent/mount"
)

// script is work that a host does: who acquires and who releases, in order.
var script = []struct {
	release bool
	id      string
	p       hold.Pool
}{
	{false, "a", pool}, {false, "b", pool}, {true, "a", pool}, {true, "b", pool}, // Up and down.
	{false, "c", pool}, {false, "d", hold.Pool{ID: "o", Spec: mount.Spec{Source: nas2}}}, {true, "c", pool}, {false, "c", pool}, // Two sources.
	{true, "d", pool}, {true, "c", pool}, {false, "e", pool},
}

// outcome is what those who work know when the process dies.
type outcome struct {
	mine    map[string]hold.Pool // They were told that they hold it, and have not given it back.
	perhaps map[string]hold.Pool // They got no answer.
}

// work runs the script until it ends or the process dies.
func work(r *rig) outcome {
	o := outcome{mine: map[string]hold.Pool{}, perhaps: map[string]hold.Pool{}}
	for _, step := range script {
		var err error
		if step.release {
			p := o.mine[step.id]
			delete(o.mine, step.id)
			r.unhold(p.Spec.Source, hold.ID(step.id))
			_, err = r.Release(context.Background(), hold.ID(step.id))
			if err != nil || r.p.dead() {
				o.perhaps[step.id] = p
			}
		} else if _, err = r.Acquire(context.Background(), step.p, req(step.id)); err == nil && !r.p.dead() {
			r.hold(step.p.Spec.Source, hold.ID(step.id))
			o.mine[step.id] = step.p
		} else {
			o.perhaps[step.id] = step.p
		}
		if r.p.dead() {
			return o
		}
	}
	return o
}

// TestDeathAfterEachEffect has the process die after each single thing that it does to the host or to its journal, and once more after each
// thing that its successor does.
func TestDeathAfterEachEffect(t *testing.T) {
	first := 0
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newWorld())
		work(r)
		r.give("e")
		synctest.Wait()
		r.stop()
		first = r.effects
	})
	if first < 30 {
		t.Fatalf("the script has only %d effects", first)
	}
	runs := 0
	for k := 1; k <= first; k++ {
		for again := 0; ; again++ { // Zero: the successor lives.
			runs++
			more := true
			synctest.Test(t, func(t *testing.T) {
				for _, wrong := range die(t, k, again, &more) {
					t.Errorf("death after effect %d, then %d: %s", k, again, wrong)
				}
			})
			if t.Failed() || !more {
				break
			}
		}
	}
	t.Logf("%d deaths of the first process, %d runs", first, runs)
}

// die runs the script until the kth effect, and its successor until another one. more is set to false when the successor had fewer.
func die(t *testing.T, k, again int, more *bool) (wrong []string) {
	t.Helper()
	r := start(t, newWorld())
	r.mu.Lock()
	r.dieAt = k
	r.mu.Unlock()
	o := work(r)
	synctest.Wait()
	r.crash()
	r.mu.Lock()
	r.dieAt, r.died = 0, make(chan struct{})
	if again > 0 {
		r.dieAt = r.effects + again
	}
	r.mu.Unlock()
	r.boot()
	synctest.Wait()
	if again == 0 || !r.p.dead() {
		wrong = append(wrong, kept(r, o)...)
	}
	// Everybody gives back what he has, or may have.
	for id, p := range o.mine {
		r.unhold(p.Spec.Source, hold.ID(id))
		_, _ = r.Release(context.Background(), hold.ID(id))
	}
	for id := range o.perhaps {
		_, _ = r.Release(context.Background(), hold.ID(id))
	}
	synctest.Wait()
	if again > 0 {
		*more = r.p.dead()
		r.mu.Lock()
		r.dieAt = 0
		r.mu.Unlock()
		r.restart()
		synctest.Wait()
		for _, o := range []map[string]hold.Pool{o.mine, o.perhaps} {
			for id := range o {
				_, _ = r.Release(context.Background(), hold.ID(id))
			}
		}
	}
	return append(wrong, finish(r)...)
}

// kept checks that those who were told that they hold something do so after a restart, and that nothing is mounted without a record.
func kept(r *rig, o outcome) (wrong []string) {
	all, err := r.InspectAll(context.Background())
	if err != nil {
		return []string{err.Error()}
	}
	var held []string
	for _, st := range all {
		for _, h := range st.Holds {
			held = append(held, string(h.ID))
			if _, known := o.perhaps[string(h.ID)]; !known && o.mine[string(h.ID)].ID == "" {
				wrong = append(wrong, fmt.Sprintf("hold %s is back", h.ID))
			}
		}
		if st.Mounted != (r.mounted(st.Source) == 1) {
			wrong = append(wrong, fmt.Sprintf("%s is reported as mounted: %v, and is mounted %d times", st.Source, st.Mounted, r.mounted(st.Source)))
		}
	}
	for id, p := range o.mine {
		if !slices.Contains(held, id) || r.mounted(p.Spec.Source) != 1 {
			wrong = append(wrong, fmt.Sprintf("%s was granted; held are %v, mounted %d times", id, held, r.mounted(p.Spec.Source)))
		}
	}
	known := map[string]bool{}
	for _, st := range all {
		known[st.Place] = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.table {
		if e.Target != "/" && !known[e.Target] {
			wrong = append(wrong, "nobody knows of "+e.String())
		}
	}
	return wrong
}
