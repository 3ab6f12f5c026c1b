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
	"errors"
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
	return b.devices(ctx)
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
	ctx, cancel := context.WithCancel(ctx)
	s := &server{url: "http://" + addr, stop: cancel, exited: make(chan error, 1)}
	go func() {
		_, err := b.runner.Run(ctx, command.Command{Program: b.Program, Args: args, Limit: time.Hour})
		s.exited <- err
	}()
	if err := s.await(ctx); err != nil {
		s.end()
		return nil, err
	}
	return s, nil
}

// free returns an address of loopback that nobody listens on now.
func free() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // loopback, closed at once
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

func (s *server) await(ctx context.Context) error {
	const patience = 30 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, code, err := call(ctx, http.DefaultClient, http.MethodGet, s.url+"/health", ""); err == nil && code == http.StatusOK {
			return nil
		}
		select {
		case <-tick.C:
		case err := <-s.exited:
			s.exited <- err
			return fmt.Errorf("the server ended: %w", err)
		case <-ctx.Done():
			return errors.New("the server was not healthy in time")
		}
	}
}

func (s *server) end() {
	s.stop()
	<-s.exited
}

// folder returns a new folder below the bench's own.
func (b *bench) folder(name string) (string, error) {
	dir := filepath.Join(b.dir, name)
	return dir, os.MkdirAll(dir, 0o700)
}
