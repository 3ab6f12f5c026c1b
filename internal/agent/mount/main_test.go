// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package mount_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/agent/mount"
	"github.com/holdfast-storage/holdfast/internal/agent/mount/mounttest"
	"github.com/holdfast-storage/holdfast/internal/command"
)

func TestMain(m *testing.M) { os.Exit(mounttest.Main(m)) }

// host is a Kernel with a scratch folder to work in.
type host struct {
	*mount.Kernel

	dir  string // Scratch.
	base string
}

func newHost(t *testing.T, runner command.Runner) *host {
	t.Helper()
	dir := mounttest.Scratch(t)
	h := &host{dir: dir, base: filepath.Join(dir, "mnt")}
	if runner == nil {
		runner = &command.Exec{}
	}
	k, err := mount.New(mount.Config{Base: h.base, Run: filepath.Join(dir, "run"), Runner: runner})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	})
	h.Kernel = k
	if err := k.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	return h
}

// folder returns a new folder with one file, as a source to bind.
func (h *host) folder(t *testing.T, name string) mount.Spec {
	t.Helper()
	dir := mounttest.Mkdir(t, h.dir, "sources", name)
	write(t, filepath.Join(dir, "file"), name)
	return mount.Spec{Source: source(t, mount.Bind, dir)}
}

func (h *host) up(t *testing.T, spec mount.Spec) mount.Mounted {
	t.Helper()
	m, err := h.Mount(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// at returns the mounts at a place.
func (h *host) at(t *testing.T, target string) []mount.Entry {
	t.Helper()
	table, err := h.Table()
	if err != nil {
		t.Fatal(err)
	}
	var at []mount.Entry
	for _, e := range table {
		if e.Target == target {
			at = append(at, e)
		}
	}
	return at
}

func source(t *testing.T, kind mount.Kind, text string) mount.Source {
	t.Helper()
	s, err := mount.ParseSource(kind, text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func options(t *testing.T, kind mount.Kind, text string) mount.Options {
	t.Helper()
	o, err := mount.ParseOptions(kind, text)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// wantFault checks that err is an error of package mount with a fault and some words.
func wantFault(t *testing.T, err error, fault mount.Fault, words ...string) {
	t.Helper()
	var failed *mount.Error
	if !errors.As(err, &failed) || failed.Fault != fault {
		t.Fatalf("got error %v, want one that says it %s", err, fault)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not say %q", err, w)
		}
	}
}

// tmpfs mounts a file system in memory at a folder, behind the back of the Kernel.
func tmpfs(t *testing.T, dir string) {
	t.Helper()
	if err := unix.Mount("foreign", dir, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
}

// soon is a context that ends before a test is called hung.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}
