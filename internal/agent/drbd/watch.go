// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package drbd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"sync"
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent/drbd/kernel"
	"github.com/holdfast-storage/holdfast/internal/command"
)

// Watcher follows the events of all resources of this host. Its methods may be called by many goroutines at once; Watch runs once.
type Watcher struct {
	Runner command.Runner
	Log    *slog.Logger // Nil: none.
	// Retry is how long the first new stream waits for after one that broke; each that brings nothing waits twice as long, up to a minute. Zero: a second.
	Retry time.Duration

	mu      sync.Mutex
	tracker *kernel.Tracker // Of the last stream whose beginning was told whole; nil while nothing is known.
}

// streamLimit is how long one stream is followed: a command has to end some time. The next one begins with the whole state.
const streamLimit = 24 * time.Hour

// longestRetry bounds the rest between two streams.
const longestRetry = time.Minute

// Watch calls changed with the name of each resource that has changed, was there when a stream began, or went, until ctx ends. Counters and
// the progress of a resync alone are no change. A stream that ends or cannot be followed is begun anew; until then
// Resource tells nothing. changed must return soon.
func (w *Watcher) Watch(ctx context.Context, changed func(resource string)) {
	rest := w.Retry
	if rest <= 0 {
		rest = time.Second
	}
	first := rest
	for ctx.Err() == nil {
		told, err := w.follow(ctx, changed)
		w.forget()
		if ctx.Err() != nil {
			return
		}
		if told {
			rest = first
		}
		if w.Log != nil {
			w.Log.LogAttrs(ctx, slog.LevelInfo, "the events of DRBD ended and are followed anew", slog.Any("error", err), slog.Duration("after", rest))
		}
		select {
		case <-time.After(rest):
		case <-ctx.Done():
			return
		}
		rest = min(longestRetry, 2*rest)
	}
}

// Resource returns the state of a resource as the events tell it; false when it does not run, or when nothing is known at this time.
func (w *Watcher) Resource(name string) (kernel.Resource, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.tracker == nil {
		return kernel.Resource{}, false
	}
	return w.tracker.Resource(name)
}

// Alive tells whether a stream is followed now: then a resource that Resource does not know does not run.
func (w *Watcher) Alive() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tracker != nil
}

func (w *Watcher) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tracker = nil
}

// follow follows one stream to its end and tells whether it brought the whole state at least.
func (w *Watcher) follow(ctx context.Context, changed func(string)) (told bool, err error) {
	// The program writes into a pipe of ours, which it opens by the name that the kernel gives it: a Runner returns output only when a program has ended.
	in, out, err := os.Pipe()
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := w.Runner.Run(ctx, command.Command{
			Program: "sh",
			Args: []string{
				"-c", `exec drbdsetup events2 --timestamps --statistics >"$0"`, fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), out.Fd()),
			},
			Limit: streamLimit,
		})
		ended <- errors.Join(err, out.Close())
	}()
	s := stream{tracker: &kernel.Tracker{}, changed: changed, watcher: w}
	lines := bufio.NewScanner(in)
	for err == nil && lines.Scan() {
		err = s.take(lines.Text())
	}
	cancel() // The program ends with the first line that it cannot be followed beyond.
	return s.tracker.Complete(), errors.Join(err, lines.Err(), in.Close(), <-ended)
}

// stream is one stream under way.
type stream struct {
	tracker *kernel.Tracker
	changed func(string)
	watcher *Watcher
}

func (s *stream) take(line string) error {
	e, err := kernel.ParseEvent(line)
	if err != nil {
		return err
	}
	// From the end of the beginning on, the tracker is read by others.
	s.watcher.mu.Lock()
	began := s.watcher.tracker == s.tracker
	before, _ := s.tracker.Resource(e.Fields["name"])
	name, err := s.tracker.Apply(e)
	after, _ := s.tracker.Resource(name)
	var names []string
	if s.tracker.Complete() && !began {
		s.watcher.tracker, names = s.tracker, s.tracker.Names()
	}
	s.watcher.mu.Unlock()
	if err != nil {
		return err
	}
	for _, n := range names {
		s.changed(n)
	}
	if began && name != "" && !reflect.DeepEqual(essence(before), essence(after)) {
		s.changed(name)
	}
	return nil
}

// essence is a state without what changes all the time.
func essence(r kernel.Resource) kernel.Resource {
	for i := range r.Connections {
		for j := range r.Connections[i].PeerDevices {
			r.Connections[i].PeerDevices[j].OutOfSync, r.Connections[i].PeerDevices[j].Done = 0, nil
		}
	}
	return r
}
