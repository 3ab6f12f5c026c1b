// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Kind says how a call of a program went wrong.
type Kind string

// The kinds of an Error.
const (
	NotInstalled  Kind = "not installed"   // No such program.
	NotStarted    Kind = "not started"     // The kernel did not start it, or ctx was done before.
	Exited        Kind = "exited"          // It ended with an exit code other than 0.
	Signaled      Kind = "signaled"        // It was killed by someone else.
	TimedOut      Kind = "timed out"       // It was killed because its time was over.
	Cancelled     Kind = "cancelled"       // It was killed because nobody waits for it any more.
	TooMuchOutput Kind = "too much output" // It ended well and printed more than is kept.
)

// Error says that a program did not do what it was called for.
type Error struct {
	Kind     Kind
	Program  string
	Args     []string // Secret ones are replaced.
	Code     int      // Exit code when Kind is Exited, signal number when it is Signaled, otherwise -1.
	Stderr   string   // The end of what it printed to stderr, trimmed.
	Duration time.Duration
	Err      error // The cause, where there is one.
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Program)
	for _, a := range e.Args {
		b.WriteByte(' ')
		b.WriteString(a)
	}
	switch e.Kind {
	case Exited:
		fmt.Fprintf(&b, ": exit code %d", e.Code)
	case Signaled:
		fmt.Fprintf(&b, ": killed by signal %d", e.Code)
	case TimedOut, Cancelled:
		fmt.Fprintf(&b, ": %s after %s", e.Kind, e.Duration.Round(time.Millisecond))
	case NotInstalled, NotStarted, TooMuchOutput:
		fmt.Fprintf(&b, ": %s", e.Kind)
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	if e.Stderr != "" {
		fmt.Fprintf(&b, ": %s", e.Stderr)
	}
	return b.String()
}

// Unwrap returns the cause: context.DeadlineExceeded or context.Canceled among others.
func (e *Error) Unwrap() error { return e.Err }

// Said tells whether err is that a program ended with a code of failure and one of some texts on stderr.
func Said(err error, texts ...string) bool {
	failed, ok := errors.AsType[*Error](err)
	return ok && failed.Kind == Exited &&
		slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(failed.Stderr, text) })
}
