// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package kvtest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast-storage/holdfast/internal/kv"
)

// Step is a place in an append where a test can hold it.
type Step int

const (
	// BeforeAppend is where nothing is written yet, and the owner was not checked yet.
	BeforeAppend Step = iota
	// BeforeAnswer is where the batch is durable, and the caller does not know.
	BeforeAnswer
)

// Gate holds one append at one step.
type Gate struct {
	// Reached is closed when the append has arrived at the step.
	Reached chan struct{}
	opened  chan error
}

// NewGate returns a gate for an engine that stands at it by Wait.
func NewGate() *Gate {
	return &Gate{Reached: make(chan struct{}), opened: make(chan error, 1)}
}

// Wait says that the gate was reached, and waits until it is opened or ctx ends. It returns what Open was given.
func (g *Gate) Wait(ctx context.Context) error {
	close(g.Reached)
	select {
	case err := <-g.opened:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Hold makes the next append of m stop at a step until the gate is opened. Several gates at one step hold one append each, in the
// order of the calls.
func (m *Memory) Hold(s Step) *Gate {
	g := NewGate()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gates[s] = append(m.gates[s], g)
	return g
}

// Open lets the append go on, with nil, or makes it fail with err. At [BeforeAppend] the append then fails with err and nothing is
// written; give an error that wraps [kv.ErrUnknown] for an outcome that the caller cannot learn. At [BeforeAnswer] the batch is
// durable and the answer is always [kv.ErrUnknown], with err as the reason. A gate is opened once.
func (g *Gate) Open(err error) { g.opened <- err }

// Release takes away the gates that no append has reached.
func (m *Memory) Release() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.gates)
}

// Fail makes every append of m fail with err, before anything is written, until Fail(nil). Use [kv.ErrFull] for a full disk.
func (m *Memory) Fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fault = err
}

// Crash ends m as a kill of its process would: an append that is held at [BeforeAppend] is never written, one that is held at
// [BeforeAnswer] is durable, and neither learns of it. Go on with Peer.
func (m *Memory) Crash() { m.end(fmt.Errorf("crashed: %w", kv.ErrUnknown)) }

// Compact forgets the history of the map except the newest batches.
func (m *Memory) Compact(keep int) {
	m.disk.mu.Lock()
	defer m.disk.mu.Unlock()
	if n := len(m.disk.history) - keep; n > 0 {
		m.disk.history = slices.Clone(m.disk.history[n:])
	}
}

// pass holds the append when there is a gate for the step.
func (m *Memory) pass(ctx context.Context, s Step) error {
	m.mu.Lock()
	var g *Gate
	if gs := m.gates[s]; len(gs) > 0 {
		g, m.gates[s] = gs[0], gs[1:]
	}
	m.mu.Unlock()
	if g == nil {
		return nil
	}
	close(g.Reached)
	select {
	case err := <-g.opened:
		return err
	case <-m.ended:
		return m.gone()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// broken returns the fault that was set, or why the engine is gone.
func (m *Memory) broken() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead != nil {
		return m.dead
	}
	return m.fault
}

func isUnknown(err error) bool { return errors.Is(err, kv.ErrUnknown) }
