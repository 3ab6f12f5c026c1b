// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package bench measures Holdfast on the machine that it runs on, and prints figures: rates,
// latencies, the server's CPU and memory. The server is a process of its own, with the real
// store on disk; beside each rate stands that of a bare handler, which decodes the same body
// and makes it durable by the same group commit, as the ceiling of this machine.
//
// Figures are for comparing on one machine; nothing here passes or fails.
package bench

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast-storage/holdfast/internal/command"
)

// Config says what is measured, and where.
type Config struct {
	Program string // of this program: servers are started from it
	Dir     string // a folder for databases and pools; what is made in it is removed
	Out     io.Writer
	Sizes   []int // numbers of definitions
	Clients int
	Device  bool // also measure devices, which needs root
}

// Run measures everything and prints as it goes.
func Run(ctx context.Context, c Config) error {
	dir, err := os.MkdirTemp(c.Dir, "holdfast-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // scratch; the next run has another one
	b := &bench{Config: c, dir: dir, runner: &command.Exec{}}
	if err := b.bare(ctx); err != nil {
		return err
	}
	for _, n := range c.Sizes {
		if err := b.definitions(ctx, n); err != nil {
			return fmt.Errorf("with %d definitions: %w", n, err)
		}
	}
	if !c.Device {
		b.say("\nfrom request to device: left out, it needs root\n")
		return nil
	}
	if err := b.devices(ctx); err != nil {
		return err
	}
	return b.holds(ctx)
}

type bench struct {
	Config
	dir     string
	runner  command.Runner
	ceiling float64 // requests a second of the bare handler
}

func (b *bench) say(format string, args ...any) { _, _ = fmt.Fprintf(b.Out, format, args...) }

// server is a process that serves HTTP on loopback.
type server struct {
	url    string
	agents string // where it serves agents
	args   []string
	pid    int
	stop   context.CancelFunc
	exited chan error
}

// start starts this program with args and waits until it is healthy. In args, ADDR stands
// for the address to serve on, AGENTS for another free one.
func (b *bench) start(ctx context.Context, args ...string) (*server, error) {
	addr, err := free()
	if err != nil {
		return nil, err
	}
	agents, err := free()
	if err != nil {
		return nil, err
	}
	for i := range args {
		args[i] = strings.NewReplacer("ADDR", addr, "AGENTS", agents).Replace(args[i])
	}
	return b.launch(ctx, server{url: "http://" + addr, agents: agents, args: args})
}

// again kills a server and starts it again on the same addresses and data.
func (b *bench) again(ctx context.Context, s *server) (*server, error) {
	s.end()
	return b.launch(ctx, server{url: s.url, agents: s.agents, args: s.args})
}

func (b *bench) launch(ctx context.Context, s server) (*server, error) {
	const longest = time.Hour
	ctx, s.stop = context.WithCancel(ctx)
	s.exited = make(chan error, 1)
	go func() {
		_, err := b.runner.Run(ctx, command.Command{Program: b.Program, Args: s.args, Limit: longest})
		s.exited <- err
	}()
	err := s.await(ctx)
	if err == nil {
		s.pid, err = child(strings.TrimPrefix(s.url, "http://"))
	}
	if err != nil {
		s.end()
		return nil, err
	}
	return &s, nil
}

// free returns an address of loopback that nobody listens on now.
func free() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // loopback, closed at once
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// await waits until the server is healthy.
func (s *server) await(ctx context.Context) error {
	return s.until(ctx, func(ctx context.Context) (bool, error) {
		_, code, err := call(ctx, http.DefaultClient, http.MethodGet, s.url+"/health", "")
		return err == nil && code == http.StatusOK, nil
	})
}

// until waits until something is so, and gives up when the server has ended, or after a time
// in which it would have been so on any machine.
func (s *server) until(ctx context.Context, so func(context.Context) (bool, error)) error {
	const (
		patience = 2 * time.Minute
		pace     = 20 * time.Millisecond
		share    = 5 // asking takes no more than this part of the time
	)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		began := time.Now()
		if is, err := so(ctx); is || err != nil {
			return err
		}
		select {
		case <-time.After(max(pace, share*time.Since(began))):
		case err := <-s.exited:
			s.exited <- err
			return fmt.Errorf("the server ended: %w", err)
		case <-ctx.Done():
			return fmt.Errorf("it did not come to that within %s", patience)
		}
	}
}

// end kills the server and waits until it is gone.
func (s *server) end() {
	s.stop()
	err := <-s.exited
	s.exited <- err
}

// create makes a call that creates something, and fails when it does not.
func (s *server) create(ctx context.Context, path, body string) error {
	text, code, err := fetch(ctx, http.DefaultClient, http.MethodPost, s.url+path, body)
	if err == nil && code != http.StatusCreated {
		err = fmt.Errorf("POST %s was answered with %d: %s", path, code, text)
	}
	return err
}

// online tells whether so many nodes are online.
func (s *server) online(ctx context.Context, nodes int) (bool, error) {
	return s.shows(ctx, "/v1/nodes", `"connection_status":"ONLINE"`, nodes)
}

// known tells whether the state of so many replicas is known.
func (s *server) known(ctx context.Context, replicas int) (bool, error) {
	return s.shows(ctx, "/v1/view/resources", `"in_use":`, replicas)
}

func (s *server) shows(ctx context.Context, path, what string, times int) (bool, error) {
	text, code, err := fetch(ctx, http.DefaultClient, http.MethodGet, s.url+path, "")
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("%s was answered with %d", path, code)
	}
	return err == nil && strings.Count(text, what) >= times, err
}

// folder returns a new folder below the bench's own.
func (b *bench) folder(name string) (string, error) {
	dir := filepath.Join(b.dir, name)
	return dir, os.MkdirAll(dir, 0o700)
}
