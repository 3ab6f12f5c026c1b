// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package nfs_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent/mount"
	"github.com/holdfast-storage/holdfast/internal/agent/mount/mounttest"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/pooltest"
	"github.com/holdfast-storage/holdfast/internal/command"
)

func TestMain(m *testing.M) { os.Exit(mounttest.Main(m)) }

// versions are the options for each version of the protocol, besides those of a test.
func versions(t *testing.T) []string {
	t.Helper()
	mounttest.NeedRoot(t)
	text := os.Getenv("HOLDFAST_LAB_NFS_VERSIONS")
	if text == "" || os.Getenv("HOLDFAST_LAB_NFS_FOLDER") == "" {
		t.Skip("needs an NFS server whose folders can be changed: set HOLDFAST_LAB_NFS_FOLDER, as in the lab")
	}
	return strings.Fields(text)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newKernel(t *testing.T) *mount.Kernel {
	t.Helper()
	dir := mounttest.Scratch(t)
	k, err := mount.New(mount.Config{Base: filepath.Join(dir, "mnt"), Run: filepath.Join(dir, "run"), Runner: &command.Exec{}})
	must(t, err)
	t.Cleanup(func() {
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	})
	must(t, k.Prepare(t.Context()))
	return k
}

// spec is what is to be mounted of a folder below the one that the server exports.
func spec(t *testing.T, below, opts string, id mount.Identity) mount.Spec {
	t.Helper()
	s, err := mount.ParseSource(mount.NFS, filepath.Join(os.Getenv("HOLDFAST_LAB_NFS"), below))
	must(t, err)
	o, err := mount.ParseOptions(mount.NFS, opts)
	must(t, err)
	return mount.Spec{Source: s, Options: o, Identity: id}
}

// soon ends before a test is called hung.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func wantFault(t *testing.T, err error, fault mount.Fault) {
	t.Helper()
	e, ok := errors.AsType[*mount.Error](err)
	if !ok || e.Fault != fault {
		t.Errorf("got %v, want an error that it %s", err, fault)
	}
}

// nothingMounted looks whether the place of a source is bare.
func nothingMounted(t *testing.T, k *mount.Kernel, s mount.Source) {
	t.Helper()
	table, err := k.Table()
	must(t, err)
	for _, e := range table {
		if e.Target == k.Target(s) {
			t.Errorf("%v is mounted", e)
		}
	}
}

// on changes something on the server.
func on(t *testing.T, script string) {
	t.Helper()
	pooltest.Run(t, "nsenter", "-t", "1", "-m", "-n", "sh", "-ec", "cd "+os.Getenv("HOLDFAST_LAB_NFS_FOLDER")+"; "+script)
}

// forget has the server look at its folders anew.
const forget = "exportfs -f" //nolint:misspell // The name of the program.

// each runs a test for each version of the protocol.
func each(t *testing.T, test func(t *testing.T, opts string)) {
	t.Helper()
	for _, opts := range versions(t) {
		t.Run(opts, func(t *testing.T) { test(t, opts) })
	}
}

func TestReadOnlyExportGetsNoMarkerAndIsNotKept(t *testing.T) {
	each(t, func(t *testing.T, opts string) {
		t.Helper()
		on(t, "rm -f read-only/"+mount.MarkerName)
		k, s := newKernel(t), spec(t, "read-only", opts, mount.Identity{Create: true})
		_, err := k.Mount(soon(t), s)
		wantFault(t, err, mount.ReadOnly)
		nothingMounted(t, k, s.Source)
	})
}

func TestExportThatBecameAnotherFileSystemIsNotTaken(t *testing.T) {
	each(t, func(t *testing.T, opts string) {
		t.Helper()
		on(t, "rm -f other/"+mount.MarkerName)
		k, s := newKernel(t), spec(t, "other", opts, mount.Identity{Create: true})
		m, err := k.Mount(soon(t), s)
		must(t, err)
		must(t, k.Unmount(soon(t), s.Source, m.Entry, mount.Plain))
		on(t, "mv other was; mkdir other; "+forget)
		s.Identity = mount.Identity{UUID: m.Identity}
		_, err = k.Mount(soon(t), s)
		wantFault(t, err, mount.WrongIdentity)
		nothingMounted(t, k, s.Source)
		on(t, "rmdir other; mv was other; "+forget)
		again, err := k.Mount(soon(t), s)
		must(t, err)
		must(t, k.Unmount(soon(t), s.Source, again.Entry, mount.Plain))
	})
}

func TestExportThatWasRemovedUnderItsMountIsStale(t *testing.T) {
	each(t, func(t *testing.T, opts string) {
		t.Helper()
		on(t, "rm -f other/"+mount.MarkerName)
		k, s := newKernel(t), spec(t, "other", opts+",soft,timeo=10,retrans=1", mount.Identity{Create: true})
		m, err := k.Mount(soon(t), s)
		must(t, err)
		s.Identity = mount.Identity{UUID: m.Identity}
		must(t, k.Probe(soon(t), s, m.Entry))
		on(t, "rm -rf other; mkdir other; "+forget)
		wantFault(t, k.Probe(soon(t), s, m.Entry), mount.StaleHandle)
		if err := k.Unmount(soon(t), s.Source, m.Entry, mount.Plain); err != nil {
			t.Errorf("unmount what is stale: %v", err)
		}
		nothingMounted(t, k, s.Source)
	})
}

func TestFullExportGetsNoMarkerAndIsNotKept(t *testing.T) {
	opts := versions(t)[0]
	on(t, "rm -f other/"+mount.MarkerName+"; for i in 1 2 3 4; do dd if=/dev/zero of=fill$i bs=1k 2>/dev/null || true; sync; done")
	t.Cleanup(func() { on(t, "rm -f fill*; sync") })
	k, s := newKernel(t), spec(t, "other", opts, mount.Identity{Create: true})
	if _, err := k.Mount(soon(t), s); err == nil || !strings.Contains(err.Error(), "no space left on device") {
		t.Errorf("got %v, want an error that says that there is no space", err)
	}
	nothingMounted(t, k, s.Source)
	on(t, `test ! -s other/`+mount.MarkerName)
}
