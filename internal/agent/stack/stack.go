// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"context"
	"errors"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/command"
)

// Pools gives the drivers of this host's pools.
type Pools interface {
	// Driver returns the driver of a pool. A pool that this host does not have, or has with another provider, is a *pool.NotFoundError.
	Driver(name, provider string) (pool.Driver, error)
}

// Stack applies wishes for replicas to this host.
type Stack struct {
	pools  Pools
	runner command.Runner
}

// New returns a Stack over pools that makes filesystems by runner.
func New(pools Pools, runner command.Runner) *Stack {
	return &Stack{pools: pools, runner: runner}
}

// Apply makes the host as w wants it and returns what was then observed. An error names the step that failed; calling Apply again
// with the same wish goes on from there.
func (s *Stack) Apply(ctx context.Context, w Want) (Result, error) {
	return Result{}, errors.ErrUnsupported
}

// Inspect returns what is observed of the replica and changes nothing.
func (s *Stack) Inspect(ctx context.Context, w Want) (Result, error) {
	return Result{}, errors.ErrUnsupported
}
