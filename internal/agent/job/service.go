// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/command"
	"github.com/holdfast-storage/holdfast/internal/errs"
)

// Config is what jobs need. Dir, Host and Runner are required.
type Config struct {
	Dir    string // For the records of jobs, and for images on their way: the agent's own.
	Host   Host
	Runner command.Runner // Starts the workers.
	Argv   []string       // How a worker is started; see package worker.
	Log    *slog.Logger   // Nil: nothing is logged.

	Parallel int           // Jobs that are at work at once. Default 4.
	Keep     int           // Jobs that have ended and are kept. Default 100.
	Again    time.Duration // Between two tries to clean up. Default 10 s.
	Wait     time.Duration // Between two tries of a download, at first. Default 1 s.
}

// Service is the jobs of a host. Its methods may be called by many goroutines at once. It implements the agent's Jobs.
type Service struct {
	c     Config
	slots chan struct{}   // Has a value for each job at work.
	life  context.Context //nolint:containedctx // Its end is that of all jobs' work.
	stop  context.CancelFunc
	group sync.WaitGroup

	mu       sync.Mutex
	jobs     map[string]*job
	watchers map[chan *agentpb.JobStatus]bool
}

// Open returns the jobs of a host, and goes on with those that an earlier process left.
func Open(c Config) (*Service, error) {
	if c.Dir == "" || c.Host == nil || c.Runner == nil {
		return nil, errors.New("jobs need a folder, a host and a runner")
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.Parallel, c.Keep = cmp.Or(c.Parallel, 4), cmp.Or(c.Keep, 100)
	c.Again, c.Wait = cmp.Or(c.Again, 10*time.Second), cmp.Or(c.Wait, time.Second)
	s := &Service{
		c: c, slots: make(chan struct{}, c.Parallel), jobs: map[string]*job{}, watchers: map[chan *agentpb.JobStatus]bool{},
	}
	records, err := load(c.Dir, func(file string, why error) {
		c.Log.Error("the record of a job cannot be understood and was put aside", "file", file, "error", why)
	})
	if err != nil {
		return nil, fmt.Errorf("read the jobs of this host: %w", err)
	}
	s.life, s.stop = context.WithCancel(context.Background())
	for _, r := range records {
		j := s.add(r)
		if !over(r.status()) {
			s.begin(j)
		}
	}
	return s, nil
}

// Close ends the work on all jobs, and waits for that. They are gone on with by the next process.
func (s *Service) Close() {
	s.stop()
	s.group.Wait()
}

// job is one job. Its record is guarded by Service.mu.
type job struct {
	record record
	cancel context.CancelCauseFunc // Of its work. Nil while nothing is at work.
}

// errCancelled says that someone wants a job to end.
var errCancelled = errors.New("it was cancelled")

// Start begins a job, or joins the one that has its id.
func (s *Service) Start(ctx context.Context, want *agentpb.Job) (*agentpb.JobStatus, error) {
	if err := check(want); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life.Err() != nil {
		return nil, errs.New(errs.Unavailable, errs.Node, "no job is begun: the agent ends")
	}
	if j := s.jobs[want.GetId()]; j != nil {
		if !proto.Equal(j.record.status().GetJob(), want) {
			return nil, errs.New(errs.Invalid, errs.NoObject, "job %s is another one", want.GetId()).Fix("choose another id")
		}
		return j.record.copy(), nil
	}
	r := newRecord(want, time.Now())
	if err := r.save(s.c.Dir); err != nil {
		return nil, fmt.Errorf("note the job: %w", err)
	}
	j := s.add(r)
	s.begin(j) //nolint:contextcheck // A job outlives the call that starts it.
	s.tell(j)
	return j.record.copy(), nil
}

func (s *Service) add(r record) *job {
	j := &job{record: r}
	s.jobs[r.status().GetJob().GetId()] = j
	return j
}

// begin starts the work on a job. The caller holds s.mu, or nobody else has s.
func (s *Service) begin(j *job) {
	ctx, cancel := context.WithCancelCause(s.life)
	j.cancel = cancel
	if j.record.Cancelled {
		cancel(errCancelled)
	}
	s.group.Go(func() {
		defer cancel(nil)
		s.work(ctx, j)
	})
}

// Cancel ends a job and leaves nothing of it. One that has ended stays as it is.
func (s *Service) Cancel(ctx context.Context, id string) (*agentpb.JobStatus, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.jobs[id]
	if j == nil {
		return nil, errs.New(errs.NotFound, errs.NoObject, "job %s does not exist", id).Because("only the newest of those that have ended are kept")
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !over(j.record.status()) && !j.record.Cancelled {
		j.record.Cancelled = true
		if err := j.record.save(s.c.Dir); err != nil {
			j.record.Cancelled = false
			return nil, fmt.Errorf("note that the job is cancelled: %w", err)
		}
		j.cancel(errCancelled)
	}
	return j.record.copy(), nil
}

// Forget keeps a job that has ended no more. One that is not there is forgotten.
func (s *Service) Forget(_ context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.jobs[id]
	if j == nil {
		return nil
	}
	if !over(j.record.status()) {
		return errs.New(errs.InUse, errs.NoObject, "job %s goes on", id).Fix("cancel it first")
	}
	return s.drop(j)
}

// drop forgets a job that has ended. The caller holds s.mu.
func (s *Service) drop(j *job) error {
	st := j.record.copy()
	if err := j.record.remove(s.c.Dir); err != nil {
		return err
	}
	delete(s.jobs, st.GetJob().GetId())
	st.Forgotten = true
	s.send(st)
	return nil
}

// Get returns a job.
func (s *Service) Get(id string) (*agentpb.JobStatus, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.jobs[id]
	if j == nil {
		return nil, false
	}
	return j.record.copy(), true
}

// Active tells whether a job is there and not over.
func (s *Service) Active(id string) bool {
	st, ok := s.Get(id)
	return ok && !over(st)
}

// Clones returns the volumes that jobs have made for themselves to read. They stay NEW, and go with their jobs.
func (s *Service) Clones() []pool.ID {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []pool.ID
	for id, j := range s.jobs {
		if j.record.Clone {
			all = append(all, cloneOf(id))
		}
	}
	return all
}

// Watch calls changed with each job, and then with each one that changes, until ctx ends.
func (s *Service) Watch(ctx context.Context, changed func(*agentpb.JobStatus)) {
	const room = 1024
	feed := make(chan *agentpb.JobStatus, room)
	s.mu.Lock()
	for _, j := range s.jobs {
		changed(j.record.copy())
	}
	s.watchers[feed] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watchers, feed)
	}()
	for {
		select {
		case st := <-feed:
			changed(st)
		case <-ctx.Done():
			return
		}
	}
}

// tell tells watchers of a job. The caller holds s.mu.
func (s *Service) tell(j *job) { s.send(j.record.copy()) }

// send hands a status to all watchers. One that does not keep up misses what is told between two ends of jobs: those it gets for sure.
func (s *Service) send(st *agentpb.JobStatus) {
	for feed := range s.watchers {
		select {
		case feed <- st:
			continue
		default:
		}
		if !over(st) && !st.GetForgotten() {
			continue
		}
		select {
		case <-feed: // The oldest makes room.
		default:
		}
		select {
		case feed <- st:
		default:
		}
	}
}

// change changes a job's record and tells of it. With keep set, it is saved first, and nothing is changed when that fails.
func (s *Service) change(j *job, keep bool, f func(*record)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := j.record.clone()
	f(&next)
	if keep {
		if err := next.save(s.c.Dir); err != nil {
			return fmt.Errorf("note how far the job is: %w", err)
		}
	}
	j.record = next
	s.tell(j)
	return nil
}

// prune forgets the oldest of the jobs that have ended when there are too many.
func (s *Service) prune() {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ended []*job
	for _, j := range s.jobs {
		if over(j.record.status()) {
			ended = append(ended, j)
		}
	}
	slices.SortFunc(ended, func(a, b *job) int {
		return a.record.status().GetEnded().AsTime().Compare(b.record.status().GetEnded().AsTime())
	})
	for _, old := range ended[:max(0, len(ended)-s.c.Keep)] {
		if err := s.drop(old); err != nil {
			s.c.Log.Warn("an old job could not be forgotten", "job", old.record.status().GetJob().GetId(), "error", err)
		}
	}
}
