// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package commandtest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/command"
)

// Replayer answers calls from a transcript. It is a command.Runner and safe for concurrent use.
type Replayer struct {
	tb      testing.TB
	mu      sync.Mutex
	answers map[string][]Entry
	calls   []string
}

// Replay returns a Replayer of a transcript. The nth call of a command line gets the nth record of it, and calls after that the last one. A call
// that was never recorded fails the test and gets an error.
func Replay(tb testing.TB, transcript string) *Replayer {
	tb.Helper()
	entries, err := Parse(transcript)
	if err != nil {
		tb.Fatalf("transcript: %v", err)
	}
	r := &Replayer{tb: tb, answers: map[string][]Entry{}}
	for _, e := range entries {
		r.answers[e.Line] = append(r.answers[e.Line], e)
	}
	return r
}

// Run implements command.Runner.
func (r *Replayer) Run(ctx context.Context, c command.Command) (command.Result, error) {
	if err := ctx.Err(); err != nil {
		return command.Result{}, &command.Error{Kind: command.NotStarted, Program: c.Program, Args: c.Shown(), Code: -1, Err: err}
	}
	line := Line(c)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, line)
	left := r.answers[line]
	if len(left) == 0 {
		r.tb.Errorf("the transcript has no command %s", line)
		return command.Result{}, &command.Error{Kind: command.NotInstalled, Program: c.Program, Args: c.Shown(), Code: -1, Err: errors.New("not in the transcript")}
	}
	if len(left) > 1 {
		r.answers[line] = left[1:]
	}
	e := left[0]
	res := command.Result{Stdout: slices.Clone(e.Stdout), Stderr: slices.Clone(e.Stderr)}
	if e.Code != 0 {
		return res, &command.Error{Kind: command.Exited, Program: c.Program, Args: c.Shown(), Code: e.Code, Stderr: strings.TrimSpace(string(e.Stderr))}
	}
	return res, nil
}

// Calls returns the command lines that were run so far, in order.
func (r *Replayer) Calls() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.calls)
}

// Recorder passes calls on and keeps a transcript of them. It is safe for concurrent use.
type Recorder struct {
	next    command.Runner
	mu      sync.Mutex
	entries []Entry
}

// Record returns a Recorder in front of next.
func Record(next command.Runner) *Recorder { return &Recorder{next: next} }

// Run implements command.Runner. A call that ended in anything but an exit code is passed on and not recorded.
func (r *Recorder) Run(ctx context.Context, c command.Command) (command.Result, error) {
	res, err := r.next.Run(ctx, c)
	e := Entry{Line: Line(c), Stdout: res.Stdout, Stderr: res.Stderr}
	if err != nil {
		var failed *command.Error
		if !errors.As(err, &failed) || failed.Kind != command.Exited {
			return res, err
		}
		e.Code = failed.Code
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.entries = append(r.entries, e)
	return res, err
}

// Transcript returns what was recorded so far.
func (r *Recorder) Transcript() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Format(r.entries)
}
