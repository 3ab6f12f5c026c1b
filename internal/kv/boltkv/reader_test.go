// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package boltkv_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-storage/holdfast/internal/kv"
	"github.com/holdfast-storage/holdfast/internal/kv/boltkv"
)

func seq(n int, failure error) iter.Seq2[kv.Entry, error] {
	return func(yield func(kv.Entry, error) bool) {
		for i := range n {
			if !yield(kv.Entry{Key: fmt.Sprintf("k%06d", i), Value: fmt.Append(nil, i)}, nil) {
				return
			}
		}
		if failure != nil {
			yield(kv.Entry{}, failure)
		}
	}
}

func TestAWrittenFileIsADatabase(t *testing.T) {
	const rows = 12345
	path := filepath.Join(t.TempDir(), "db")
	if n, err := boltkv.Write(path, 77, seq(rows, nil)); err != nil || n != rows {
		t.Fatal(n, err)
	}
	if _, err := boltkv.Write(path, 78, seq(1, nil)); !errors.Is(err, os.ErrExist) {
		t.Errorf("a file that is there is answered %v", err)
	}
	e, err := boltkv.OpenReader(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	r, entries := e.Load(t.Context())
	for entry, err := range entries {
		if err != nil || entry.Key != fmt.Sprintf("k%06d", n) || string(entry.Value) != fmt.Sprint(n) {
			t.Fatal(n, entry, err)
		}
		n++
	}
	if r != 77 || n != rows {
		t.Errorf("revision %d with %d rows", r, n)
	}
	if _, err := e.Own(t.Context()); !errors.Is(err, kv.ErrReadOnly) {
		t.Errorf("a reader can own: %v", err)
	}
	owner := boltkv.New(path)
	defer func() { _ = owner.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := owner.Own(ctx); !errors.Is(err, kv.ErrInUse) {
		t.Errorf("an owner comes while there is a reader: %v", err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	term, err := owner.Own(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if r, err := owner.Append(t.Context(), term, kv.Batch{}); err != nil || r != 78 {
		t.Errorf("the next revision is %d, %v", r, err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := boltkv.OpenReader(ctx, path); !errors.Is(err, kv.ErrInUse) {
		t.Errorf("a reader comes while there is an owner: %v", err)
	}
}

func TestAFileThatCannotBeWrittenWholeDoesNotAppear(t *testing.T) {
	dir := t.TempDir()
	stop := errors.New("stop")
	if _, err := boltkv.Write(filepath.Join(dir, "db"), 1, seq(10, stop)); !errors.Is(err, stop) {
		t.Error(err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}

func TestReadersRefuseWhatIsNoDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	if _, err := boltkv.OpenReader(t.Context(), path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file is answered %v", err)
	}
	if err := os.WriteFile(path, []byte("something else"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := boltkv.OpenReader(t.Context(), path); !errors.Is(err, kv.ErrCorrupt) {
		t.Errorf("another file is answered %v", err)
	}
}
