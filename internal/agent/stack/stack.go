// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"context"

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
	storage *storage
}

// New returns a Stack over pools that makes filesystems by runner.
func New(pools Pools, runner command.Runner) *Stack {
	return &Stack{storage: &storage{pools: pools, runner: runner}}
}

// Apply makes the host as w wants it and returns what was then observed. An error names the step that failed; calling Apply again
// with the same wish goes on from there. A volume in use that is to go is a *pool.InUseError, and then nothing was destroyed; a wish for a
// smaller volume is a *ShrinkError, told after everything else was done.
func (s *Stack) Apply(ctx context.Context, w Want) (Result, error) {
	have, err := Converge(ctx, s.storage, w)
	if err != nil {
		return Result{}, err
	}
	return s.result(w, have), nil
}

// Inspect returns what is observed of the replica and changes nothing.
func (s *Stack) Inspect(ctx context.Context, w Want) (Result, error) {
	have, err := s.storage.Observe(ctx, w)
	if err != nil {
		return Result{}, err
	}
	return s.result(w, have), nil
}

// result turns an observation into an answer.
func (s *Stack) result(w Want, have []found) Result {
	r := Result{State: Ready}
	if w.Destroy {
		r.State = Destroyed
	}
	if left, err := s.storage.Plan(w, have); err != nil || len(left) > 0 {
		r.State = Pending
	}
	for i, f := range have {
		if !f.exists || f.volume.New || f.volume.Lost {
			continue
		}
		v := VolumeHave{
			Number:     w.Volumes[i].Number,
			DevicePath: f.volume.Device.Path,
			Usable:     f.volume.Size,
			Allocated:  f.volume.Allocated,
			InUse:      len(f.holders) > 0,
		}
		for _, h := range f.holders {
			v.Holders = append(v.Holders, h.String())
		}
		if f.unknown != nil {
			v.UseUnknown = f.unknown.Error()
		}
		r.Volumes = append(r.Volumes, v)
	}
	return r
}
