// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package observed

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-storage/holdfast/internal/model"
)

// HostStatus is what is true of a whole host.
type HostStatus struct {
	TakenPorts  []uint32   // TCP ports that someone else than Holdfast listens on
	TakenMinors []uint32   // DRBD minors of devices that are in no assignment
	Pools       []HeldPool // pools on mounts
	At          time.Time  // when the agent said it
	Current     bool
}

// HeldPool is a pool that lies on a mount, as its host has it.
type HeldPool struct {
	Pool      model.PoolName
	Source    string // such as server:/export
	Target    string // where the host has it
	State     string // of package agent/hold
	Options   string // of the mount as it is
	Identity  string // the uuid of the file system's marker
	Holds     []Hold
	Blockers  []string // who keeps it from being unmounted without a hold
	LastError string
	NextTry   time.Time // zero when none is due
}

// Hold is a claim of one user on a pool that lies on a mount.
type Hold struct {
	ID       string
	Kind     string // vm, volume, job, operator, probe
	Holder   string // for people
	ReadOnly bool
	Subpath  string
	Created  time.Time
	Waiting  bool      // not granted yet
	Derived  bool      // seen, not acquired: nobody can release it
	Broken   string    // why what it was granted on is of no use any more
	Orphan   time.Time // since when its holder is dead; zero while it lives
}

// Device is a block device that nobody uses and that has nothing on it.
type Device struct {
	Path       string
	Size       int64 // bytes
	Rotational bool
	Model      string
	Serial     string
	WWN        string
}

// JobKind is what a job does.
type JobKind string

// The kinds of jobs.
const (
	CopyJob     JobKind = "copy"     // a volume or snapshot into a volume
	DownloadJob JobKind = "download" // an image into a volume
	ExportJob   JobKind = "export"   // a volume or snapshot into a file
	ImportJob   JobKind = "import"   // a file into a volume
)

// Job is work on volumes and files of the pools of one host. It belongs to the host, which
// goes on with it without a controller.
type Job struct {
	ID       string // chosen by whoever starts it
	Kind     JobKind
	From     JobEnd // of a copy, an export and an import
	To       JobEnd
	URL      string // of a download
	Checksum string // that the result must have, as sha256:HEX, sha512:HEX or md5:HEX; empty for any
	Format   string // of the file: raw or qcow2; empty for raw
}

// JobEnd is a volume or a file.
type JobEnd struct {
	Resource model.DefinitionName // of a volume or snapshot
	Volume   model.VolumeNumber
	Snapshot model.SnapshotName
	Pool     model.PoolName // that a file lies in
	Path     string         // of a file, relative to the pool's folder
}

// JobState is how far a job came.
type JobState string

// The states of a job. It is over in the last three.
const (
	JobWaiting   JobState = "waiting"
	JobRunning   JobState = "running"
	JobDone      JobState = "done"      // the result was verified
	JobFailed    JobState = "failed"    // nothing of it is left
	JobCancelled JobState = "cancelled" // nothing of it is left
)

// Over tells whether a job in this state has ended.
func (s JobState) Over() bool { return s == JobDone || s == JobFailed || s == JobCancelled }

// JobStatus is the state of a job.
type JobStatus struct {
	Job
	State     JobState
	Done      int64    // bytes
	Total     int64    // bytes; zero when it is not known
	Result    string   // the checksum of the result, once it was verified
	Failure   *Failure // why it failed, or is being tried again
	Created   time.Time
	Ended     time.Time // zero while it goes on
	Forgotten bool      // the host keeps it no more; in reports alone
	Current   bool      // false: the node is away, or has not said it again since it came back
}

// JobID names a job of a node.
type JobID struct {
	Node model.NodeKey
	ID   string
}

func (s JobStatus) equal(o JobStatus) bool {
	return s.Job == o.Job && s.State == o.State && s.Done == o.Done && s.Total == o.Total && s.Result == o.Result &&
		equalFailure(s.Failure, o.Failure) && s.Created.Equal(o.Created) && s.Ended.Equal(o.Ended)
}

func (p HeldPool) equal(o HeldPool) bool {
	return p.Pool == o.Pool && p.Source == o.Source && p.Target == o.Target && p.State == o.State && p.Options == o.Options &&
		p.Identity == o.Identity && slices.EqualFunc(p.Holds, o.Holds, Hold.equal) && slices.Equal(p.Blockers, o.Blockers) &&
		p.LastError == o.LastError && p.NextTry.Equal(o.NextTry)
}

func (h Hold) equal(o Hold) bool {
	sameTimes := h.Created.Equal(o.Created) && h.Orphan.Equal(o.Orphan)
	h.Created, h.Orphan, o.Created, o.Orphan = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	return sameTimes && h == o
}

func (s HostStatus) equal(o HostStatus) bool {
	return slices.Equal(s.TakenPorts, o.TakenPorts) && slices.Equal(s.TakenMinors, o.TakenMinors) &&
		slices.EqualFunc(s.Pools, o.Pools, HeldPool.equal)
}

// host is a status with the session in which it was said.
type host struct {
	status  HostStatus
	session uint64
	known   bool
}

type job struct {
	status  JobStatus
	session uint64
}

// readJob returns a status as readers see it. The caller holds the lock.
func (n *node) readJob(j job) JobStatus {
	j.status.Current = n.current(j.session)
	return j.status
}

// Host returns what is true of a whole host, and whether its agent ever told.
func (s *State) Host(key model.NodeKey) (HostStatus, bool) {
	n := s.node(key)
	if n == nil {
		return HostStatus{}, false
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	st := n.host.status
	st.Current = n.host.known && n.current(n.host.session)
	return st, n.host.known
}

// Job returns the status of a job, and whether its node has it.
func (s *State) Job(id JobID) (JobStatus, bool) {
	n := s.node(id.Node)
	if n == nil {
		return JobStatus{}, false
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	j, ok := n.jobs[id.ID]
	if !ok {
		return JobStatus{}, false
	}
	return n.readJob(j), true
}

// Jobs yields the jobs of a node by age, as they were when the iteration began.
func (s *State) Jobs(key model.NodeKey) iter.Seq[JobStatus] {
	return func(yield func(JobStatus) bool) {
		n := s.node(key)
		if n == nil {
			return
		}
		n.mu.RLock()
		all := make([]JobStatus, 0, len(n.jobs))
		for _, j := range n.jobs {
			all = append(all, n.readJob(j))
		}
		n.mu.RUnlock()
		slices.SortFunc(all, func(a, b JobStatus) int { return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.ID, b.ID)) })
		for _, st := range all {
			if !yield(st) {
				return
			}
		}
	}
}

// takeJob keeps what was said of a job and reports whether it says anything new. The caller
// holds the lock.
func (n *node) takeJob(st JobStatus) bool {
	before, had := n.jobs[st.ID]
	if st.Forgotten {
		delete(n.jobs, st.ID)
		return had
	}
	n.jobs[st.ID] = job{status: st, session: n.session}
	return !had || !n.current(before.session) || !before.status.equal(st)
}

// takeHost keeps what was said of a host and reports whether it says anything new. The caller
// holds the lock.
func (n *node) takeHost(st HostStatus, now time.Time) bool {
	before := n.host
	st.At = now
	n.host = host{status: st, session: n.session, known: true}
	return !before.known || !n.current(before.session) || !before.status.equal(st)
}

// dropOldJobs forgets jobs that were not said again in the session that ends. The caller holds
// the lock.
func (n *node) dropOldJobs() {
	for id, j := range n.jobs {
		if j.session < n.session {
			delete(n.jobs, id)
		}
	}
}
