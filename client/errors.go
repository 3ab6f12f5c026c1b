// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/holdfast-storage/holdfast/internal/wire"
)

// Error is a refusal: the controller answered, and what it was asked for did not happen as asked.
type Error struct {
	Method  string
	Path    string
	Status  int    // HTTP status
	Entries RcList // what the controller said; at least one entry is an error unless it said nothing
}

// Error returns the first error's message, with its cause and its correction.
func (e *Error) Error() string {
	first, found := e.Entries.FirstError()
	if !found {
		return fmt.Sprintf("%s %s: status %d without an explanation", e.Method, e.Path, e.Status)
	}
	var b strings.Builder
	b.WriteString(first.Message)
	if first.Cause != "" {
		b.WriteString(": " + first.Cause)
	}
	if first.Correction != "" {
		b.WriteString(" (" + first.Correction + ")")
	}
	return b.String()
}

// Is reports whether err is a refusal that contains an entry with the type and the code of code.
func Is(err error, code RetCode) bool {
	refused, ok := errors.AsType[*Error](err)
	return ok && refused.Entries.Has(code)
}

// IsNotFound reports whether err says that an object does not exist.
func IsNotFound(err error) bool {
	refused, ok := errors.AsType[*Error](err)
	return ok && refused.Status == http.StatusNotFound && !refused.Entries.Has(wire.UnknownAPICall)
}

// ConnectionError says that no controller answered.
type ConnectionError struct {
	Method   string
	Path     string
	Attempts []Attempt // in the order in which they were made
	// Unknown is true when the last attempt had sent the request, which was to change something: it may have been carried out.
	Unknown bool
}

// Attempt is a controller that was tried and why it gave no answer.
type Attempt struct {
	Address string
	Err     error
}

// Error lists the attempts.
func (e *ConnectionError) Error() string {
	var b strings.Builder
	b.WriteString("no controller answered")
	if e.Unknown {
		b.WriteString(", and the request may have been carried out")
	}
	for _, a := range e.Attempts {
		fmt.Fprintf(&b, "; %s: %v", a.Address, a.Err)
	}
	return b.String()
}

// Unwrap returns the errors of all attempts.
func (e *ConnectionError) Unwrap() []error {
	all := make([]error, len(e.Attempts))
	for i, a := range e.Attempts {
		all[i] = a.Err
	}
	return all
}

// Timeout reports whether the last attempt ended because time was up.
func (e *ConnectionError) Timeout() bool {
	if len(e.Attempts) == 0 {
		return false
	}
	last := e.Attempts[len(e.Attempts)-1].Err
	if errors.Is(last, context.DeadlineExceeded) {
		return true
	}
	timeout, ok := errors.AsType[net.Error](last)
	return ok && timeout.Timeout()
}

// UnexpectedError says that the answer was not one of the API: most often something else listens at the address.
type UnexpectedError struct {
	Method  string
	URL     string
	Status  int
	Problem string
	Answer  string // how the answer begins
}

// Error says what came instead.
func (e *UnexpectedError) Error() string {
	return fmt.Sprintf("%s %s: status %d, and %s; is this the port of a controller? The answer begins %q",
		e.Method, e.URL, e.Status, e.Problem, e.Answer)
}
