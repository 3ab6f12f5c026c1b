// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"context"
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
	What string // As people read it: "create volume db/0 of 1073741824 bytes in pool p".
	Do   func(context.Context) error
}

// rounds bounds the plans that one call of Converge follows.
const rounds = 10

// Converge observes, plans and does the steps in order, and then does the same again until nothing is left to do: the answer is the last observation. It ends
// at the first step that fails; the error names it. When a plan comes for the second time, its steps had no effect: that is an error that names
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
		for _, s := range steps {
			if err := s.Do(ctx); err != nil {
				return none, fmt.Errorf("%s: %w", s.What, err)
			}
		}
	}
}
