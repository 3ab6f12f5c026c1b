// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package boltkv_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/kv"
	"github.com/holdfast-storage/holdfast/internal/kv/boltkv"
)

// owned opens the file at a path.
func owned(t *testing.T, path string) (*boltkv.Engine, kv.Term) {
	t.Helper()
	e := boltkv.New(path)
	t.Cleanup(func() { _ = e.Close() })
	term, err := e.Own(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return e, term
}

// number is a batch that puts some rows.
func numbered(from, to, size int) kv.Batch {
	var b kv.Batch
	for i := from; i < to; i++ {
		b.Put = append(b.Put, kv.Entry{Key: fmt.Sprintf("key %06d", i), Value: bytes.Repeat([]byte{byte(i)}, size)})
	}
	return b
}

// filled makes a file of some pages and returns its bytes.
func filled(t *testing.T) []byte {
	t.Helper()
	path := filepath.Join(fastDir(t), "db")
	e, term := owned(t, path)
	for i := range 20 {
		if _, err := e.Append(t.Context(), term, numbered(i*50, i*50+50, 200)); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	used := len(bytes.TrimRight(raw, "\x00"))
	page := os.Getpagesize()
	return raw[:(used+page-1)/page*page]
}

// use does everything with a file that may be damaged, and returns how far it came: the rows of a load, and the first error.
func use(path string) (rows int, err error) {
	e := boltkv.New(path)
	defer func() { err = errors.Join(err, e.Close()) }()
	term, err := e.Own(context.Background())
	if err != nil {
		return 0, err
	}
	_, entries := e.Load(context.Background())
	for _, err := range entries {
		if err != nil {
			return rows, err
		}
		rows++
	}
	for i := range 5 {
		b := numbered(i*200, i*200+50, 100)
		b.Delete = append(b.Delete, fmt.Sprintf("key %06d", i*200+100))
		if _, err := e.Append(context.Background(), term, b); err != nil {
			return rows, err
		}
	}
	return rows, nil
}

func TestWhatIsNoDatabaseIsRefusedAndLeftAlone(t *testing.T) {
	whole := filled(t)
	dir := fastDir(t)
	foreign := func(name string, options *bolt.Options, fill func(*bolt.Tx) error) []byte {
		path := filepath.Join(dir, name)
		db, err := bolt.Open(path, 0o600, options)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(db.Update(fill), db.Close()); err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	bucket := func(tx *bolt.Tx) error {
		_, err := tx.CreateBucket([]byte("things"))
		return err
	}
	future := func(tx *bolt.Tx) error {
		_, err := tx.CreateBucket([]byte("rows"))
		m, err2 := tx.CreateBucket([]byte("holdfast"))
		return errors.Join(err, err2, m.Put([]byte("format"), []byte{0, 0, 0, 0, 0, 0, 0, 2}))
	}
	for name, c := range map[string]struct {
		content []byte
		says    string
	}{
		"empty":       {nil, "remove the file to begin"},
		"text":        {[]byte("[database]\n"), "not a bbolt file"},
		"long text":   {bytes.Repeat([]byte("Wer reitet so spät\n"), 10_000), "not a bbolt file"},
		"zeros":       {make([]byte, 1<<17), "not a bbolt file"},
		"beginning":   {whole[:60], "not a bbolt file"},
		"both metas":  {append(make([]byte, 2*os.Getpagesize()), whole[2*os.Getpagesize():]...), "not a bbolt file"},
		"cut off":     {whole[:len(whole)/2], "is cut off"},
		"foreign":     {foreign("f1", nil, bucket), "not a database of holdfast"},
		"other style": {foreign("f2", &bolt.Options{NoFreelistSync: true}, bucket), "written by another program"},
		"future":      {foreign("f3", nil, future), "format 2"},
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, c.content, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := use(path)
		if !errors.Is(err, kv.ErrCorrupt) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
		if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, c.content) {
			t.Errorf("%s: the file was changed, %v", name, err)
		}
	}
	if _, err := use(dir); err == nil {
		t.Error("a directory is taken as a database")
	}
	if _, err := use(filepath.Join(dir, "missing", "db")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("in a directory that is missing: %v", err)
	}
}

func TestOneLostDescriptionIsMadeUpFor(t *testing.T) {
	whole := filled(t)
	for page := range 2 {
		raw := bytes.Clone(whole)
		clear(raw[page*os.Getpagesize() : (page+1)*os.Getpagesize()])
		path := filepath.Join(fastDir(t), "db")
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		if rows, err := use(path); err != nil || rows == 0 {
			t.Errorf("without page %d: %d rows, %v", page, rows, err)
		}
	}
}

// TestDamagedFileNeverPanics cuts files off everywhere and overwrites parts of them. There must be an error or an answer.
func TestDamagedFileNeverPanics(t *testing.T) {
	whole := filled(t)
	path := filepath.Join(fastDir(t), "db")
	try := func(what string, raw []byte) {
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if p := recover(); p != nil {
				t.Errorf("%s: panic: %v", what, p)
			}
		}()
		if rows, err := use(path); err == nil && rows > 1000 {
			t.Errorf("%s: %d rows", what, rows)
		}
	}
	for size := 0; size <= len(whole); size += 3 * os.Getpagesize() / 2 {
		try(fmt.Sprint("cut off at ", size), whole[:size])
	}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 150 {
		raw := append(bytes.Clone(whole), make([]byte, os.Getpagesize())...)
		at := 2*os.Getpagesize() + r.IntN(len(raw)-2*os.Getpagesize()-64)
		if i%2 == 0 {
			at &^= os.Getpagesize() - 1 // the head of a page
		}
		for j := range 1 + r.IntN(64) {
			raw[at+j] = byte(r.Uint32())
		}
		try(fmt.Sprintf("damage %d at %d", i, at), raw)
	}
}

// TestFileThatShrinksUnderTheOwnerIsAnError: reading behind the end of a mapped file is a fault of the machine.
func TestFileThatShrinksUnderTheOwnerIsAnError(t *testing.T) {
	path := filepath.Join(fastDir(t), "db")
	e, term := owned(t, path)
	for i := range 40 {
		if _, err := e.Append(t.Context(), term, numbered(i*50, i*50+50, 2000)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Truncate(path, int64(4*os.Getpagesize())); err != nil {
		t.Fatal(err)
	}
	var failed error
	_, entries := e.Load(t.Context())
	for _, err := range entries {
		failed = err
	}
	if !errors.Is(failed, kv.ErrCorrupt) {
		t.Errorf("load answers %v", failed)
	}
	if _, err := e.Append(t.Context(), term, numbered(0, 100, 10)); err == nil {
		t.Error("append succeeds")
	}
	if _, err := e.Own(t.Context()); !errors.Is(err, kv.ErrCorrupt) {
		t.Errorf("own answers %v", err)
	}
}

func TestWaitingOwnerIsToldWhoHasTheFile(t *testing.T) {
	path := filepath.Join(fastDir(t), "db")
	owned(t, path)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	_, err := boltkv.New(path).Own(ctx)
	if want := fmt.Sprintf("open database %s: the database is in use by process %d: ", path, os.Getpid()); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("own answers %v, want %s", err, want)
	}
}

func TestFirstOwnersCreateOneFile(t *testing.T) {
	dir := fastDir(t)
	path := filepath.Join(dir, "db")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			e := boltkv.New(path)
			term, err := e.Own(t.Context())
			if err == nil {
				_, err = e.Append(t.Context(), term, kv.Batch{})
			}
			if err := errors.Join(err, e.Close()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	e, term := owned(t, path)
	if r, _ := e.Load(t.Context()); r != 8 || term != 9 {
		t.Errorf("revision %d in term %d after 8 owners with one batch each", r, term)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("left behind: %v, %v", files, err)
	}
}

func TestOwnerTakesTheFileThatIsThereWhenItsTurnComes(t *testing.T) {
	dir := fastDir(t)
	path, backup := filepath.Join(dir, "db"), filepath.Join(dir, "backup")
	if err := os.WriteFile(backup, filled(t), 0o600); err != nil {
		t.Fatal(err)
	}
	first, _ := owned(t, path)
	second := boltkv.New(path)
	t.Cleanup(func() { _ = second.Close() })
	took, waits := make(chan error, 1), newSignal(t.Context())
	go func() {
		_, err := second.Own(waits)
		took <- err
	}()
	<-waits.asked
	if err := errors.Join(os.Rename(backup, path), first.Close(), <-took); err != nil {
		t.Fatal(err)
	}
	if r, _ := second.Load(t.Context()); r != 20 {
		t.Errorf("the second owner has revision %d, not that of the restored file", r)
	}
}

// signal is a context that tells when someone waits for its end.
type signal struct {
	context.Context
	asked chan struct{}
	once  func()
}

func newSignal(ctx context.Context) *signal {
	asked := make(chan struct{})
	return &signal{Context: ctx, asked: asked, once: sync.OnceFunc(func() { close(asked) })}
}

func (s *signal) Done() <-chan struct{} {
	s.once()
	return s.Context.Done()
}

// TestFileGrowsWhileItIsRead makes the file larger than it is mapped at first, while a load is under way.
func TestFileGrowsWhileItIsRead(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 66 MB")
	}
	e, term := owned(t, filepath.Join(fastDir(t), "db"))
	if _, err := e.Append(t.Context(), term, numbered(0, 2, 10)); err != nil {
		t.Fatal(err)
	}
	wrote := make(chan error, 1)
	_, entries := e.Load(t.Context())
	rows := 0
	for entry, err := range entries {
		if err != nil {
			t.Fatal(err)
		}
		if rows++; rows > 1 {
			continue
		}
		go func() {
			for i := range 66 {
				if _, err := e.Append(context.Background(), term, numbered(i, i+1, 1_000_000)); err != nil {
					wrote <- fmt.Errorf("row %d: %w", i, err)
					return
				}
			}
			wrote <- nil
		}()
		if entry.Key != "key 000000" || len(entry.Value) != 10 {
			t.Errorf("the load shows %s with %d bytes", entry.Key, len(entry.Value))
		}
	}
	if err := <-wrote; err != nil || rows != 2 {
		t.Errorf("%d rows; %v", rows, err)
	}
}

// TestFullAndReadOnlyDisk fills a small file system under the owner, and frees space again.
func TestFullAndReadOnlyDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"); err != nil {
		t.Skipf("needs root: mounts a small tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	path, ballast := filepath.Join(dir, "db"), filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	e, term := owned(t, path)
	written := 0
	fill := func(max int) error {
		for i := range max {
			if _, err := e.Append(t.Context(), term, numbered(written, written+20, 1000)); err != nil {
				return fmt.Errorf("batch %d: %w", i, err)
			}
			written += 20
		}
		return nil
	}
	for range 3 {
		if err := fill(100); !errors.Is(err, kv.ErrFull) || errors.Is(err, kv.ErrUnknown) || !strings.Contains(err.Error(), path) {
			t.Fatalf("filling the disk ends with %v", err)
		}
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if err := fill(10); err != nil {
		t.Errorf("after space was freed: %v", err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	e, term = owned(t, path)
	rows := 0
	r, entries := e.Load(t.Context())
	for _, err := range entries {
		if err != nil {
			t.Fatal(err)
		}
		rows++
	}
	if rows != written || int(r) != written/20 {
		t.Errorf("%d rows at revision %d, %d were acknowledged", rows, r, written)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := boltkv.New(path).Own(t.Context()); !errors.Is(err, kv.ErrReadOnly) {
		t.Errorf("own on a read-only disk answers %v", err)
	}
}
