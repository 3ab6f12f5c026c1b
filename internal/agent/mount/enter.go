// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package mount

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/command"
)

// enterVerb is the verb of a helper that becomes a program in the root of a mount.
const enterVerb = "enter"

// place is where a program is to run.
type place struct {
	Entry   Entry  `json:"entry"`
	Subpath string `json:"subpath,omitempty"`
}

// Enter returns c changed so that it runs with its working directory in the folder subpath of the mount e: subpath is relative to the
// mount's root, and empty for the root. The program starts only when the working directory lies on the very mount e, whatever is
// at its path by then; no symbolic link and no mount below e is followed on the way. With names that are relative to its working
// directory the program then cannot miss the mount: it never writes into the bare folder under it.
//
// A program that cannot be started there ends with exit code 97 and says why on stderr.
func (k *Kernel) Enter(e Entry, subpath string, c command.Command) (command.Command, error) {
	if subpath != "" {
		if err := CheckSubpath(subpath); err != nil {
			return command.Command{}, err
		}
	}
	text, err := json.Marshal(place{Entry: e, Subpath: subpath})
	if err != nil {
		return command.Command{}, err
	}
	before := append(slices.Clone(k.c.Helper[1:]), enterVerb, string(text), c.Program)
	c.Secret = slices.Clone(c.Secret)
	for i := range c.Secret {
		c.Secret[i] += len(before)
	}
	c.Program, c.Args = k.c.Helper[0], append(before, c.Args...)
	return c, nil
}

// CheckSubpath refuses what is no clean relative path of a folder below another: nothing in it leads out.
func CheckSubpath(subpath string) error {
	if subpath == "" || path.IsAbs(subpath) || path.Clean(subpath) != subpath || subpath == "." || subpath == ".." || strings.HasPrefix(subpath, "../") {
		return fmt.Errorf("folder %q is not below the root of the pool: give a clean relative path", subpath)
	}
	return plainText(subpath)
}

// enter is the helper's side of Enter: args are the place, the program and its arguments.
func enter(args []string) int {
	const placeAndProgram = 2
	if len(args) < placeAndProgram {
		fmt.Fprintln(os.Stderr, "this is not for use by hand")
		return refusedCode
	}
	err := enterAndRun(args[0], args[1], args[1:])
	fmt.Fprintf(os.Stderr, "%s was not started: %v\n", args[1], err)
	return refusedCode
}

func enterAndRun(where, program string, argv []string) error {
	var p place
	if err := json.Unmarshal([]byte(where), &p); err != nil {
		return err
	}
	dir, err := root(p.Entry)
	if err != nil {
		return err
	}
	if p.Subpath != "" {
		fd, err := openAt(int(dir.Fd()), p.Subpath, unix.O_RDONLY|unix.O_DIRECTORY, 0, inside)
		if err != nil {
			return fmt.Errorf("open %s in %s: %w", p.Subpath, p.Entry.Target, err)
		}
		dir = os.NewFile(uintptr(fd), p.Subpath)
	}
	if err := unix.Fchdir(int(dir.Fd())); err != nil {
		return err
	}
	file, err := lookUp(program)
	if err != nil {
		return err
	}
	return unix.Exec(file, argv, os.Environ())
}
