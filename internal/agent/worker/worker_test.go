// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent/mount"
	"github.com/holdfast-storage/holdfast/internal/agent/mount/mounttest"
	"github.com/holdfast-storage/holdfast/internal/agent/worker"
	"github.com/holdfast-storage/holdfast/internal/command"
)

// full is an error that is carried over.
type full struct{ Free int }

func (e *full) Error() string { return fmt.Sprintf("only %d are free", e.Free) }

var codec = worker.Codec{
	Encode: func(err error) (string, any) {
		if f, ok := errors.AsType[*full](err); ok {
			return "full", f
		}
		return "", nil
	},
	Decode: func(kind string, body []byte) error {
		var f full
		if kind != "full" || json.Unmarshal(body, &f) != nil {
			return nil
		}
		return &f
	},
}

func kinds() map[string]worker.Kind {
	return map[string]worker.Kind{"test": {Codec: codec, Open: func(setup json.RawMessage) (map[string]worker.Handler, error) {
		var refuse string
		if err := json.Unmarshal(setup, &refuse); err != nil || refuse != "" {
			return nil, fmt.Errorf("refused: %s", refuse)
		}
		return map[string]worker.Handler{"echo": echo, "full": fail, "wait": wait, "stuck": stuck, "read": read, "die": die, "waiting": count}, nil
	}}}
}

func echo(_ context.Context, args json.RawMessage, tell func(any)) (any, error) {
	for i := range 3 {
		tell(i)
	}
	return args, nil
}

func fail(context.Context, json.RawMessage, func(any)) (any, error) {
	return nil, fmt.Errorf("put it there: %w", &full{Free: 7})
}

// waiting is how many calls of wait go on in this worker.
var waiting atomic.Int64

func count(context.Context, json.RawMessage, func(any)) (any, error) { return waiting.Load(), nil }

func wait(ctx context.Context, _ json.RawMessage, tell func(any)) (any, error) {
	waiting.Add(1)
	defer waiting.Add(-1)
	tell("waiting")
	<-ctx.Done()
	return nil, ctx.Err()
}

// stuck does not notice that it is cancelled.
func stuck(_ context.Context, _ json.RawMessage, tell func(any)) (any, error) {
	tell("stuck")
	select {}
}

func read(context.Context, json.RawMessage, func(any)) (any, error) {
	text, err := os.ReadFile("file")
	return string(text), err
}

func die(context.Context, json.RawMessage, func(any)) (any, error) {
	os.Exit(3)
	return nil, nil
}

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == worker.Name {
		os.Exit(worker.Main(os.Args[2:], kinds()))
	}
	os.Exit(mounttest.Main(m))
}

func start(t *testing.T, c worker.Config) *worker.Worker {
	t.Helper()
	c.Kind, c.Codec, c.Runner = "test", codec, &command.Exec{}
	if c.Setup == nil {
		c.Setup = ""
	}
	w, err := worker.Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.Kill(errors.New("the test is over"))
		<-w.Gone()
	})
	return w
}

func TestACallReturnsWhatItsMethodReturnsAndTellsInOrder(t *testing.T) {
	w := start(t, worker.Config{})
	var group sync.WaitGroup
	for i := range 50 {
		group.Go(func() {
			var back int
			var told []string
			err := w.Call(t.Context(), "echo", i, &back, func(b json.RawMessage) { told = append(told, string(b)) })
			if err != nil || back != i || fmt.Sprint(told) != "[0 1 2]" {
				t.Errorf("call %d returned %d, %v and told %v", i, back, err, told)
			}
		})
	}
	group.Wait()
}

func TestErrorsAreFoundAgainInTheAgent(t *testing.T) {
	w := start(t, worker.Config{})
	err := w.Call(t.Context(), "full", nil, nil, nil)
	f, ok := errors.AsType[*full](err)
	if !ok || f.Free != 7 || err.Error() != "put it there: only 7 are free" {
		t.Errorf("the error is %#v: %v", err, err)
	}
	if err := w.Call(t.Context(), "nothing", nil, nil, nil); err == nil {
		t.Error("a method that is not there was called")
	}
}

func TestACancelledCallReturnsAtOnceAndTheWorkerGoesOn(t *testing.T) {
	w := start(t, worker.Config{Grace: time.Hour})
	ctx, cancel := context.WithCancel(t.Context())
	err := w.Call(ctx, "wait", nil, nil, func(json.RawMessage) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
	if err := w.Call(t.Context(), "echo", 1, nil, nil); err != nil {
		t.Errorf("the next call: %v", err)
	}
}

func TestCallsThatAreCancelledAsTheyBeginEndInTheWorker(t *testing.T) {
	w := start(t, worker.Config{Grace: time.Minute})
	var group sync.WaitGroup
	for range 500 {
		group.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			go cancel()
			if err := w.Call(ctx, "wait", nil, nil, nil); !errors.Is(err, context.Canceled) {
				t.Errorf("the error is %v", err)
			}
		})
	}
	group.Wait()
	deadline := time.After(20 * time.Second)
	for left := 1; left > 0; {
		if err := w.Call(t.Context(), "waiting", nil, &left, nil); err != nil {
			t.Fatal(err)
		}
		select {
		case <-deadline:
			t.Fatalf("%d calls that were cancelled go on", left)
		case <-time.After(time.Millisecond):
		}
	}
}

func TestAWorkerThatDoesNotEndACancelledCallIsKilled(t *testing.T) {
	w := start(t, worker.Config{Grace: time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	if err := w.Call(ctx, "stuck", nil, nil, func(json.RawMessage) { cancel() }); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
	<-w.Gone()
	if err := w.Call(t.Context(), "echo", 1, nil, nil); err == nil || w.Broken() == nil {
		t.Error("a dead worker was called")
	}
}

func TestCallsFailWhenTheWorkerDies(t *testing.T) {
	w := start(t, worker.Config{})
	waiting, failed := make(chan struct{}), make(chan error, 1)
	go func() {
		failed <- w.Call(t.Context(), "wait", nil, nil, func(json.RawMessage) { close(waiting) })
	}()
	<-waiting
	if err := w.Call(t.Context(), "die", nil, nil, nil); err == nil {
		t.Error("the death of the worker is no error")
	}
	if err := <-failed; err == nil {
		t.Error("a call outlived its worker")
	}
	<-w.Gone()
}

func TestAWorkerThatRefusesIsNotReturned(t *testing.T) {
	w, err := worker.Start(t.Context(), worker.Config{Kind: "test", Setup: "not today", Codec: codec, Runner: &command.Exec{}})
	if err == nil || err.Error() != "refused: not today" {
		t.Errorf("the error is %v", err)
	}
	<-w.Gone()
	w, err = worker.Start(t.Context(), worker.Config{Kind: "other", Runner: &command.Exec{}})
	if err == nil {
		t.Error("a kind that is not known was started")
	}
	<-w.Gone()
}

func TestAProgramThatIsNoWorkerIsAnError(t *testing.T) {
	w, err := worker.Start(t.Context(), worker.Config{Kind: "test", Runner: &command.Exec{}, Argv: []string{"true"}})
	if err == nil || w != nil {
		t.Errorf("got %v, %v", w, err)
	}
}

func TestAWorkerBeginsInTheVeryMountThatWasNamed(t *testing.T) {
	dir := mounttest.Scratch(t)
	kernel, err := mount.New(mount.Config{Base: filepath.Join(dir, "mnt"), Run: filepath.Join(dir, "run"), Runner: &command.Exec{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = kernel.Close() })
	if err := kernel.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	from := mounttest.Mkdir(t, dir, "from")
	if err := os.WriteFile(filepath.Join(mounttest.Mkdir(t, from, "a"), "file"), []byte("here"), 0o600); err != nil {
		t.Fatal(err)
	}
	source, err := mount.ParseSource(mount.Bind, from)
	if err != nil {
		t.Fatal(err)
	}
	m, err := kernel.Mount(t.Context(), mount.Spec{Source: source})
	if err != nil {
		t.Fatal(err)
	}
	w := start(t, worker.Config{Place: &worker.Place{Mount: m.Entry, Folder: "a"}})
	var text string
	if err := w.Call(t.Context(), "read", nil, &text, nil); err != nil || text != "here" {
		t.Errorf("read %q, %v", text, err)
	}
	start(t, worker.Config{Place: &worker.Place{Mount: m.Entry, Folder: "new/folder", Make: true}})
	if _, err := os.Stat(filepath.Join(from, "new/folder")); err != nil {
		t.Error(err)
	}
	other := m.Entry
	other.Unique, other.ID = other.Unique+1, other.ID+1
	for what, place := range map[string]*worker.Place{
		"another mount": {Mount: other}, "a folder that is not there": {Mount: m.Entry, Folder: "b"},
		"a folder outside": {Mount: m.Entry, Folder: "../from"}, "a file": {Mount: m.Entry, Folder: "a/file"},
	} {
		w, err := worker.Start(t.Context(), worker.Config{Kind: "test", Setup: "", Place: place, Runner: &command.Exec{}})
		if err == nil {
			t.Errorf("a worker was started in %s", what)
			w.Kill(nil)
		}
		<-w.Gone()
	}
}
