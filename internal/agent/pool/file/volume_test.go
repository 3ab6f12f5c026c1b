// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package file_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/file"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/pooltest"
)

var db = pool.ID{Resource: "db"}

const (
	newName      = "db_00000.new"
	finishedName = "db_00000.volume"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func size(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	must(t, err)
	return info.Size()
}

func TestSymbolicLinkInPlaceOfAVolumeIsRefused(t *testing.T) {
	for _, name := range []string{newName, finishedName} {
		dir := plain(t)
		victim := filepath.Join(plain(t), "victim")
		must(t, os.WriteFile(victim, []byte("precious"), 0o600))
		must(t, os.Symlink(victim, filepath.Join(dir, name)))
		p := open(t, file.Config{Dir: dir, Thin: true})
		for what, err := range calls(t, p) {
			switch what {
			case "space", "list", "identity", "check":
				if err != nil {
					t.Errorf("%s: %v", what, err)
				}
			default:
				if err == nil || !strings.Contains(err.Error(), "not a regular file") {
					t.Errorf("%s with a link %s: %v", what, name, err)
				}
			}
		}
		if text, err := os.ReadFile(victim); err != nil || string(text) != "precious" {
			t.Errorf("%q, %v", text, err)
		}
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}

func TestHalfMadeVolumeIsMadeAgain(t *testing.T) {
	for _, thin := range []bool{false, true} {
		for _, left := range []int64{0, 4096, 1 << 20} {
			dir := plain(t)
			must(t, os.WriteFile(filepath.Join(dir, newName), make([]byte, left), 0o600))
			p := open(t, file.Config{Dir: dir, Thin: thin})
			must(t, p.Create(t.Context(), db, 8192))
			if got := size(t, filepath.Join(dir, newName)); got != 8192 {
				t.Errorf("with %d bytes left over: %d bytes", left, got)
			}
			v, ok, err := p.Find(t.Context(), db)
			if err != nil || !ok || !v.New || v.Size != 8192 || !thin && v.Allocated < 8192 {
				t.Errorf("%+v, %t, %v", v, ok, err)
			}
		}
	}
}

func TestFinishIsARename(t *testing.T) {
	dir := plain(t)
	p := open(t, file.Config{Dir: dir, Thin: true})
	must(t, p.Create(t.Context(), db, 4096))
	before, err := os.Stat(filepath.Join(dir, newName))
	must(t, err)
	must(t, p.Finish(t.Context(), db))
	after, err := os.Stat(filepath.Join(dir, finishedName))
	must(t, err)
	if !os.SameFile(before, after) {
		t.Error("finish made another file")
	}
	if _, err := os.Stat(filepath.Join(dir, newName)); err == nil {
		t.Error("the old name is still there")
	}
}

func TestUnreservableFileSystemSaysWhatToUse(t *testing.T) {
	pooltest.NeedHost(t, "mkfs.ext2")
	dir := folder(t, pooltest.Mount(t, "ext2", 16*pooltest.MiB))
	p := open(t, file.Config{Dir: dir})
	err := p.Create(t.Context(), db, 4096)
	if err == nil || !strings.Contains(err.Error(), "use a FILE_THIN pool") {
		t.Errorf("got %v", err)
	}
	if v, err := p.List(t.Context()); err != nil || len(v) != 0 {
		t.Errorf("%v, %v", v, err)
	}
	must(t, open(t, file.Config{Dir: dir, Thin: true}).Create(t.Context(), db, 4096))
}

func TestSizeBeyondTheFileSystemIsRefused(t *testing.T) {
	pooltest.NeedHost(t)
	dir := folder(t, pooltest.Mount(t, "ext4", 16*pooltest.MiB))
	p := open(t, file.Config{Dir: dir, Thin: true})
	err := p.Create(t.Context(), db, 1<<50) // A file on ext4 has less than 16 TiB.
	if e, ok := errors.AsType[*pool.SizeError](err); !ok || e.Asked != 1<<50 {
		t.Errorf("got %v", err)
	}
	must(t, p.Create(t.Context(), db, 1<<40))
	err = p.Grow(t.Context(), db, 1<<50)
	if _, ok := errors.AsType[*pool.SizeError](err); !ok {
		t.Errorf("got %v", err)
	}
	if v, err := p.List(t.Context()); err != nil || len(v) != 1 || v[0].Size != 1<<40 {
		t.Errorf("%v, %v", v, err)
	}
}

// small is a FILE pool on a file system of 64 MiB.
func small(t *testing.T) (*file.Pool, string) {
	t.Helper()
	pooltest.NeedHost(t)
	dir := folder(t, pooltest.Mount(t, "ext4", 64*pooltest.MiB))
	p := open(t, file.Config{Dir: dir})
	_, err := p.Identity(t.Context())
	must(t, err)
	return p, dir
}

func free(t *testing.T, p *file.Pool) int64 {
	t.Helper()
	s, err := p.Space(t.Context())
	must(t, err)
	return s.Free
}

func TestVolumesThatTogetherDoNotFitFailCleanly(t *testing.T) {
	p, dir := small(t)
	before := free(t, p)
	each := before * 6 / 10
	errs := make([]error, 4)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = p.Create(t.Context(), pool.ID{Resource: fmt.Sprintf("r%d", i)}, each) })
	}
	wg.Wait()
	made := 0
	for _, err := range errs {
		if err == nil {
			made++
		} else if e, ok := errors.AsType[*pool.NoSpaceError](err); !ok || e.Asked < each || e.Total <= 0 {
			t.Errorf("got %v", err)
		}
	}
	volumes, err := p.List(t.Context())
	must(t, err)
	if made > 1 || len(volumes) != made {
		t.Errorf("%d of 4 were made, %d are listed: %+v", made, len(volumes), volumes)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != made+1 {
		t.Errorf("%v, %v", entries, err)
	}
	for _, v := range volumes {
		must(t, p.Remove(t.Context(), v.ID))
	}
	if after := free(t, p); after < before-pooltest.MiB {
		t.Errorf("%d bytes were free, and are %d", before, after)
	}
}

func TestGrowOnAFullDiskKeepsTheVolume(t *testing.T) {
	p, _ := small(t)
	must(t, p.Create(t.Context(), db, 8*pooltest.MiB))
	must(t, p.Finish(t.Context(), db))
	_, err := p.Open(t.Context(), db)
	must(t, err)
	before := free(t, p)
	filler := pool.ID{Resource: "filler"}
	must(t, p.Create(t.Context(), filler, before-4*pooltest.MiB))
	for range 2 {
		err := p.Grow(t.Context(), db, 16*pooltest.MiB)
		if e, ok := errors.AsType[*pool.NoSpaceError](err); !ok || e.Asked != 8*pooltest.MiB {
			t.Errorf("got %v", err)
		}
		d, err := p.Open(t.Context(), db)
		must(t, err)
		if v, _, err := p.Find(t.Context(), db); err != nil || v.Size != 8*pooltest.MiB || d.Size != v.Size || v.Allocated > 9*pooltest.MiB {
			t.Errorf("%+v, %+v, %v", v, d, err)
		}
	}
	must(t, p.Remove(t.Context(), filler))
	must(t, p.Grow(t.Context(), db, 16*pooltest.MiB))
	must(t, p.Remove(t.Context(), db))
}

func TestFullPoolIsFaultyForAnyChange(t *testing.T) {
	p, dir := small(t)
	filler, err := os.Create(filepath.Join(dir, "filler"))
	must(t, err)
	for err == nil {
		_, err = filler.Write(make([]byte, pooltest.MiB))
	}
	for err = nil; err == nil; {
		_, err = filler.Write(make([]byte, 4096))
	}
	must(t, filler.Close())
	if e, ok := errors.AsType[*pool.FaultyError](p.Check(t.Context())); !ok || e.Reason != pool.Full {
		t.Errorf("check: %v", e)
	}
	if s, err := p.Space(t.Context()); err != nil || s.Free >= pooltest.MiB {
		t.Errorf("%+v, %v", s, err)
	}
	if _, ok := errors.AsType[*pool.NoSpaceError](p.Create(t.Context(), db, 4*pooltest.MiB)); !ok {
		t.Error("a volume was made on a full disk")
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("left: %v, %v", entries, err)
	}
}
