// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package durable_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/durable"
)

func TestWriteReplacesAFileAsAWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path+".draft", []byte("what a crash has left, and is longer"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, content := range []string{"the first content", "short", ""} {
		if err := durable.Write(path, []byte(content)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != content {
			t.Errorf("it holds %q, %v, want %q", got, err, content)
		}
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("there are %v, %v", left, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("its mode is %v, %v", info.Mode(), err)
	}
}

func TestAWriteThatFailsLeavesTheFileAsItWas(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if err := durable.Write(path, []byte("before")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path+".draft", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := durable.Write(path, []byte("after")); err == nil {
		t.Error("it was written over a folder")
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "before" {
		t.Errorf("it holds %q, %v", got, err)
	}
	if err := durable.Write(filepath.Join(dir, "none", "file"), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in a folder that is not there it ended with %v", err)
	}
}

func TestRemoveOfWhatIsNotThereGoesWell(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := durable.Write(path, []byte("content")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := durable.Remove(path); err != nil {
			t.Error(err)
		}
	}
	if err := durable.Remove(filepath.Join(filepath.Dir(path), "none", "file")); err != nil {
		t.Error(err)
	}
}
