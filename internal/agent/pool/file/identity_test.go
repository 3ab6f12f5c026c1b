// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package file_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/file"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/pooltest"
)

// plain is a directory for tests that bind no devices and so need no root.
func plain(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// calls are all methods of a driver, each with its error.
func calls(t *testing.T, p *file.Pool) map[string]error {
	t.Helper()
	ctx, id := t.Context(), pool.ID{Resource: "db"}
	_, space := p.Space(ctx)
	_, list := p.List(ctx)
	_, _, find := p.Find(ctx, id)
	_, open := p.Open(ctx, id)
	_, holders := p.Holders(ctx, id)
	_, identity := p.Identity(ctx)
	return map[string]error{
		"space": space, "list": list, "find": find, "open": open, "holders": holders, "identity": identity, "check": p.Check(ctx),
		"create": p.Create(ctx, id, 4096), "finish": p.Finish(ctx, id), "grow": p.Grow(ctx, id, 4096), "close": p.Close(ctx, id), "remove": p.Remove(ctx, id),
	}
}

// wantFaulty looks whether all methods say why the pool cannot be worked with.
func wantFaulty(t *testing.T, p *file.Pool, r pool.Reason, text string) {
	t.Helper()
	for what, err := range calls(t, p) {
		e, ok := errors.AsType[*pool.FaultyError](err)
		if !ok || e.Reason != r || e.Correction == "" || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: got %v, want a fault that it %s, with %q", what, err, r, text)
		}
	}
}

func TestDirectoryThatCannotBeAPoolIsFaulty(t *testing.T) {
	dir := plain(t)
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "real/below"), 0o700), os.Symlink("real", filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		path   string
		reason pool.Reason
		text   string
	}{
		{"nonesuch", pool.Missing, "nonesuch is missing; mount"},
		{"file", pool.NotADirectory, "file is not a directory"},
		{"link", pool.NotADirectory, "symbolic link"},
		{"link/below", pool.NotADirectory, "symbolic link"},
	} {
		t.Run(tc.path, func(t *testing.T) {
			wantFaulty(t, open(t, file.Config{Dir: filepath.Join(dir, tc.path)}), tc.reason, tc.text)
		})
	}
	if _, err := os.Stat(filepath.Join(dir, "nonesuch")); err == nil {
		t.Error("a missing directory was made")
	}
}

func TestConfigurationThatCannotWorkIsRefused(t *testing.T) {
	for _, c := range []file.Config{
		{Name: "p", Node: "n", Dir: "relative"},
		{Name: "p", Node: "n", Dir: "/a/../b"},
		{Name: "p", Node: "n", Dir: "/"},
		{Name: "p", Node: "n"},
		{Node: "n", Dir: "/a"},
		{Name: "p", Dir: "/a"},
	} {
		if _, err := file.New(c); err == nil {
			t.Errorf("%+v was taken", c)
		}
	}
}

func TestDirectoryBelongsToOnePool(t *testing.T) {
	dir := plain(t)
	id, err := open(t, file.Config{Dir: dir}).Identity(t.Context())
	if err != nil || id == "" {
		t.Fatalf("%q, %v", id, err)
	}
	again, err := open(t, file.Config{Name: "P", Node: "N1", Dir: dir, Identity: id}).Identity(t.Context()) // Names are the same in any case.
	if err != nil || again != id {
		t.Errorf("%q, %v, want %q", again, err, id)
	}
	wantFaulty(t, open(t, file.Config{Name: "other", Node: "n1", Dir: dir}), pool.WrongIdentity, "pool p of node n1")
	wantFaulty(t, open(t, file.Config{Name: "p", Node: "n2", Dir: dir}), pool.WrongIdentity, "a directory of its own")
	wantFaulty(t, open(t, file.Config{Name: "p", Node: "n1", Dir: dir, Identity: "another"}), pool.LostIdentity, "instead of another")
}

func TestFirstUsesAtOnceGiveOneIdentity(t *testing.T) {
	dir := plain(t)
	ids := make([]string, 8)
	var wg sync.WaitGroup
	for i := range ids {
		p := open(t, file.Config{Dir: dir})
		wg.Go(func() {
			var err error
			if ids[i], err = p.Identity(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, id := range ids {
		if id != ids[0] {
			t.Errorf("identities %v", ids)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
}

func TestDamagedIdentityIsFaulty(t *testing.T) {
	for _, text := range []string{"", "{", "{}", `{"pool":"p","node":"n1"}`} {
		dir := plain(t)
		if err := os.WriteFile(filepath.Join(dir, ".holdfast-pool"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		wantFaulty(t, open(t, file.Config{Dir: dir}), pool.Unreadable, ".holdfast-pool")
	}
}

func TestUnmountedDirectoryIsNoticed(t *testing.T) {
	pooltest.NeedHost(t)
	mount := pooltest.Mount(t, "tmpfs", 0)
	dir := filepath.Join(mount, "pool")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	known := open(t, file.Config{Dir: dir, Thin: true})
	id, err := known.Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := known.Create(t.Context(), pool.ID{Resource: "db"}, 4096); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, ""); err != nil { // What was there is not to be seen, as if it were not mounted.
		t.Fatal(err)
	}
	wantFaulty(t, known, pool.LostIdentity, "mount the file system")
	wantFaulty(t, open(t, file.Config{Dir: dir, Thin: true, Identity: id}), pool.LostIdentity, id)
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("something was written to the wrong directory: %v, %v", entries, err)
	}
	if err := unix.Unmount(dir, 0); err != nil {
		t.Fatal(err)
	}
	if volumes, err := known.List(t.Context()); err != nil || len(volumes) != 1 {
		t.Errorf("%v, %v", volumes, err)
	}
}

func TestReadOnlyPoolIsFaulty(t *testing.T) {
	pooltest.NeedHost(t)
	mount := pooltest.Mount(t, "ext4", 16*pooltest.MiB)
	fresh := folder(t, mount)
	dir := folder(t, mount)
	p := open(t, file.Config{Dir: dir})
	if err := p.Create(t.Context(), pool.ID{Resource: "db"}, 4096); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("", mount, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	wantFaulty(t, open(t, file.Config{Dir: fresh}), pool.ReadOnly, "read-only")
	_, space := p.Space(t.Context())
	for what, err := range map[string]error{
		"space": space, "check": p.Check(t.Context()), "create": p.Create(t.Context(), pool.ID{Resource: "x"}, 4096), "remove": p.Remove(t.Context(), pool.ID{Resource: "db"}),
	} {
		if e, ok := errors.AsType[*pool.FaultyError](err); !ok || e.Reason != pool.ReadOnly {
			t.Errorf("%s: %v", what, err)
		}
	}
	if volumes, err := p.List(t.Context()); err != nil || len(volumes) != 1 {
		t.Errorf("%v, %v", volumes, err)
	}
}

func TestPoolThatCannotBeWrittenIsFaulty(t *testing.T) {
	pooltest.NeedHost(t, "chattr")
	dir := folder(t, pooltest.Mount(t, "ext4", 16*pooltest.MiB))
	p := open(t, file.Config{Dir: dir})
	if err := p.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	pooltest.Run(t, "chattr", "+i", dir)
	for what, err := range map[string]error{"check": p.Check(t.Context()), "create": p.Create(t.Context(), pool.ID{Resource: "db"}, 4096)} {
		if e, ok := errors.AsType[*pool.FaultyError](err); !ok || e.Reason != pool.NotWritable {
			t.Errorf("%s: %v", what, err)
		}
	}
	pooltest.Run(t, "chattr", "-i", dir)
	if err := p.Check(t.Context()); err != nil {
		t.Error(err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("the checks left something: %v, %v", entries, err)
	}
}
