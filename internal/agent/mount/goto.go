// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package mount

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// GoInto makes the folder subpath of the mount e the working directory of this process: subpath is relative to the mount's root, and
// empty for the root. It is for processes of their own, as it may hang for ever. It succeeds only on the very mount e, whatever is at its path by then; no
// symbolic link and no mount below e is followed on the way. With create, folders that are missing are made.
func GoInto(e Entry, subpath string, create bool) error {
	if subpath != "" {
		if err := CheckSubpath(subpath); err != nil {
			return err
		}
	}
	dir, err := root(e)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	if subpath != "" {
		if create {
			if err := makeFolders(dir, subpath); err != nil {
				return err
			}
		}
		fd, err := openAt(int(dir.Fd()), subpath, unix.O_RDONLY|unix.O_DIRECTORY, 0, inside)
		if err != nil {
			return refuseOpen(err, subpath+" in "+e.Target)
		}
		defer func() { _ = unix.Close(fd) }()
		return unix.Fchdir(fd)
	}
	return unix.Fchdir(int(dir.Fd()))
}

// GoTo makes a folder of this host's own file systems the working directory of this process. There is no symbolic link in its path.
func GoTo(dir string) error {
	f, err := openFolder(dir, unix.O_RDONLY)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	return unix.Fchdir(int(f.Fd()))
}

// makeFolders makes the folders of a path below dir that are missing.
func makeFolders(dir *os.File, subpath string) error {
	const mode = 0o711 // Virtual machines that are not root reach their disks.
	at := int(dir.Fd())
	for done := ""; done != subpath; {
		next, _, _ := strings.Cut(strings.TrimPrefix(subpath[len(done):], "/"), "/")
		parent := at
		if done != "" {
			fd, err := openAt(at, done, unix.O_RDONLY|unix.O_DIRECTORY, 0, inside)
			if err != nil {
				return refuseOpen(err, done)
			}
			parent = fd
		}
		err := unix.Mkdirat(parent, next, mode)
		if parent != at {
			_ = unix.Close(parent)
		}
		if done = strings.TrimPrefix(done+"/"+next, "/"); err != nil && !errors.Is(err, unix.EEXIST) {
			if errors.Is(err, unix.EROFS) {
				return refuse(ReadOnly, err, "make folder %s", done)
			}
			return fmt.Errorf("make folder %s: %w", done, err)
		}
	}
	return nil
}
