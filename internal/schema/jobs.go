// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// JobKind is what a job does.
type JobKind string

// The kinds of jobs, each with what its Object is the key of.
const (
	// AdjustGroup places what is missing for each definition of a group, in one pass.
	AdjustGroup JobKind = "adjust-group"
	// CompleteGroup does so for the definitions that are deployed, until all have what they shall.
	CompleteGroup JobKind = "complete-group"
	// CompleteDefinition does so for one definition.
	CompleteDefinition JobKind = "complete-definition"
	// EvacuateNode replaces the replicas of a node that is evacuated or was evicted.
	EvacuateNode JobKind = "evacuate-node"
	// LoseNode forgets a node with all that lies on it.
	LoseNode JobKind = "lose-node"
	// CloneDefinition fills a clone; of the clone.
	CloneDefinition JobKind = "clone-definition"
	// MigrateDisk gives a node a disk of a definition, and takes the one of another node away
	// when its data is there; of the resource that gets it, see OfResource.
	MigrateDisk JobKind = "migrate-disk"
)

// JobState is how far a job came.
type JobState string

// The states of jobs. A running one is worked on, or waits for its next try.
const (
	JobRunning   JobState = "running"
	JobDone      JobState = "done"
	JobFailed    JobState = "failed"
	JobCancelled JobState = "cancelled"
)

// Job is work of the leader that outlives calls and restarts. It is begun by the use case whose
// intent it carries, in the same transaction, and worked on by converge; doing any part of
// it again is harmless. There is at most one running job of a kind for an object.
type Job struct {
	ID       string    `json:"id"`
	Kind     JobKind   `json:"kind"`
	Object   string    `json:"object"` // key of what it works on
	Spec     JobSpec   `json:"spec,omitzero"`
	State    JobState  `json:"state"`
	Asked    int       `json:"asked"`              // how often it was asked for; more asks for a try at once
	Total    int       `json:"total,omitempty"`    // parts of the work, as far as known
	Done     int       `json:"done,omitempty"`     // of them
	Problems []string  `json:"problems,omitempty"` // of the newest try, the first few
	Failed   int       `json:"failed,omitempty"`   // parts with a problem in the newest try
	Attempts int       `json:"attempts,omitempty"` // tries in a row that brought no progress
	NextTry  time.Time `json:"next_try,omitzero"`  // zero: at once
	Created  time.Time `json:"created"`
	Updated  time.Time `json:"updated"`
	Ended    time.Time `json:"ended,omitzero"` // zero while it runs
}

// JobSpec is what a job was asked for beside its kind and object.
type JobSpec struct {
	Filter  *model.Filter `json:"filter,omitempty"`  // of AdjustGroup, over that of the group
	Targets []string      `json:"targets,omitempty"` // of EvacuateNode: the only nodes to go to
	Avoid   []string      `json:"avoid,omitempty"`   // of EvacuateNode: nodes not to go to
	From    model.NodeKey `json:"from,omitempty"`    // of MigrateDisk: the node that loses its disk
	UUID    string        `json:"uuid,omitempty"`    // of CloneDefinition: of the clone
	Source  *CloneSource  `json:"source,omitempty"`  // of CloneDefinition
}

// CloneSource is the hidden snapshot that a clone is made from.
type CloneSource struct {
	Definition model.DefinitionKey `json:"definition"`
	Snapshot   model.SnapshotKey   `json:"snapshot"`
}

// OfResource is what a job about one resource names it by.
func OfResource(id model.ResourceID) string { return string(id.Definition) + "/" + string(id.Node) }

// ResourceOf returns the resource that OfResource has named.
func ResourceOf(object string) model.ResourceID {
	definition, node, _ := strings.Cut(object, "/")
	return model.ResourceID{Definition: model.DefinitionKey(definition), Node: model.NodeKey(node)}
}

// JobTarget is a kind of work on an object.
type JobTarget struct {
	Kind   JobKind
	Object string
}

// LastError is the first problem of the newest try; empty when there was none.
func (j Job) LastError() string {
	if len(j.Problems) == 0 {
		return ""
	}
	return j.Problems[0]
}

// maxProblems bounds the problems that a job remembers.
const maxProblems = 20

// keptJobs is how many jobs that have ended are remembered.
const keptJobs = 100

// The collection of jobs.
var (
	Jobs = store.Define("job", func(j *Job) string { return j.ID })

	// JobsRunning keeps running jobs apart and finds them.
	JobsRunning = store.Unique(Jobs, "running job", func(j *Job) []JobTarget {
		if j.State != JobRunning {
			return nil
		}
		return []JobTarget{{j.Kind, j.Object}}
	})

	// jobsEnded finds the ended ones, the oldest first.
	jobsEnded = store.By(Jobs, "ended", func(j *Job) []int64 {
		if j.State == JobRunning {
			return nil
		}
		return []int64{j.Ended.UnixMilli()}
	})
)

// BeginJob begins a job, or joins the running one of its kind and object, which then has the
// new spec and is tried at once. It returns the job as it is now. The id and the time are
// used for a new job only.
func BeginJob(tx *store.Tx, target JobTarget, spec JobSpec, id string, now time.Time) (Job, error) {
	if j, running := JobsRunning.One(tx, target); running {
		j.Spec, j.Asked, j.Attempts, j.NextTry, j.Updated = spec, j.Asked+1, 0, time.Time{}, now
		return j, Jobs.Update(tx, j)
	}
	j := Job{ID: id, Kind: target.Kind, Object: target.Object, Spec: spec, State: JobRunning, Asked: 1, Created: now, Updated: now}
	return j, Jobs.Insert(tx, j)
}

// BeginLosing marks a node as lost and begins the job that forgets it with all that it has, or
// joins the one that does. From then on the node takes nothing new, and nothing more is moved
// away from it.
func BeginLosing(tx *store.Tx, n Node, id string, now time.Time) (Job, error) {
	if err := CancelJob(tx, JobTarget{EvacuateNode, string(n.Name.Key())}, now); err != nil {
		return Job{}, err
	}
	if !n.Deleting {
		n.Deleting = true
		if err := Nodes.Update(tx, n); err != nil {
			return Job{}, err
		}
	}
	return BeginJob(tx, JobTarget{LoseNode, string(n.Name.Key())}, JobSpec{}, id, now)
}

// JobTry is what one try at a job came to.
type JobTry struct {
	Total    int
	Done     int
	Problems []string  // of parts that could not be done
	State    JobState  // JobRunning when there is more to do
	Progress bool      // the try has brought the job further
	NextTry  time.Time // when there is more to do
}

// RecordTry writes what a try came to into its job, unless that has ended meanwhile. The
// asked count is the one that the job had when the try began: if it was asked for again
// since, it is not over and is tried again at once.
func RecordTry(tx *store.Tx, id string, asked int, t JobTry, now time.Time) error {
	j, ok := Jobs.Get(tx, id)
	if !ok || j.State != JobRunning {
		return nil
	}
	j.Total, j.Done, j.Failed, j.Updated = t.Total, t.Done, len(t.Problems), now
	j.Problems = slices.Clone(t.Problems[:min(len(t.Problems), maxProblems)])
	switch {
	case j.Asked != asked:
		j.NextTry = time.Time{}
	case t.State == JobRunning:
		j.NextTry = t.NextTry
		if j.Attempts++; t.Progress {
			j.Attempts = 0
		}
	default:
		return endJob(tx, j, t.State, now)
	}
	return Jobs.Update(tx, j)
}

// RecordProgress writes how far a try came that goes on.
func RecordProgress(tx *store.Tx, id string, total, finished int, now time.Time) error {
	j, ok := Jobs.Get(tx, id)
	if !ok || j.State != JobRunning || j.Total == total && j.Done == finished {
		return nil
	}
	j.Total, j.Done, j.Updated = total, finished, now
	return Jobs.Update(tx, j)
}

// AwaitJob waits until a job has ended, or ctx has, and returns the job as it is then. It is
// false for a job that is not there any more.
func AwaitJob(ctx context.Context, st *store.Store, id string) (Job, bool) {
	for {
		view := st.Snapshot()
		j, ok := Jobs.Get(view, id)
		if !ok || j.State != JobRunning || ctx.Err() != nil {
			return j, ok
		}
		for c, err := range st.Watch(ctx, view.Revision()) {
			if err != nil || slices.ContainsFunc(c.Changes, func(ch store.Change) bool {
				changed, _, is, of := Jobs.Changed(ch)
				return of && changed == id && (is == nil || is.State != JobRunning)
			}) {
				if errors.Is(err, store.ErrClosed) {
					return j, ok
				}
				break
			}
		}
	}
}

// CancelJob ends the running job of a kind and object, if there is one.
func CancelJob(tx *store.Tx, target JobTarget, now time.Time) error {
	j, running := JobsRunning.One(tx, target)
	if !running {
		return nil
	}
	return endJob(tx, j, JobCancelled, now)
}

// endJob ends a job, and forgets the oldest ones of those that have ended before.
func endJob(tx *store.Tx, j Job, state JobState, now time.Time) error {
	j.State, j.NextTry, j.Updated, j.Ended = state, time.Time{}, now, now
	if err := Jobs.Update(tx, j); err != nil {
		return err
	}
	const most = 8 // in one transaction, should the bound have been lowered
	ended := Jobs.Len(tx)
	for range JobsRunning.Values(tx, JobTarget{}) {
		ended--
	}
	for range min(ended-keptJobs, most) {
		for _, old := range jobsEnded.From(tx, 0) {
			if err := Jobs.Delete(tx, old.ID); err != nil {
				return err
			}
			break
		}
	}
	return nil
}
