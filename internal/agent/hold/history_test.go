// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package hold_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-storage/holdfast/internal/agent/hold"
	"github.com/holdfast-storage/holdfast/internal/agent/mount"
)

// asked and told are one call of a history.
type asked struct {
	what   string // "acquire", "release", "inspect"
	id     string
	source mount.Source
}

type told struct {
	failed  bool
	anomaly bool
	free    bool   // The release says that it was unmounted.
	held    string // What inspect says, in order.
}

// holders is the sequential specification: a set of ids. Acquire adds, release removes, and each release says whether it removed something. A
// release that leads to an unmount leaves nobody.
var holders = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		by := map[mount.Source][]porcupine.Operation{}
		for _, op := range history {
			s := op.Input.(asked).source
			by[s] = append(by[s], op)
		}
		return slices.Collect(maps.Values(by))
	},
	Init: func() any { return "" },
	Step: func(state, input, output any) (bool, any) {
		set, in, out := split(state.(string)), input.(asked), output.(told)
		switch in.what {
		case "acquire":
			if out.failed {
				return true, state
			}
			set[in.id] = true
		case "release":
			if set[in.id] == out.anomaly {
				return false, state
			}
			delete(set, in.id)
			if out.free && len(set) > 0 {
				return false, state
			}
		case "inspect":
			return out.held == state.(string), state
		}
		return true, join(set)
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %+v", input, output) },
}

func split(text string) map[string]bool {
	set := map[string]bool{}
	for id := range strings.FieldsSeq(text) {
		set[id] = true
	}
	return set
}

func join(set map[string]bool) string { return strings.Join(slices.Sorted(maps.Keys(set)), " ") }

// record runs clients at once and returns what they have asked and were told.
func record(t *testing.T, seed uint64) []porcupine.Operation {
	t.Helper()
	const clients, calls = 5, 40
	w := newWorld()
	w.decide = func(c *call) verdict {
		runtime.Gosched()
		if c.what == "mount" && rand.IntN(10) == 0 {
			return fails(&mount.Error{Fault: mount.Failed, Code: 32})
		}
		if c.what == "unmount" && rand.IntN(10) == 0 {
			return fails(&mount.Error{Fault: mount.Busy})
		}
		return does
	}
	r := start(t, w, func(c *hold.Config) {
		c.Limits.MountRetry = hold.Backoff{First: time.Microsecond, Last: time.Millisecond}
		c.Limits.UnmountRetry = c.Limits.MountRetry
	})
	defer r.stop()
	pools := []hold.Pool{pool, {ID: "o", Spec: mount.Spec{Source: nas2}, Class: hold.Transfer}}
	var mu sync.Mutex
	var history []porcupine.Operation
	begin := time.Now()
	together(clients, func(client int) {
		random := rand.New(rand.NewPCG(seed, uint64(client)))
		for range calls {
			p := pools[random.IntN(2)]
			in := asked{what: []string{"acquire", "acquire", "release", "release", "inspect"}[random.IntN(5)], source: p.Spec.Source}
			in.id = fmt.Sprintf("%s%d", p.ID, random.IntN(3)) // Few, so that clients get in each other's way.
			called := time.Since(begin)
			out := r.ask(p, in)
			op := porcupine.Operation{ClientId: client, Input: in, Call: int64(called), Output: out, Return: int64(time.Since(begin))}
			mu.Lock()
			history = append(history, op)
			mu.Unlock()
		}
	})
	for _, p := range pools {
		for i := range 3 {
			_, _ = r.Release(context.Background(), hold.ID(fmt.Sprintf("%s%d", p.ID, i)))
		}
	}
	return history
}

func (r *rig) ask(p hold.Pool, in asked) told {
	switch in.what {
	case "acquire":
		_, err := r.Acquire(context.Background(), p, req(in.id))
		// Who was granted nothing because it was given back before, had it for a moment.
		return told{failed: err != nil && !hold.IsKind(err, hold.Released)}
	case "release":
		td, err := r.Release(context.Background(), hold.ID(in.id))
		return told{failed: err != nil, anomaly: td.Anomaly, free: td.Outcome == hold.Done}
	}
	st, _ := r.Inspect(context.Background(), p.ID)
	set := map[string]bool{}
	for _, h := range st.Holds {
		if !h.Waiting {
			set[string(h.ID)] = true
		}
	}
	return told{held: join(set)}
}

func TestConcurrentHistoriesAreLinearizable(t *testing.T) {
	for seed := range uint64(40) {
		history := record(t, seed)
		if !porcupine.CheckOperations(holders, history) {
			t.Fatalf("seed %d: no order of the calls explains what was told:\n%s", seed, describe(history))
		}
		// And it is not that everything is believed: here one hold is given back twice.
		end := int64(time.Hour)
		for i, what := range []string{"acquire", "release", "release"} {
			history = append(history, porcupine.Operation{
				Input: asked{what: what, id: "x", source: nas}, Output: told{}, Call: end + int64(2*i), Return: end + int64(2*i+1),
			})
		}
		if porcupine.CheckOperations(holders, history) {
			t.Fatalf("seed %d: a double release was believed", seed)
		}
	}
}

func describe(history []porcupine.Operation) string {
	var b strings.Builder
	for _, op := range history {
		fmt.Fprintf(&b, "%d: %d-%d %s\n", op.ClientId, op.Call, op.Return, holders.DescribeOperation(op.Input, op.Output))
	}
	return b.String()
}
