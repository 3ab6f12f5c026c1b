// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"sync"

	"github.com/holdfast-storage/holdfast/internal/agent/mount"
)

// Name is the first argument with which this program is a worker.
const Name = "worker"

// A Handler is one method. It may call tell, by one goroutine at a time, with what the caller shall learn on the way.
type Handler func(ctx context.Context, args json.RawMessage, tell func(any)) (any, error)

// Kind is what workers of one kind serve.
type Kind struct {
	// Open makes the methods of a worker from its setup. It is called in the worker's place.
	Open  func(setup json.RawMessage) (map[string]Handler, error)
	Codec Codec
}

// order is the body of begin.
type order struct {
	Kind  string          `json:"kind"`
	Setup json.RawMessage `json:"setup,omitempty"`
	Place *Place          `json:"place,omitempty"`
}

// Place is the folder that a worker works in.
type Place struct {
	Mount  mount.Entry `json:"mount"`
	Folder string      `json:"folder,omitempty"` // Relative to the root of the mount; empty for the root.
	Make   bool        `json:"make,omitempty"`   // It is made when it is not there.

	// Dir is a folder of this host's own file systems, instead of one of a mount: an absolute path without symbolic links.
	Dir string `json:"dir,omitempty"`
}

// enter makes the place the working directory of this process.
func (p *Place) enter() error {
	switch {
	case p == nil:
		return nil
	case p.Dir != "":
		return mount.GoTo(p.Dir)
	default:
		return mount.GoInto(p.Mount, p.Folder, p.Make)
	}
}

// Main is the main function of a worker: args are those after [Name]. It returns the exit code.
func Main(args []string, kinds map[string]Kind) int {
	if len(args) != 1 {
		_, _ = fmt.Fprintln(os.Stderr, "this is not for use by hand")
		return 1
	}
	if err := serve(args[0], kinds); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func serve(address string, kinds map[string]Kind) error {
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: address, Net: "unix"})
	if err != nil {
		return fmt.Errorf("connect to the agent: %w", err)
	}
	defer func() { _ = conn.Close() }()
	if err := sameUser(conn); err != nil {
		return fmt.Errorf("connect to the agent: %w", err)
	}
	l := newLine(conn)
	me := process{PID: os.Getpid()}
	if me.Start, err = mount.StartTime(me.PID); err != nil {
		return err
	}
	if err := l.sendBody(frame{Type: hello}, me); err != nil {
		return err
	}
	f, err := l.receive()
	if err != nil {
		return fmt.Errorf("learn what to do: %w", err)
	}
	var o order
	if err := json.Unmarshal(f.Body, &o); err != nil {
		return fmt.Errorf("learn what to do: %w", err)
	}
	s := &server{line: l, running: map[uint64]context.CancelFunc{}}
	kind, known := kinds[o.Kind]
	if !known {
		return l.send(frame{Type: ready, Fault: &fault{Text: fmt.Sprintf("no worker of kind %q is known", o.Kind)}})
	}
	s.codec = kind.Codec
	// The connection is watched from now on: what follows may hang for ever, and then nobody may be there any more.
	frames := make(chan frame)
	go s.listen(frames)
	if err = o.Place.enter(); err == nil {
		s.methods, err = kind.Open(o.Setup)
	}
	if err := l.send(frame{Type: ready, Fault: s.codec.pack(err)}); err != nil {
		return err
	}
	for f := range frames {
		s.handle(f)
	}
	return nil
}

// server is the worker's end.
type server struct {
	*line

	codec   Codec
	methods map[string]Handler

	mu      sync.Mutex
	running map[uint64]context.CancelFunc
}

// listen hands on what the agent says, and ends this process when the agent is gone: what it does is then for nobody.
func (s *server) listen(frames chan<- frame) {
	for {
		f, err := s.receive()
		if err != nil {
			os.Exit(0)
		}
		frames <- f
	}
}

func (s *server) handle(f frame) {
	switch f.Type {
	case call:
		ctx, stop := context.WithCancel(context.Background())
		s.mu.Lock()
		s.running[f.Call] = stop
		s.mu.Unlock()
		go s.work(ctx, f)
	case cancel:
		s.mu.Lock()
		stop := s.running[f.Call]
		s.mu.Unlock()
		if stop != nil {
			stop()
		}
	default:
	}
}

func (s *server) work(ctx context.Context, f frame) {
	answer := frame{Type: done, Call: f.Call}
	result, err := s.run(ctx, f)
	if err == nil && result != nil {
		answer.Body, err = json.Marshal(result)
	}
	answer.Fault = s.codec.pack(err)
	s.mu.Lock()
	s.running[f.Call]()
	delete(s.running, f.Call)
	s.mu.Unlock()
	_ = s.send(answer) // When the agent is gone, listen ends the process.
}

func (s *server) run(ctx context.Context, f frame) (any, error) {
	handle := s.methods[f.Method]
	if handle == nil {
		return nil, fmt.Errorf("no method %q is known", f.Method)
	}
	return handle(ctx, f.Body, func(v any) {
		_ = s.sendBody(frame{Type: tell, Call: f.Call}, v)
	})
}
