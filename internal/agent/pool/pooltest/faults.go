// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package pooltest

import (
	"context"
	"errors"
	"slices"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
)

// Op is a method of a pool driver.
type Op string

// The methods.
const (
	Space   Op = "space"
	List    Op = "list"
	Find    Op = "find"
	Holders Op = "holders"
	Check   Op = "check"
	Create  Op = "create"
	Finish  Op = "finish"
	Open    Op = "open"
	Close   Op = "close"
	Grow    Op = "grow"
	Remove  Op = "remove"

	TakeSnapshot   Op = "take"
	FinishSnapshot Op = "finish snapshot"
	Snapshots      Op = "snapshots"
	RemoveSnapshot Op = "remove snapshot"
	Clone          Op = "clone"
	RollBack       Op = "roll back"
	Suspend        Op = "suspend"
	Resume         Op = "resume"

	// Copy is no method but the middle of one that copies: a half of what it makes is there. What fails here leaves that half behind, as an agent does that
	// is killed.
	Copy Op = "copy"
)

// Fault makes calls of a Memory fail.
type Fault struct {
	Op    Op      // Empty: all.
	ID    pool.ID // Zero: all volumes. Snapshots go by their volume, clones by what they become.
	After bool    // The call does its work first, and then its answer is lost.
	Times int     // How often. Zero: until it is healed.
	Err   error
}

// Inject makes calls fail until the returned function is called.
func (m *Memory) Inject(f Fault) (heal func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	fault := &f
	m.faults = append(m.faults, fault)
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.faults = slices.DeleteFunc(m.faults, func(other *Fault) bool { return other == fault })
	}
}

// Gate stops one call before it does anything.
type Gate struct {
	op      Op
	id      pool.ID
	arrived chan struct{}
	open    chan struct{}
}

// Stop makes the next call of op for a volume, or with a zero id for any, wait at the returned gate.
func (m *Memory) Stop(op Op, id pool.ID) *Gate {
	m.mu.Lock()
	defer m.mu.Unlock()
	g := &Gate{op: op, id: id, arrived: make(chan struct{}), open: make(chan struct{})}
	m.gates = append(m.gates, g)
	return g
}

// Arrived is closed when the call has come to the gate.
func (g *Gate) Arrived() <-chan struct{} { return g.arrived }

// Open lets the call go on. It must be called once.
func (g *Gate) Open() { close(g.open) }

// Calls returns the calls so far as "create db/0", in the order in which they began to work, without the ones that only look.
func (m *Memory) Calls() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.calls)
}

// do runs fn as the work of a call.
func (m *Memory) do(ctx context.Context, op Op, id pool.ID, fn func() error) error {
	if op == Space || op == List || op == Check || op == Snapshots {
		return m.call(ctx, op, id, "", fn)
	}
	if err := errors.Join(ctx.Err(), id.Validate()); err != nil {
		return err
	}
	if op == Find || op == Holders {
		return m.call(ctx, op, id, "", fn)
	}
	return m.call(ctx, op, id, id.String(), fn)
}

// call is do for a call that is listed as shown, or not at all when that is empty.
func (m *Memory) call(ctx context.Context, op Op, id pool.ID, shown string, fn func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := m.wait(ctx, op, id); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if shown != "" {
		m.calls = append(m.calls, string(op)+" "+shown)
	}
	if err := m.fault(op, id, false); err != nil {
		return err
	}
	if err := fn(); err != nil {
		return err
	}
	return m.fault(op, id, true)
}

// wait waits at the first gate for a call.
func (m *Memory) wait(ctx context.Context, op Op, id pool.ID) error {
	m.mu.Lock()
	i := slices.IndexFunc(m.gates, func(g *Gate) bool { return g.op == op && matches(g.id, id) })
	if i < 0 {
		m.mu.Unlock()
		return nil
	}
	g := m.gates[i]
	m.gates = slices.Delete(m.gates, i, i+1)
	m.mu.Unlock()
	close(g.arrived)
	select {
	case <-g.open:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// fault returns the error that a call is to fail with.
func (m *Memory) fault(op Op, id pool.ID, after bool) error {
	for i, f := range m.faults {
		if f.After != after || f.Op != "" && f.Op != op || !matches(f.ID, id) {
			continue
		}
		if f.Times > 0 {
			if f.Times--; f.Times == 0 {
				m.faults = slices.Delete(m.faults, i, i+1)
			}
		}
		return f.Err
	}
	return nil
}

func matches(wanted, id pool.ID) bool {
	return wanted == (pool.ID{}) || wanted.Fold() == id.Fold()
}
