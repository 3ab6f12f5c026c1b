// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"time"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/errs"
)

// Jobs does work on volumes and files of this host's pools. Jobs belong to the host: they go on
// without a controller, and Jobs itself sees to them over a restart. All methods may be called
// at once. Messages belong to whoever got them.
type Jobs interface {
	// Start begins a job, or joins the one that has its id.
	Start(ctx context.Context, j *agentpb.Job) (*agentpb.JobStatus, error)

	// Cancel ends a job and leaves nothing of it. One that has ended stays as it is.
	Cancel(ctx context.Context, id string) (*agentpb.JobStatus, error)

	// Forget keeps a job that has ended no more. One that is not there is forgotten.
	Forget(ctx context.Context, id string) error

	// Watch calls changed with each job, and then with each one that changes, until ctx ends.
	// One that was forgotten says so. Changed returns at once.
	Watch(ctx context.Context, changed func(*agentpb.JobStatus))

	// Clones returns the volumes that jobs have made for themselves to read. They stay NEW, and go
	// with their jobs.
	Clones() []pool.ID
}

// Holds keeps the mounts that pools of this host lie on. All methods may be called at once.
// Messages belong to whoever got them.
type Holds interface {
	// Inspect returns what is mounted for a pool, and who holds it.
	Inspect(ctx context.Context, pool string) (*agentpb.HeldPool, error)

	// Acquire gives an operator a hold. It may be called again.
	Acquire(ctx context.Context, r *agentpb.HoldRequest) (*agentpb.HeldPool, error)

	// Release releases a hold, and tells in words what became of the mount.
	Release(ctx context.Context, r *agentpb.HoldRequest) (held *agentpb.HeldPool, teardown string, err error)

	// Watch calls changed with all pools that lie on mounts, at first and then when something of
	// them has changed, until ctx ends. Changed returns at once.
	Watch(ctx context.Context, changed func([]*agentpb.HeldPool))
}

// Devices knows the block devices of this host. All methods may be called at once.
type Devices interface {
	// List returns those that nobody uses and that have nothing on them.
	List(ctx context.Context) ([]*agentpb.Device, error)

	// CreateBackend makes a volume group, a thin pool or a zpool.
	CreateBackend(ctx context.Context, b *agentpb.CreateBackend) error
}

// Numbers knows which numbers of this host are taken by others.
type Numbers interface {
	// Watch calls changed with the taken TCP ports and DRBD minors, at first and then when they
	// have changed, until ctx ends. Changed returns at once.
	Watch(ctx context.Context, changed func(ports, minors []uint32))
}

// A Suspender is a [Host] that can hold writers back. It is an optional ability.
type Suspender interface {
	// Suspend holds writers to all volumes of some resources back until the answer's Resume, at
	// most for limit, and not longer than this process lives.
	Suspend(ctx context.Context, wants []Want, limit time.Duration) (Suspension, error)
}

// Suspension is a time in which writers are held back.
type Suspension interface {
	// Resume lets writers go on. It returns the volumes that were written meanwhile all the same,
	// or may have been. A further call returns the same again.
	Resume() (written []pool.ID, err error)
}

// lacks is the answer to an ask for an ability that this agent does not have.
func (s *session) lacks(what string) error {
	return errs.New(errs.Unsupported, errs.Node, "node %s cannot %s", s.cfg.Node, what).
		Because("its agent was started without that")
}
