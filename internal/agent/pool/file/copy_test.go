// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package file_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/file"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/freeze"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/pooltest"
	"github.com/holdfast-storage/holdfast/internal/command"
)

var (
	snap  = pool.SnapshotID{Resource: "db", Snapshot: "snap"}
	clone = pool.ID{Resource: "clone"}
)

// written is a FILE_THIN pool with a finished and closed volume of 24 MiB, all written, and a snapshot of it, on a file system that cannot share blocks.
func written(t *testing.T, size int64) (*file.Pool, string) {
	t.Helper()
	pooltest.NeedHost(t)
	dir := folder(t, pooltest.Mount(t, "ext4", size))
	p := open(t, file.Config{Dir: dir, Thin: true})
	must(t, p.Create(t.Context(), db, 24*pooltest.MiB))
	must(t, p.Finish(t.Context(), db))
	must(t, os.WriteFile(filepath.Join(dir, finishedName), bytes.Repeat([]byte("content "), 3*pooltest.MiB), 0o600))
	must(t, p.TakeSnapshot(t.Context(), snap, nil))
	must(t, p.FinishSnapshot(t.Context(), snap))
	t.Cleanup(func() { must(t, open(t, file.Config{Dir: dir, Thin: true}).Remove(context.Background(), db)) })
	return p, dir
}

// names returns what is in a pool's directory but for its identity.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	var names []string
	for _, e := range entries {
		if e.Name() != ".holdfast-pool" {
			names = append(names, e.Name())
		}
	}
	return names
}

func wantNames(t *testing.T, dir string, want ...string) {
	t.Helper()
	if got := names(t, dir); strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("the directory has %v, want %v", got, want)
	}
}

// copies are the calls that copy, each with a progress of the test's own.
func copies(p *file.Pool) map[string]func(context.Context, pool.Progress) error {
	return map[string]func(context.Context, pool.Progress) error{
		"take": func(ctx context.Context, progress pool.Progress) error {
			return p.TakeSnapshot(ctx, pool.SnapshotID{Resource: "db", Snapshot: "other"}, progress)
		},
		"clone": func(ctx context.Context, progress pool.Progress) error {
			return p.Clone(ctx, clone, 32*pooltest.MiB, snap, progress)
		},
		"roll back": func(ctx context.Context, progress pool.Progress) error {
			return p.RollBack(ctx, snap, "token", progress)
		},
	}
}

func TestCancelledCopyLeavesNothing(t *testing.T) {
	p, dir := written(t, 256*pooltest.MiB)
	for name, call := range copies(p) {
		ctx, cancel := context.WithCancel(t.Context())
		var seen []pool.Copied
		err := call(ctx, func(c pool.Copied) {
			if seen = append(seen, c); c.Done > 0 {
				cancel()
			}
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
		if last := seen[len(seen)-1]; last.Done != 8*pooltest.MiB || last.Total != 24*pooltest.MiB {
			t.Errorf("%s: progress %+v", name, seen)
		}
		wantNames(t, dir, finishedName, "db_00000@snap.snapshot")
	}
}

func TestFullDiskInTheMidstOfACopyLeavesNothing(t *testing.T) {
	p, dir := written(t, 160*pooltest.MiB)
	filler := pool.ID{Resource: "filler"}
	must(t, open(t, file.Config{Dir: dir}).Create(t.Context(), filler, free(t, p)-12*pooltest.MiB))
	before := free(t, p)
	for name, call := range copies(p) {
		e, ok := errors.AsType[*pool.NoSpaceError](call(t.Context(), nil))
		if !ok || e.Asked < 24*pooltest.MiB || e.Free >= e.Asked {
			t.Errorf("%s: %v", name, e)
		}
		wantNames(t, dir, finishedName, "db_00000@snap.snapshot", "filler_00000.new")
	}
	if after := free(t, p); after < before-pooltest.MiB {
		t.Errorf("%d bytes were free, and are %d", before, after)
	}
	if v, _, err := p.Find(t.Context(), db); err != nil || v.RolledBack != "" || v.New {
		t.Errorf("%+v, %v", v, err)
	}
	// A FILE pool knows it before it copies.
	thick := open(t, file.Config{Dir: dir})
	err := thick.Clone(t.Context(), clone, 32*pooltest.MiB, snap, func(pool.Copied) { t.Error("it was begun") })
	if e, ok := errors.AsType[*pool.NoSpaceError](err); !ok || e.Asked != 32*pooltest.MiB {
		t.Errorf("%v", err)
	}
	must(t, p.Remove(t.Context(), filler))
	for name, call := range copies(p) {
		if err := call(t.Context(), nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOthersGoOnWhileContentIsCopied(t *testing.T) {
	p, dir := written(t, 256*pooltest.MiB)
	for name, call := range copies(p) {
		looked, token := false, ""
		if v, _, err := p.Find(t.Context(), db); err == nil {
			token = v.RolledBack
		}
		err := call(t.Context(), func(c pool.Copied) {
			if looked || c.Done == 0 {
				return
			}
			looked = true
			if v, ok, err := p.Find(t.Context(), db); !ok || err != nil || v.New || v.RolledBack != token {
				t.Errorf("%s: %+v, %t, %v", name, v, ok, err)
			}
			if v, err := p.List(t.Context()); err != nil || len(v) == 0 || v[len(v)-1].New {
				t.Errorf("%s: %+v, %v", name, v, err)
			}
			if v, ok, err := p.Find(t.Context(), clone); err != nil || ok != (name == "clone") || ok && !v.New {
				t.Errorf("%s: %+v, %t, %v", name, v, ok, err)
			}
			if err := p.Finish(t.Context(), clone); err == nil || name == "clone" && !strings.Contains(err.Error(), "copy that was broken off") {
				t.Errorf("%s: a copy that is under way was finished: %v", name, err)
			}
			// What is read is in use, and whoever reads it has a name.
			if name != "take" {
				e, ok := errors.AsType[*pool.InUseError](p.RemoveSnapshot(t.Context(), snap))
				if !ok || e.Snapshot != "snap" || !strings.Contains(e.Error(), "a copy that becomes volume ") {
					t.Errorf("%s: %v", name, e)
				}
			} else if e, ok := errors.AsType[*pool.InUseError](p.Remove(t.Context(), db)); !ok || !strings.Contains(e.Error(), "a copy that becomes snapshot db/0@other") {
				t.Errorf("%s: %v", name, e)
			}
			// A driver that has just started does not sweep away what another one works on.
			if _, err := open(t, file.Config{Dir: dir, Thin: true}).List(t.Context()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
		if err != nil || !looked {
			t.Errorf("%s: %v, looked: %t", name, err, looked)
		}
		must(t, p.Remove(t.Context(), clone))
	}
}

func TestWhatIsRemovedWhileItIsCopiedDoesNotComeBack(t *testing.T) {
	p, dir := written(t, 256*pooltest.MiB)
	removed := map[string]func() error{
		"take":  func() error { return p.RemoveSnapshot(t.Context(), pool.SnapshotID{Resource: "db", Snapshot: "other"}) },
		"clone": func() error { return p.Remove(t.Context(), clone) },
	}
	for name, remove := range removed {
		err := copies(p)[name](t.Context(), func(c pool.Copied) {
			if c.Done == c.Total {
				must(t, remove())
			}
		})
		if err == nil || !strings.Contains(err.Error(), "was removed while it was copied") {
			t.Errorf("%s: %v", name, err)
		}
		wantNames(t, dir, finishedName, "db_00000@snap.snapshot")
	}
	// One that is made anew meanwhile is not taken for the first one, nor removed with it.
	err := copies(p)["clone"](t.Context(), func(c pool.Copied) {
		if c.Done == c.Total {
			must(t, p.Create(t.Context(), clone, 4096))
		}
	})
	if err == nil {
		t.Error("two were made")
	}
	wantNames(t, dir, "clone_00000.new", finishedName, "db_00000@snap.snapshot")
}

func TestVolumeThatComesIntoUseIsNotRolledBack(t *testing.T) {
	p, dir := written(t, 256*pooltest.MiB)
	var release func()
	err := p.RollBack(t.Context(), snap, "token", func(c pool.Copied) {
		if c.Done == c.Total && release == nil {
			d, err := p.Open(t.Context(), db)
			must(t, err)
			release = pooltest.OpenElsewhere(t, d.Path)
		}
	})
	if h := holder(t, err); h.Kind != pool.Opened {
		t.Errorf("%+v", h)
	}
	wantNames(t, dir, finishedName, "db_00000@snap.snapshot")
	release()
	must(t, p.RollBack(t.Context(), snap, "token", nil))
}

func TestVolumeThatGrowsWhileItIsRolledBackStaysLarge(t *testing.T) {
	p, dir := written(t, 256*pooltest.MiB)
	must(t, p.RollBack(t.Context(), snap, "token", func(c pool.Copied) {
		if c.Done == c.Total {
			must(t, p.Grow(t.Context(), db, 40*pooltest.MiB))
		}
	}))
	if v, _, err := p.Find(t.Context(), db); err != nil || v.Size != 40*pooltest.MiB || v.RolledBack != "token" {
		t.Errorf("%+v, %v", v, err)
	}
	wantNames(t, dir, "db_00000.rolled", finishedName, "db_00000@snap.snapshot")
	// The note belongs to the one file that was made by the roll-back.
	text, err := os.ReadFile(filepath.Join(dir, finishedName))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "other"), text, 0o600))
	must(t, os.Rename(filepath.Join(dir, "other"), filepath.Join(dir, finishedName)))
	if v, _, err := p.Find(t.Context(), db); err != nil || v.RolledBack != "" {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestSnapshotThatOthersReadStays(t *testing.T) {
	p, dir := written(t, 256*pooltest.MiB)
	path := filepath.Join(dir, "db_00000@snap.snapshot")
	release := pooltest.OpenElsewhere(t, path)
	e, ok := errors.AsType[*pool.InUseError](p.RemoveSnapshot(t.Context(), snap))
	if !ok || e.Holders[0].Kind != pool.Opened || e.Holders[0].PID == os.Getpid() {
		t.Errorf("%v", e)
	}
	release()
	device := pooltest.Run(t, "losetup", "-f", "--show", "-r", path)
	e, ok = errors.AsType[*pool.InUseError](p.RemoveSnapshot(t.Context(), snap))
	if !ok || e.Holders[0] != (pool.Holder{Kind: pool.Stacked, Name: filepath.Base(device)}) {
		t.Errorf("%v", e)
	}
	pooltest.Run(t, "losetup", "-d", device)
	must(t, p.RemoveSnapshot(t.Context(), snap))
	wantNames(t, dir, finishedName)
}

func TestLinkInPlaceOfASnapshotIsRefused(t *testing.T) {
	dir := plain(t)
	p := open(t, file.Config{Dir: dir, Thin: true})
	must(t, p.Create(t.Context(), db, 4096))
	must(t, p.Finish(t.Context(), db))
	must(t, os.Symlink("/etc/passwd", filepath.Join(dir, "db_00000@snap.snapshot")))
	must(t, os.Symlink("/etc/passwd", filepath.Join(dir, "db_00000@new.new")))
	for what, err := range map[string]error{
		"take":      p.TakeSnapshot(t.Context(), snap, nil),
		"take new":  p.TakeSnapshot(t.Context(), pool.SnapshotID{Resource: "db", Snapshot: "new"}, nil),
		"finish":    p.FinishSnapshot(t.Context(), snap),
		"remove":    p.RemoveSnapshot(t.Context(), snap),
		"clone":     p.Clone(t.Context(), clone, 4096, snap, nil),
		"roll back": p.RollBack(t.Context(), snap, "token", nil),
	} {
		if err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if list, err := p.Snapshots(t.Context(), ""); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
}

// victimEnv is set in a process that begins a copy and is killed in the midst of it.
const victimEnv = "HOLDFAST_TEST_COPY_VICTIM"

// victim is what such a process is to do.
type victim struct {
	Dir, Call, Ready string
	Notes            string // If set, volumes db/0 and db/1 are suspended meanwhile.
}

func beVictim(text string) int {
	var v victim
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return 1
	}
	c := file.Config{Name: "p", Node: "n1", Dir: v.Dir, Thin: true}
	if v.Notes != "" {
		c.Freezer = freeze.New(freeze.Config{Runner: &command.Exec{}, Notes: v.Notes})
	}
	p, err := file.New(c)
	if err != nil {
		return 1
	}
	if v.Notes != "" {
		if _, err := p.Suspend(context.Background(), both, time.Hour); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	err = copies(p)[v.Call](context.Background(), func(c pool.Copied) {
		if c.Done > 0 {
			_ = os.WriteFile(v.Ready, []byte("copying\n"), 0o600)
			time.Sleep(time.Hour)
		}
	})
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// TestCopyOfAKilledProcessIsSweptAway kills a process in the midst of each copy. The next one finds all as it was, and can do the same.
func TestCopyOfAKilledProcessIsSweptAway(t *testing.T) {
	p, dir := written(t, 256*pooltest.MiB)
	self, err := os.Executable()
	must(t, err)
	for name := range copies(p) {
		text, err := json.Marshal(victim{Dir: dir, Call: name, Ready: "READY"})
		must(t, err)
		kill := pooltest.InShell(t, fmt.Sprintf(`%s="$(echo '%s' | sed "s:READY:$2:")" exec "$1"`, victimEnv, text), self)
		if len(names(t, dir)) != 3 {
			t.Errorf("%s: no copy is under way: %v", name, names(t, dir))
		}
		kill()
		again := open(t, file.Config{Dir: dir, Thin: true})
		volumes, err := again.List(t.Context())
		if err != nil || len(volumes) != 1 || volumes[0].New || volumes[0].RolledBack != "" {
			t.Errorf("%s: %+v, %v", name, volumes, err)
		}
		snapshots, err := again.Snapshots(t.Context(), "")
		if err != nil || len(snapshots) != 1 || snapshots[0].New {
			t.Errorf("%s: %+v, %v", name, snapshots, err)
		}
		wantNames(t, dir, finishedName, "db_00000@snap.snapshot")
		must(t, copies(again)[name](t.Context(), nil))
		must(t, errors.Join(again.Remove(t.Context(), clone), again.RemoveSnapshot(t.Context(), pool.SnapshotID{Resource: "db", Snapshot: "other"})))
		_ = os.Remove(filepath.Join(dir, "db_00000.rolled")) // As it was before.
	}
}
