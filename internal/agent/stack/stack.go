// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/inuse"
	"github.com/holdfast-storage/holdfast/internal/command"
)

// Pools gives the drivers of this host's pools.
type Pools interface {
	// Driver returns the driver of a pool. A pool that this host does not have, or has with another provider, is a *pool.NotFoundError.
	Driver(name, provider string) (pool.Driver, error)
}

// Encrypter is what Pools are that have encrypted volumes. It is an optional ability.
type Encrypter interface {
	// Encrypted returns the driver of the encrypted volumes in a pool, and refuses as Driver does.
	Encrypted(name, provider string) (pool.Driver, error)
}

// Stack applies wishes for replicas to this host.
type Stack struct {
	storage *storage
}

// Option says how a Stack works.
type Option func(*storage)

// Patience is how long Apply waits for work that may take long, and then goes on in the background.
func Patience(d time.Duration) Option { return func(s *storage) { s.patience = d } }

// Copies is how many volumes are copied at once in each pool.
func Copies(n int) Option { return func(s *storage) { s.jobs.perPool = n } }

// Changed is called with the name of a resource when work on it in the background has ended, well or not, and no call of Apply waited for it. It must return at once.
func Changed(f func(resource string)) Option { return func(s *storage) { s.jobs.changed = f } }

// What a Stack does without options.
const (
	DefaultPatience = time.Second
	DefaultCopies   = 4
)

// New returns a Stack over pools that makes filesystems by runner.
func New(pools Pools, runner command.Runner, options ...Option) *Stack {
	s := &storage{
		pools: pools, runner: runner, jobs: newJobs(), patience: DefaultPatience, copyDevice: copyDevice, growFilesystem: growMounted,
	}
	s.jobs.perPool = DefaultCopies
	for _, o := range options {
		o(s)
	}
	return &Stack{storage: s}
}

// Close breaks off all work in the background and waits for its end. No work is begun any more.
func (s *Stack) Close() { s.storage.jobs.close() }

// Apply makes the host as w wants it and returns what was then observed. An error names the steps that failed, as [FailedSteps] tells; calling Apply again
// with the same wish goes on from there. A volume in use that is to go is a *pool.InUseError, and then nothing was destroyed; one that is to be rolled back is one,
// too, and then none was rolled back; a wish for a smaller volume is a *ShrinkError. The last two are told after everything else was done.
//
// Copies may take long. After a while they go on in the background: the result is then Pending and tells how far they are, and Apply is to be called again when
// the function of Changed was. A copy that failed is told by the next call, and tried again by the one after it. A wish that does not want the copy any more breaks it off.
func (s *Stack) Apply(ctx context.Context, w Want) (Result, error) {
	have, err := Converge(inuse.Sharing(withMade(ctx)), s.storage, w)
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
func (s *Stack) result(w Want, h have) Result {
	r := Result{State: Ready}
	if w.Destroy {
		r.State = Destroyed
	}
	r.Work = work(h)
	if left, err := s.storage.Plan(w, h); err != nil || len(left) > 0 || len(r.Work) > 0 {
		r.State = Pending
	}
	for i, f := range h.volumes {
		if !f.finished() {
			continue
		}
		v := VolumeHave{
			Number:     w.Volumes[i].Number,
			DevicePath: f.volume.Device.Path,
			Backing:    f.volume.Backing,
			Usable:     f.volume.Size,
			Allocated:  f.volume.Allocated,
			InUse:      len(f.holders) > 0,
			RolledBack: f.volume.RolledBack,
		}
		for _, h := range f.holders {
			v.Holders = append(v.Holders, h.String())
		}
		if f.unknown != nil {
			v.UseUnknown = f.unknown.Error()
		}
		r.Volumes = append(r.Volumes, v)
	}
	for i, f := range h.snapshots {
		if f.complete() && !f.job.running {
			r.Snapshots = append(r.Snapshots, snapshotHave(w.Snapshots[i], f))
		}
		if !f.job.running && !slices.ContainsFunc(f.parts, func(p foundPart) bool { return p.exists }) {
			r.Absent = append(r.Absent, w.Snapshots[i].Name)
		}
	}
	return r
}

// work returns what goes on in the background.
func work(h have) []Work {
	var list []Work
	for _, f := range h.volumes {
		if f.job.running {
			list = append(list, f.job.work)
		}
	}
	for _, f := range h.snapshots {
		if f.job.running {
			list = append(list, f.job.work)
		}
	}
	return list
}

func snapshotHave(sw SnapshotWant, f foundSnapshot) SnapshotHave {
	s := SnapshotHave{Name: sw.Name}
	for i, p := range f.parts {
		s.Volumes = append(s.Volumes, SnapshotVolumeHave{Number: sw.Volumes[i].Number, Size: p.snapshot.Size, Allocated: p.snapshot.Allocated})
		if p.snapshot.Created.After(s.Created) {
			s.Created = p.snapshot.Created
		}
	}
	return s
}
