// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent/mount"
	"github.com/holdfast-storage/holdfast/internal/command"
)

// Config says what a worker is to be.
type Config struct {
	Kind  string
	Setup any    // Is given to Kind.Open as JSON.
	Place *Place // Nil: it works in no folder.
	Codec Codec

	Runner command.Runner // Starts it.
	Argv   []string       // How a worker is started, without its argument. Empty: this program with Name.

	Begin time.Duration // How long it may take until it can be called. Default 20 s.
	Grace time.Duration // How long a call may take to end once it was cancelled. Default 5 s.
}

// Worker is a worker that was started. Its methods may be called by many goroutines at once.
type Worker struct {
	c    Config
	line *line
	me   process
	kill context.CancelFunc
	gone chan struct{}

	mu     sync.Mutex
	last   uint64
	calls  map[uint64]*pending
	broken error // Why it cannot be called any more.
}

// pending is a call that is under way.
type pending struct {
	done    chan frame
	sent    chan struct{} // Is closed when the worker was told of it.
	tell    func(json.RawMessage)
	expires *time.Timer // Set when it was cancelled: then the worker is killed.
}

// forever is longer than any agent runs.
const forever = 10 * 365 * 24 * time.Hour

// Start starts a worker and returns when it can be called. On an error it was killed; a worker that is returned all the same is good for
// nothing but its Gone.
func Start(ctx context.Context, c Config) (*Worker, error) {
	c.Begin, c.Grace = cmp.Or(c.Begin, 20*time.Second), cmp.Or(c.Grace, 5*time.Second)
	if len(c.Argv) == 0 {
		c.Argv = []string{"/proc/self/exe", Name}
	}
	setup, err := json.Marshal(c.Setup)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithTimeout(ctx, c.Begin)
	defer stop()
	// A name without a file: nothing is left behind. Others on this host may connect, and are refused.
	address := "@holdfast-worker-" + rand.Text()
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: address, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen for a worker: %w", err)
	}
	defer func() { _ = listener.Close() }()
	w := &Worker{c: c, gone: make(chan struct{}), calls: map[uint64]*pending{}}
	life, kill := context.WithCancel(context.WithoutCancel(ctx))
	w.kill = kill
	ended := make(chan error, 1)
	go func() {
		_, err := c.Runner.Run(life, command.Command{Program: c.Argv[0], Args: append(append([]string(nil), c.Argv[1:]...), address), Limit: forever})
		ended <- err
	}()
	if err := w.meet(ctx, listener, ended); err != nil {
		kill()
		return nil, err
	}
	go w.bury(ended)
	if err := w.line.sendBody(frame{Type: begin}, order{Kind: c.Kind, Setup: setup, Place: c.Place}); err != nil {
		return w, w.lose(fmt.Errorf("give a worker its work: %w", err))
	}
	p := &pending{done: make(chan frame, 1), sent: make(chan struct{})}
	close(p.sent)
	if err := w.add(0, p); err != nil {
		return w, err
	}
	go w.listen()
	f, err := w.wait(ctx, 0, p)
	if err == nil {
		err = c.Codec.unpack(f.Fault)
	}
	if err != nil {
		return w, w.lose(err)
	}
	return w, nil
}

// meet waits for the worker's hello.
func (w *Worker) meet(ctx context.Context, listener *net.UnixListener, ended <-chan error) error {
	met := make(chan error, 1)
	go func() { met <- w.accept(listener) }()
	select {
	case err := <-met:
		return err
	case err := <-ended:
		return fmt.Errorf("start a worker: it ended at once: %w", err)
	case <-ctx.Done():
		return fmt.Errorf("start a worker: %w", ctx.Err())
	}
}

// accept takes the first connection of this user that says hello.
func (w *Worker) accept(listener *net.UnixListener) error {
	for {
		conn, err := listener.AcceptUnix()
		if err != nil {
			return fmt.Errorf("listen for a worker: %w", err)
		}
		l := newLine(conn)
		if sameUser(conn) == nil && conn.SetReadDeadline(time.Now().Add(w.c.Begin)) == nil {
			f, err := l.receive()
			if err == nil && f.Type == hello && json.Unmarshal(f.Body, &w.me) == nil && conn.SetReadDeadline(time.Time{}) == nil {
				w.line = l
				return nil
			}
		}
		_ = conn.Close()
	}
}

// bury waits until the process has really ended.
func (w *Worker) bury(ended <-chan error) {
	const first, last = 5 * time.Millisecond, time.Second
	err := <-ended
	for next := first; mount.Alive(w.me.PID, w.me.Start); next = min(2*next, last) {
		<-time.After(next) // Nothing tells of the end of a process that was left behind.
	}
	_ = w.lose(fmt.Errorf("the worker has ended: %w", cmp.Or(err, errEnded)))
	w.kill()
	close(w.gone)
}

var errEnded = errors.New("it was asked to")

// listen receives until the connection ends.
func (w *Worker) listen() {
	for {
		f, err := w.line.receive()
		if err != nil {
			_ = w.lose(fmt.Errorf("the worker has ended: %w", err))
			return
		}
		switch p := w.take(f.Call, f.Type != tell); {
		case p == nil:
		case f.Type != tell:
			p.done <- f
		case p.tell != nil:
			p.tell(f.Body)
		}
	}
}

// lose kills the worker and fails all of its calls. It returns err, or what it failed by before.
func (w *Worker) lose(err error) error {
	w.mu.Lock()
	if w.broken == nil {
		w.broken = err
	}
	err = w.broken
	calls := w.calls
	w.calls = map[uint64]*pending{}
	w.mu.Unlock()
	w.kill()
	_ = w.line.conn.Close()
	for _, p := range calls {
		if p.expires != nil {
			p.expires.Stop()
		}
		p.done <- frame{Type: done, Fault: w.c.Codec.pack(err)}
	}
	return err
}

func (w *Worker) add(id uint64, p *pending) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken != nil {
		return w.broken
	}
	w.calls[id] = p
	return nil
}

// take returns a call, or nil when it is over. One that ends now is forgotten: whoever took it tells its end, and nobody else does.
func (w *Worker) take(id uint64, ends bool) *pending {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.calls[id]
	if ends && p != nil {
		delete(w.calls, id)
		if p.expires != nil {
			p.expires.Stop()
		}
	}
	return p
}

// wait waits for the end of a call, or of ctx: then the worker is told, and killed when it does not end the call in time.
func (w *Worker) wait(ctx context.Context, id uint64, p *pending) (frame, error) {
	select {
	case f := <-p.done:
		return f, nil
	case <-ctx.Done():
	}
	w.mu.Lock()
	if w.calls[id] == p {
		p.expires = time.AfterFunc(w.c.Grace, func() {
			_ = w.lose(fmt.Errorf("it was killed because it did not end in %s what was cancelled", w.c.Grace))
		})
	}
	w.mu.Unlock()
	go func() { // It may not read.
		<-p.sent // A call that it does not know cannot be cancelled.
		_ = w.line.send(frame{Type: cancel, Call: id})
	}()
	return frame{}, context.Cause(ctx)
}

// Call calls a method with args, and decodes what it returns into result unless that is nil. tell gets what the method tells on the way, in order; it may be nil.
func (w *Worker) Call(ctx context.Context, method string, args, result any, tell func(json.RawMessage)) error {
	body, err := json.Marshal(args)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	p := &pending{done: make(chan frame, 1), sent: make(chan struct{}), tell: tell}
	w.mu.Lock()
	w.last++
	id := w.last
	w.mu.Unlock()
	if err := w.add(id, p); err != nil {
		return err
	}
	go func() { // A worker that hangs may not read.
		defer close(p.sent)
		if err := w.line.send(frame{Type: call, Call: id, Method: method, Body: body}); err != nil {
			_ = w.lose(fmt.Errorf("call a worker: %w", err))
		}
	}()
	f, err := w.wait(ctx, id, p)
	if err != nil {
		return err
	}
	if f.Fault != nil {
		return w.c.Codec.unpack(f.Fault)
	}
	if result == nil || len(f.Body) == 0 {
		return nil
	}
	return json.Unmarshal(f.Body, result)
}

// Kill ends the worker, whatever it does. It does not wait for that.
func (w *Worker) Kill(why error) { _ = w.lose(why) }

// Gone is closed when the process has really ended.
func (w *Worker) Gone() <-chan struct{} { return w.gone }

// Process returns the worker's process id and start time, as [mount.StartTime] tells it.
func (w *Worker) Process() (pid int, start uint64) { return w.me.PID, w.me.Start }

// Broken returns why the worker cannot be called any more, or nil.
func (w *Worker) Broken() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.broken
}
