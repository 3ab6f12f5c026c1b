// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/holdfast-storage/holdfast/internal/command"
)

// DefaultFolder is where drbdadm looks for files of resources.
const DefaultFolder = "/etc/drbd.d"

const extension = ".res"

// Folder is the folder with the files of all resources of this host. Its methods may be called by many goroutines at once, for one
// resource one after the other.
type Folder struct {
	Path   string         // Empty: DefaultFolder.
	Runner command.Runner // Runs drbdadm.
}

// ForeignError says that a file is not ours. It was left as it is.
type ForeignError struct {
	File string
}

func (e *ForeignError) Error() string {
	return fmt.Sprintf("%s was not written by Holdfast and is left as it is: move it away, or give the resource another name", e.File)
}

// RejectedError says that drbdadm does not take a file. The one before it is still there.
type RejectedError struct {
	Resource string
	Why      string // In drbdadm's words.
}

func (e *RejectedError) Error() string {
	return fmt.Sprintf("drbdadm refuses the configuration of %s: %s", e.Resource, e.Why)
}

// File returns the path of a resource's file.
func (f Folder) File(resource string) string {
	return filepath.Join(f.path(), resource+extension)
}

func (f Folder) path() string {
	if f.Path == "" {
		return DefaultFolder
	}
	return f.Path
}

// Read returns the file of a resource, nil when there is none. A file that is not ours is a *ForeignError.
func (f Folder) Read(resource string) ([]byte, error) {
	text, err := os.ReadFile(f.File(resource))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the configuration of %s: %w", resource, err)
	}
	if !bytes.HasPrefix(text, []byte(header+"\n")) {
		return nil, &ForeignError{File: f.File(resource)}
	}
	return text, nil
}

// Write makes text, from [Format], the file of a resource, when drbdadm takes it beside all other files of this host. It is there whole and for good
// when Write returns, or the one before it is. drbdadm's refusal is a *RejectedError.
func (f Folder) Write(ctx context.Context, resource string, text []byte) error {
	before, err := f.Read(resource)
	if err != nil {
		return err
	}
	if bytes.Equal(before, text) {
		return nil
	}
	// drbdadm reads files that end in .res alone, so it never sees this one by itself.
	next := filepath.Join(f.path(), "."+resource+".next")
	if err := writeFile(next, text); err != nil {
		return fmt.Errorf("write the configuration of %s: %w", resource, err)
	}
	if err := f.check(ctx, resource, next, before != nil); err != nil {
		return errors.Join(err, os.Remove(next))
	}
	if err := os.Rename(next, f.File(resource)); err != nil {
		return fmt.Errorf("replace the configuration of %s: %w", resource, err)
	}
	return f.sync()
}

// Remove removes the file of a resource. That it is not there is no error.
func (f Folder) Remove(resource string) error {
	if before, err := f.Read(resource); err != nil || before == nil {
		return err
	}
	if err := os.Remove(f.File(resource)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the configuration of %s: %w", resource, err)
	}
	return f.sync()
}

// check asks drbdadm about a file, in the place of the one before it.
func (f Folder) check(ctx context.Context, resource, file string, replaces bool) error {
	args := []string{"--config-to-test", file}
	if replaces {
		args = append(args, "--config-to-exclude", f.File(resource))
	}
	_, err := f.Runner.Run(ctx, command.Command{Program: "drbdadm", Args: append(args, "sh-nop")})
	var failed *command.Error
	if errors.As(err, &failed) && failed.Kind == command.Exited && failed.Code == refused {
		return &RejectedError{Resource: resource, Why: failed.Stderr}
	}
	if err != nil {
		return fmt.Errorf("check the configuration of %s: %w", resource, err)
	}
	return nil
}

// refused is drbdadm's exit code for what it does not take.
const refused = 10

// writeFile writes a file that only root may read, for good.
func writeFile(path string, text []byte) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	return errors.Join(err, file.Sync(), file.Close())
}

// sync makes the names in the folder durable.
func (f Folder) sync() error {
	dir, err := os.Open(f.path())
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
