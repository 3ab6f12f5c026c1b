// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// A Layer knows one kind of thing on the host: how to look at it, and which steps lead from what is there to what is wanted.
type Layer[Want, Have any] interface {
	// Observe only reads. What it cannot learn is an error, never a zero value.
	Observe(ctx context.Context, w Want) (Have, error)
	// Plan is a pure function of its arguments. No steps means that the wish is fulfilled; an error means that it cannot be, and that
	// nothing is to be done.
	Plan(w Want, h Have) ([]Step, error)
}

// A Step is one small change of the host. Doing it twice is the same as doing it once.
type Step struct {
	What     string // As people read it: "create volume db/0 of 1073741824 bytes in pool p".
	Snapshot string // The snapshot that it is about, unless it is about volumes.
	Apart    bool   // When it fails, the steps after it are done all the same.
	Do       func(context.Context) error
}

// A StepError says which step failed.
type StepError struct {
	What     string
	Snapshot string // As in Step.
	Err      error
}

func (e *StepError) Error() string { return e.What + ": " + e.Err.Error() }

// Unwrap returns why the step failed.
func (e *StepError) Unwrap() error { return e.Err }

// FailedSteps returns the steps that err is about, in the order in which they were done; none when it is not about steps.
func FailedSteps(err error) []*StepError {
	switch e := err.(type) { //nolint:errorlint // It walks down by itself.
	case *StepError:
		return []*StepError{e}
	case interface{ Unwrap() []error }:
		var all []*StepError
		for _, part := range e.Unwrap() {
			all = append(all, FailedSteps(part)...)
		}
		return all
	case interface{ Unwrap() error }:
		return FailedSteps(e.Unwrap())
	}
	return nil
}

// rounds bounds the plans that one call of Converge follows.
const rounds = 10

// Converge observes, plans and does the steps in order, and then does the same again until nothing is left to do: the answer is the last observation. It ends
// at the first step that fails and is not apart, and else at the end of the steps when any has failed; the error has a [StepError] for each. When a plan comes for the second time, its steps had no effect: that is an error that names
// them, and the caller tries again later.
func Converge[Want, Have any](ctx context.Context, l Layer[Want, Have], w Want) (Have, error) {
	var none Have
	followed := map[string]bool{}
	for {
		have, err := l.Observe(ctx, w)
		if err != nil {
			return none, err
		}
		steps, err := l.Plan(w, have)
		if err != nil {
			return none, err
		}
		if len(steps) == 0 {
			return have, nil
		}
		what := make([]string, len(steps))
		for i, s := range steps {
			what[i] = s.What
		}
		plan := strings.Join(what, "; ")
		if followed[plan] || len(followed) == rounds {
			return none, fmt.Errorf("all steps were done, yet the host still lacks: %s", plan)
		}
		followed[plan] = true
		if err := do(ctx, steps); err != nil {
			return none, err
		}
	}
}

// do does steps in order.
func do(ctx context.Context, steps []Step) error {
	var failed []error
	for _, s := range steps {
		err := s.Do(ctx)
		if err == nil {
			continue
		}
		failed = append(failed, &StepError{What: s.What, Snapshot: s.Snapshot, Err: err})
		if !s.Apart {
			break
		}
	}
	if len(failed) == 1 {
		return failed[0]
	}
	return errors.Join(failed...)
}
