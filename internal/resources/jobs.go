// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/schema"
)

// Progress is told how many parts a job has, and how many of them are finished.
type Progress func(total, finished int)

// Work makes one try at a job, and returns what came of it. Each part of the work is committed
// by itself, and what is finished is left alone by the next try, so a try may end anywhere.
// It may be called for several jobs at once.
func (s *Resources) Work(ctx context.Context, j schema.Job, progress Progress) schema.JobTry {
	switch j.Kind {
	case schema.AdjustGroup:
		return s.adjust(ctx, j, progress)
	case schema.CompleteGroup, schema.CompleteDefinition:
		return s.complete(ctx, j, progress)
	case schema.EvacuateNode:
		return s.evacuate(ctx, j, progress)
	case schema.LoseNode:
		return s.lose(ctx, j, progress)
	case schema.MigrateDisk:
		return s.migrate(ctx, j, progress)
	case schema.CloneDefinition: // of package snapshots
	}
	return schema.JobTry{State: schema.JobFailed, Problems: []string{fmt.Sprintf("this program does not know the job %q", j.Kind)}}
}

// finding is what came of one part of a job.
type finding struct {
	moved bool // something was done
	waits bool // for something that others do, and that is not tried again but looked at
	err   error
}

// tally adds up what came of the parts of a job.
type tally struct {
	mu       sync.Mutex
	total    int
	finished int
	moved    bool
	waits    int
	passing  int // problems that may pass by themselves
	problems []string
	progress Progress
}

// atOnce is how many parts of one job are worked on at a time.
const atOnce = 8

// each works on the parts of a job, some at a time, each once, and adds up. It begins no more
// once ctx has ended.
func each[P any](ctx context.Context, parts []P, progress Progress, do func(context.Context, P) finding) *tally {
	t := &tally{total: len(parts), progress: progress}
	t.progress(t.total, 0)
	slots := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for _, p := range parts {
		if ctx.Err() != nil {
			t.add(finding{err: ctx.Err()})
			break
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			t.add(guarded(ctx, p, do))
		})
	}
	wg.Wait()
	slices.Sort(t.problems)
	return t
}

// guarded does one part, with a panic as its problem: one bad object stops no other.
func guarded[P any](ctx context.Context, part P, do func(context.Context, P) finding) (f finding) {
	defer func() {
		if p := recover(); p != nil {
			f = finding{err: errs.New(errs.Internal, errs.NoObject, "a fault of the software").Because("%v", p).Detail(string(debug.Stack()))}
		}
	}()
	return do(ctx, part)
}

func (t *tally) add(f finding) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.moved = t.moved || f.moved
	switch {
	case f.waits:
		t.waits++
	case f.err == nil:
		t.finished++
		t.progress(t.total, t.finished)
		return
	case !lasting(f.err):
		t.passing++
	}
	if f.err != nil {
		t.problems = append(t.problems, strings.TrimSpace(f.err.Error()))
	}
}

// shrinking is the progress of a job whose parts are gone once they are finished, so that a
// later try finds fewer: it counts those of all tries.
func shrinking(j schema.Job, progress Progress) Progress {
	return func(total, finished int) {
		all := max(j.Total, total)
		progress(all, all-total+finished)
	}
}

// try is the outcome of a job that goes on until nothing is left to do, or nothing is left
// that can be done.
func (t *tally) try() schema.JobTry {
	out := schema.JobTry{
		Total: t.total, Done: t.finished, Problems: t.problems, Progress: t.moved || t.waits > 0 && t.passing == 0, State: schema.JobDone,
	}
	switch {
	case t.passing+t.waits > 0:
		out.State = schema.JobRunning
	case len(t.problems) > 0:
		out.State = schema.JobFailed
	}
	return out
}

// lasting tells whether a part will meet the same problem again as long as nobody changes what
// was asked for.
func lasting(err error) bool {
	e := errs.As(err)
	return e != nil && slices.Contains([]errs.Kind{errs.Invalid, errs.Unsupported, errs.NotFound, errs.Protected}, e.Kind)
}

// goesOn is the notice of a job that has not ended when its call is answered.
func goesOn(j schema.Job, object errs.Object, what string) errs.Notice {
	text := fmt.Sprintf("%s goes on: %d of %d done", what, j.Done, j.Total)
	if p := j.LastError(); p != "" {
		text += "; the first problem: " + p
	}
	return errs.Notice{Kind: errs.GoesOn, Object: object, Message: text}
}
