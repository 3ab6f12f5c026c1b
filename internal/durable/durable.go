// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package durable writes small files that outlive a crash of the machine: whole, or as they were before.
//
// What is said of a file is on disk when a function returns without an error. Writers of the same path come one after the other;
// readers may come at any time, and see the old content or the new one.
package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// draftSuffix is what a file is called by until it is whole. A crash or an error may leave one behind, which the next writer replaces.
const draftSuffix = ".draft"

// Write replaces the content of a file, which its owner alone can read. Its folder must be there.
func Write(path string, content []byte) error {
	draft := path + draftSuffix
	f, err := os.OpenFile(draft, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(draft, path); err != nil {
		return err
	}
	return Folder(filepath.Dir(path))
}

// Remove removes a file; one that is not there, in a folder that may not be there either, is no error.
func Remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// Also of one that was not there: whoever removed it may have been killed before this.
	if err := Folder(filepath.Dir(path)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Folder makes durable which files are in a folder.
func Folder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
