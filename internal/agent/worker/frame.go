// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"

	"golang.org/x/sys/unix"
)

// frame is one message between the agent and a worker, a line of JSON.
type frame struct {
	Type   frameType       `json:"type"`
	Call   uint64          `json:"call,omitempty"`
	Method string          `json:"method,omitempty"`
	Body   json.RawMessage `json:"body,omitempty"`
	Fault  *fault          `json:"fault,omitempty"`
}

type frameType string

const (
	hello  frameType = "hello"  // The worker's first: which process it is.
	begin  frameType = "begin"  // The agent's answer: what it is to be.
	ready  frameType = "ready"  // The worker can be called, or cannot and says why.
	call   frameType = "call"   // The agent begins a call,
	cancel frameType = "cancel" // or wants it to end.
	tell   frameType = "tell"   // How far a call is.
	done   frameType = "done"   // How it ended.
)

// process is the body of hello.
type process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"`
}

// fault is an error on its way.
type fault struct {
	Kind string          `json:"kind,omitempty"` // Of the codec, or one of those below. Empty: nothing but its text.
	Text string          `json:"text"`
	Body json.RawMessage `json:"body,omitempty"`
}

// Kinds of faults that every codec has.
const (
	cancelled = "context canceled"
	late      = "context deadline exceeded"
)

// Codec carries errors over to the other process, so that errors.As finds there what was found here. Either function may be nil.
type Codec struct {
	Encode func(err error) (kind string, body any) // An empty kind: it is carried as its text alone.
	Decode func(kind string, body []byte) error    // Nil: the kind is not known.
}

func (c Codec) pack(err error) *fault {
	if err == nil {
		return nil
	}
	f := &fault{Text: err.Error()}
	switch {
	case errors.Is(err, context.Canceled):
		f.Kind = cancelled
	case errors.Is(err, context.DeadlineExceeded):
		f.Kind = late
	case c.Encode != nil:
		kind, body := c.Encode(err)
		if text, err := json.Marshal(body); err == nil && kind != "" {
			f.Kind, f.Body = kind, text
		}
	}
	return f
}

func (c Codec) unpack(f *fault) error {
	if f == nil {
		return nil
	}
	var cause error
	switch {
	case f.Kind == cancelled:
		cause = context.Canceled
	case f.Kind == late:
		cause = context.DeadlineExceeded
	case f.Kind != "" && c.Decode != nil:
		cause = c.Decode(f.Kind, f.Body)
	}
	if cause != nil && cause.Error() == f.Text {
		return cause
	}
	return &carried{text: f.Text, cause: cause}
}

// carried is an error of another process.
type carried struct {
	text  string
	cause error
}

func (e *carried) Error() string { return e.text }

func (e *carried) Unwrap() error { return e.cause }

// line is one end of the connection. Frames are sent by many goroutines and received by one.
type line struct {
	conn *net.UnixConn
	in   *json.Decoder

	mu  sync.Mutex
	out *json.Encoder
}

func newLine(conn *net.UnixConn) *line {
	return &line{conn: conn, in: json.NewDecoder(conn), out: json.NewEncoder(conn)}
}

func (l *line) send(f frame) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Encode(f)
}

func (l *line) sendBody(f frame, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	f.Body = text
	return l.send(f)
}

func (l *line) receive() (f frame, err error) {
	err = l.in.Decode(&f)
	return f, err
}

// sameUser makes sure that the other end of a connection belongs to the user of this process.
func sameUser(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var cred *unix.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) {
		cred, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return err
	}
	if failed != nil {
		return failed
	}
	if own := unix.Geteuid(); int(cred.Uid) != own {
		return fmt.Errorf("process %d of user %d is at the other end, not one of user %d", cred.Pid, cred.Uid, own)
	}
	return nil
}
