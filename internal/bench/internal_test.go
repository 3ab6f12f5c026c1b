// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-storage/holdfast/internal/command"
)

func TestQuantiles(t *testing.T) {
	var hundred []time.Duration
	for i := range 100 {
		hundred = append(hundred, time.Duration(i+1)*time.Millisecond)
	}
	for _, c := range []struct {
		of   []time.Duration
		q    float64
		want time.Duration
	}{
		{hundred, 0, time.Millisecond},
		{hundred, 0.5, 51 * time.Millisecond},
		{hundred, 0.99, 100 * time.Millisecond},
		{hundred, 1, 100 * time.Millisecond},
		{hundred[:1], 0.99, time.Millisecond},
		{nil, 0.5, 0},
	} {
		if got := (figures{latencies: c.of}).at(c.q); got != c.want {
			t.Errorf("quantile %v of %d values is %s, want %s", c.q, len(c.of), got, c.want)
		}
	}
}

func TestDurationsAreShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 µs", 950 * time.Microsecond: "950 µs", 1500 * time.Microsecond: "1.50 ms", 2300 * time.Millisecond: "2.30 s",
	} {
		if got := short(d); got != want {
			t.Errorf("%d ns is shown as %s, want %s", d, got, want)
		}
	}
}

func TestLoadMakesEachRequestOnce(t *testing.T) {
	var seen [50]atomic.Int64
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var i int
		if _, err := fmt.Sscanf(r.URL.Path, "/%d", &i); err != nil {
			t.Error(err)
		}
		seen[i].Add(1)
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte("12345"))
	}))
	defer h.Close()
	s := &server{url: h.URL, pid: os.Getpid()}
	request := func(i int) (string, string, string) { return http.MethodPost, fmt.Sprintf("/%d", i), "{}" }
	got, err := s.run(t.Context(), load{clients: 7, count: len(seen), want: http.StatusCreated, request: request})
	if err != nil {
		t.Fatal(err)
	}
	for i := range seen {
		if n := seen[i].Load(); n != 1 {
			t.Errorf("request %d was made %d times", i, n)
		}
	}
	if len(got.latencies) != len(seen) || got.bytes != 5 || got.at(0) <= 0 {
		t.Errorf("%d latencies, the least %s, %d bytes", len(got.latencies), got.at(0), got.bytes)
	}
	// Figures of refusals mean nothing.
	if _, err := s.run(t.Context(), load{clients: 1, count: 1, want: http.StatusOK, request: request}); err == nil {
		t.Error("a load whose answers are not those wanted has figures")
	}
}

func TestProcessesAreFoundAndLookedAt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	mark := fmt.Sprintf("86399.%d", os.Getpid())
	go func() {
		_, err := (&command.Exec{}).Run(ctx, command.Command{Program: "sleep", Args: []string{mark}, Limit: time.Hour})
		ended <- err
	}()
	defer func() {
		cancel()
		if err := <-ended; err == nil {
			t.Error("it ended by itself")
		}
	}()
	pid, err := child(mark)
	for err != nil && ctx.Err() == nil && len(ended) == 0 {
		runtime.Gosched()
		pid, err = child(mark)
	}
	if err != nil {
		t.Fatal(err)
	}
	if p, err := look(pid); err != nil || p.memory <= 0 || p.peak < p.memory {
		t.Errorf("process %d: %+v, %v", pid, p, err)
	}
	before, err := look(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	after := before
	for after.cpu == before.cpu && err == nil { // Looking takes time itself.
		after, err = look(os.Getpid())
	}
	if err != nil || after.cpu < before.cpu {
		t.Errorf("%v after %v, %v", after.cpu, before.cpu, err)
	}
	if _, err := child("nobody has this among his arguments"); err == nil {
		t.Error("a process was found that there is not")
	}
}

// The name of a program may hold anything.
func TestStatOfAProgramWithAnyName(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stat")
	text := "4711 (a) S 1 (b)) R 42 " + strings.Repeat("7 ", 30)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	fields, err := statOf(path)
	if err != nil || fields[0] != "R" || fields[1] != "42" {
		t.Errorf("%v, %v", fields, err)
	}
	if err := os.WriteFile(path, []byte("4711 (x) S 1"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := statOf(path); err == nil {
		t.Error("a line without its fields was read")
	}
}

func TestWaitingEndsWithTheServer(t *testing.T) {
	s := &server{exited: make(chan error, 1)}
	broken := errors.New("exit status 3")
	s.exited <- broken
	err := s.until(t.Context(), func(context.Context) (bool, error) { return false, nil })
	if !errors.Is(err, broken) {
		t.Errorf("the error is %v", err)
	}
	if len(s.exited) != 1 {
		t.Error("nobody else can learn that the server has ended")
	}
	if err := s.until(t.Context(), func(context.Context) (bool, error) { return true, nil }); err != nil {
		t.Errorf("what is so already is waited for: %v", err)
	}
}

// What clients do while something happens is spread over all definitions and ends.
func TestProbesCallTheAPI(t *testing.T) {
	var calls, puts atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			puts.Add(1)
			w.WriteHeader(http.StatusInternalServerError)
		}
		if calls.Add(1) == 10 {
			stop()
		}
	}))
	defer h.Close()
	var failed atomic.Int64
	took := (&server{url: h.URL}).probe(ctx, 0, 100, &failed)
	if n := calls.Load(); int64(len(took)) != n || n < 10 || failed.Load() != puts.Load() || puts.Load() < 2 {
		t.Errorf("%d latencies of %d calls, %d failed of %d", len(took), n, failed.Load(), puts.Load())
	}
}
