// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// startReal starts the program as a new user does: holdfast up, with everything in a folder of its own.
func (s *script) startReal() {
	t := s.t
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("real devices need root")
	}
	s.controller = free(s)
	ctx, cancel := context.WithCancel(context.Background())
	server := exec.CommandContext(ctx, filepath.Join(s.bin, "holdfast"), "up", "--data", s.disk(), "--node", "host1",
		"--listen", s.controller, "--agent-listen", free(s))
	server.Cancel = func() error { return server.Process.Signal(os.Interrupt) }
	server.WaitDelay = 20 * time.Second
	server.Stderr = io.Discard
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		if err := server.Wait(); err != nil && server.ProcessState.ExitCode() != 0 {
			t.Errorf("the server ended with %v", err)
		}
	})
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("the server ended without being up: %v", err)
		}
		if strings.Contains(line, "Holdfast is up") {
			break
		}
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
}

// disk returns a folder on a file system of its own: how full the machine is does not show in what is printed.
func (s *script) disk() string {
	s.t.Helper()
	dir := s.t.TempDir()
	if err := unix.Mount("holdfast-test", dir, "tmpfs", 0, "size=1g"); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			s.t.Error(err)
		}
	})
	return dir
}

func free(s *script) string {
	s.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		s.t.Fatal(err)
	}
	return l.Addr().String()
}
