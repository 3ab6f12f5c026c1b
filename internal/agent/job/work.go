// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/agent/mount"
	"github.com/holdfast-storage/holdfast/internal/agent/worker"
)

// work does a job to its end, unless the service ends before.
func (s *Service) work(ctx context.Context, j *job) {
	select {
	case s.slots <- struct{}{}:
	case <-ctx.Done():
		if s.life.Err() != nil {
			return
		}
		s.slots <- struct{}{} // To clean up.
	}
	defer func() { <-s.slots }()
	id := j.record.status().GetJob().GetId() // It never changes.
	log := s.c.Log.With("job", id)
	if err := s.waitForOld(j); err != nil {
		return
	}
	r := &run{Service: s, job: j, want: j.record.status().GetJob(), held: map[string]func(){}}
	defer r.releaseAll()
	result, err := r.attempt(ctx)
	if err == nil {
		err = r.tidyUp()
	}
	if s.life.Err() != nil {
		return // The next process goes on.
	}
	if err == nil {
		r.end(agentpb.JobStatus_DONE, result.Checksum, nil)
		log.Info("job done", "kind", r.want.GetKind().String(), "checksum", result.Checksum)
		return
	}
	cancelled := errors.Is(context.Cause(ctx), errCancelled)
	if r.giveUp(err, cancelled); s.life.Err() != nil {
		return
	}
	state := agentpb.JobStatus_FAILED
	if cancelled {
		state = agentpb.JobStatus_CANCELLED
	}
	r.end(state, "", err)
	log.Warn("job ended without a result", "kind", r.want.GetKind().String(), "state", state.String(), "error", err)
}

// waitForOld waits until the worker of an earlier process has ended. It is an error when this process ends before.
func (s *Service) waitForOld(j *job) error {
	const every = 200 * time.Millisecond
	s.mu.Lock()
	pid, start := j.record.PID, j.record.Start
	s.mu.Unlock()
	for pid != 0 && mount.Alive(pid, start) {
		select {
		case <-time.After(every):
		case <-s.life.Done():
			return s.life.Err()
		}
	}
	return nil
}

// run is one try of a job.
type run struct {
	*Service

	job   *job
	want  *agentpb.Job
	held  map[string]func() // What releases the pools that are held.
	ended bool              // That it has ended was noted.
}

// releaseAll ends the holds of a job that has ended. Those of one that the next process goes on with stay.
func (r *run) releaseAll() {
	if !r.ended && r.life.Err() != nil {
		return
	}
	for _, release := range r.held {
		release()
	}
}

// hold holds a pool for the rest of the job.
func (r *run) hold(ctx context.Context, pool string) error {
	if r.held[pool] != nil {
		return nil
	}
	release, err := r.c.Host.Hold(ctx, pool, "job/"+r.want.GetId()+"/"+pool)
	if err == nil {
		r.held[pool] = release
	}
	return err
}

// attempt does all steps.
func (r *run) attempt(ctx context.Context) (o outcome, err error) {
	if err := ctx.Err(); err != nil {
		return o, context.Cause(ctx)
	}
	r.mu.Lock()
	failed, verified, touched := r.job.record.Failed, r.job.record.Verified, r.job.record.Touched
	r.mu.Unlock()
	switch {
	case failed != "": // An earlier process was about to clean up.
		return o, errors.New(failed)
	case verified != nil: // It has come very far.
		return *verified, r.publish(ctx)
	}
	method, t, place, err := r.prepare(ctx)
	if err != nil {
		return o, err
	}
	if err := r.change(r.job, true, func(n *record) {
		n.decoded.State, n.Touched = agentpb.JobStatus_RUNNING, true
		n.decoded.Failure = nil
	}); err != nil {
		return o, err
	}
	err = r.call(ctx, method, t, place, &o)
	if refused, ok := errors.AsType[*RefusedError](err); ok {
		if !touched { // Else an earlier process has written.
			r.untouched()
		}
		return o, refused
	}
	if err != nil {
		return o, err
	}
	if err := r.change(r.job, true, func(n *record) { n.Verified = &o }); err != nil {
		return o, err
	}
	return o, r.publish(ctx)
}

// publish gives the file of an export that was verified its name.
func (r *run) publish(ctx context.Context) error {
	if r.want.GetKind() != agentpb.Job_EXPORT {
		return nil
	}
	place, err := r.folder(ctx, r.want.GetTo().GetPool())
	if err != nil {
		return err
	}
	return r.call(ctx, publishMethod, task{File: r.want.GetTo().GetPath(), Draft: draftOf(r.want)}, place, &outcome{})
}

// untouched notes that the job has written nothing.
func (r *run) untouched() {
	if err := r.change(r.job, true, func(n *record) { n.Touched = false }); err != nil {
		r.c.Log.Warn("a record of a job could not be written", "job", r.want.GetId(), "error", err)
	}
}

// prepare finds and holds what the job works on. Nothing is written yet.
func (r *run) prepare(ctx context.Context) (method string, t task, place *worker.Place, err error) {
	t = task{URL: r.want.GetUrl(), Checksum: r.want.GetChecksum(), Format: r.want.GetFormat(), Wait: r.c.Wait}
	method = map[agentpb.Job_Kind]string{
		agentpb.Job_COPY: copyMethod, agentpb.Job_DOWNLOAD: downloadMethod, agentpb.Job_EXPORT: exportMethod, agentpb.Job_IMPORT: importMethod,
	}[r.want.GetKind()]
	if method == copyMethod || method == exportMethod {
		if t.Source, err = r.source(ctx); err != nil {
			return method, t, nil, err
		}
	}
	if method != exportMethod {
		if t.Target, err = r.target(ctx); err != nil {
			return method, t, nil, err
		}
	}
	switch method {
	case exportMethod:
		t.File = r.want.GetTo().GetPath()
		t.Draft = draftOf(r.want)
		place, err = r.folder(ctx, r.want.GetTo().GetPool())
	case importMethod:
		t.File = r.want.GetFrom().GetPath()
		place, err = r.folder(ctx, r.want.GetFrom().GetPool())
	case downloadMethod:
		t.Scratch = r.scratch()
		t.Reached = r.reached()
	}
	return method, t, place, err
}

// draftOf is the name of an export's file until it is whole, in the same folder.
func draftOf(j *agentpb.Job) string {
	return path.Join(path.Dir(j.GetTo().GetPath()), ".holdfast-job-"+j.GetId()+".part")
}

func (r *run) scratch() string {
	return filepath.Join(r.c.Dir, r.want.GetId()+".image")
}

func (r *run) reached() *reached {
	r.mu.Lock()
	defer r.mu.Unlock()
	var at reached
	if len(r.job.record.Reached) == 0 || json.Unmarshal(r.job.record.Reached, &at) != nil {
		return nil
	}
	return &at
}

func (r *run) folder(ctx context.Context, pool string) (*worker.Place, error) {
	if err := r.hold(ctx, pool); err != nil {
		return nil, err
	}
	p, err := r.c.Host.Folder(ctx, pool)
	return &p, err
}

// call has a worker do a task.
func (r *run) call(ctx context.Context, method string, t task, place *worker.Place, o *outcome) error {
	w, err := worker.Start(ctx, worker.Config{Kind: KindName, Codec: codec(), Runner: r.c.Runner, Argv: r.c.Argv, Place: place})
	if w != nil {
		defer func() { // Nothing is given back, and no other worker begins, before this one is gone.
			w.Kill(errors.New("its work is over"))
			select {
			case <-w.Gone():
			case <-r.life.Done():
			}
		}()
	}
	if err != nil {
		return fmt.Errorf("start the work: %w", err)
	}
	pid, start := w.Process()
	if err := r.change(r.job, true, func(n *record) { n.PID, n.Start = pid, start }); err != nil {
		return err
	}
	return w.Call(ctx, method, t, o, r.hear)
}

// hear takes what the worker tells.
func (r *run) hear(text json.RawMessage) {
	var n news
	if json.Unmarshal(text, &n) != nil {
		return
	}
	err := r.change(r.job, n.Reached != nil, func(rec *record) {
		rec.decoded.Done, rec.decoded.Total = n.Done, n.Total
		if n.Reached != nil {
			rec.Reached, _ = json.Marshal(n.Reached)
		}
		switch {
		case n.Problem != "":
			attempts := rec.decoded.GetFailure().GetAttempts() + 1
			rec.decoded.Failure = &agentpb.Failure{Step: "download", Message: n.Problem, Attempts: attempts}
		case rec.decoded.GetFailure() != nil:
			rec.decoded.Failure = nil
		}
	})
	if err != nil {
		r.c.Log.Warn("a record of a job could not be written", "job", r.want.GetId(), "error", err)
	}
}

// end notes the end of a job. Until that could be noted it has not ended.
func (r *run) end(state agentpb.JobStatus_State, checksum string, why error) {
	for r.life.Err() == nil {
		err := r.change(r.job, true, func(n *record) {
			n.decoded.State, n.decoded.Checksum, n.decoded.Ended = state, checksum, timestamppb.Now()
			n.decoded.Failure, n.PID, n.Start, n.Reached, n.Touched = nil, 0, 0, nil, false
			if why != nil {
				n.decoded.Failure = &agentpb.Failure{Step: stepOf(r.want), Message: why.Error()}
			} else {
				n.decoded.Done = n.decoded.GetTotal()
			}
		})
		if err == nil {
			r.ended = true
			break
		}
		r.c.Log.Warn("the end of a job could not be noted", "job", r.want.GetId(), "error", err)
		select {
		case <-time.After(r.c.Again):
		case <-r.life.Done():
		}
	}
	r.prune()
}

func stepOf(j *agentpb.Job) string {
	return map[agentpb.Job_Kind]string{
		agentpb.Job_COPY: "copy the volume", agentpb.Job_DOWNLOAD: "download the image", agentpb.Job_EXPORT: "export the volume",
		agentpb.Job_IMPORT: "import the image",
	}[j.GetKind()]
}

// giveUp removes what is left of a job that has no result. It goes on trying until nothing is left, or this process ends.
func (r *run) giveUp(why error, cancelled bool) {
	if err := r.change(r.job, true, func(n *record) {
		if !cancelled {
			n.Failed = why.Error()
		}
	}); err != nil {
		r.c.Log.Warn("a record of a job could not be written", "job", r.want.GetId(), "error", err)
	}
	for {
		err := r.clean(r.life)
		if err == nil || r.life.Err() != nil {
			return
		}
		r.c.Log.Warn("what is left of a job could not be removed", "job", r.want.GetId(), "error", err)
		_ = r.change(r.job, false, func(n *record) {
			attempts := n.decoded.GetFailure().GetAttempts() + 1
			n.decoded.Failure = &agentpb.Failure{
				Step: "remove what is left", Message: fmt.Sprintf("%v; the job ends by: %v", err, why), Attempts: attempts,
				NextTry: timestamppb.New(time.Now().Add(r.c.Again)),
			}
		})
		select {
		case <-time.After(r.c.Again):
		case <-r.life.Done():
			return
		}
	}
}

// clean removes what is left of a job that has no result.
func (r *run) clean(ctx context.Context) error {
	if err := r.tidy(ctx); err != nil {
		return err
	}
	r.mu.Lock()
	touched := r.job.record.Touched
	r.mu.Unlock()
	if !touched {
		return nil
	}
	t, place, err := r.leftovers(ctx)
	if err != nil || t == (task{}) {
		return err
	}
	if err := r.call(ctx, wipeMethod, t, place, &outcome{}); err != nil {
		return err
	}
	r.untouched()
	return nil
}

// leftovers says what a worker has to remove.
func (r *run) leftovers(ctx context.Context) (t task, place *worker.Place, err error) {
	if r.want.GetKind() == agentpb.Job_EXPORT {
		place, err = r.folder(ctx, r.want.GetTo().GetPool())
		return task{Draft: draftOf(r.want)}, place, err
	}
	t.Target, err = r.target(ctx)
	if absent(err) { // Nothing can be left of it.
		return task{}, nil, nil
	}
	return t, nil, err
}

// tidyUp is tidy, tried until it succeeds or this process ends.
func (r *run) tidyUp() error {
	for {
		err := r.tidy(r.life)
		if err == nil || r.life.Err() != nil {
			return err
		}
		r.c.Log.Warn("what a job needed could not be removed", "job", r.want.GetId(), "error", err)
		select {
		case <-time.After(r.c.Again):
		case <-r.life.Done():
		}
	}
}

// tidy removes what a job needs only while it goes on.
func (r *run) tidy(ctx context.Context) error {
	if err := os.Remove(r.scratch()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return r.removeClone(ctx)
}
