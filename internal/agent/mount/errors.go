// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package mount

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// Fault says how a mount, an unmount or a look at a mount went wrong.
type Fault string

// The faults of an Error.
const (
	Failed        Fault = "failed"                      // See Stderr, Errno and Err.
	Busy          Fault = "is busy"                     // The kernel refused to unmount it while it is used.
	TimedOut      Fault = "did not end in time"         // The helper was killed, and is gone.
	Occupied      Fault = "is being changed already"    // Another helper is at work there, of this process or an earlier one.
	Taken         Fault = "has something else mounted"  // The place is not free, and what lies there is not the source.
	NotMounted    Fault = "is not mounted"              // Or not any more, or another mount than the one that was named.
	WrongIdentity Fault = "is another file system"      // Its marker is not the wanted one.
	NotAFolder    Fault = "is not a folder"             // The source to bind, or the root of what was mounted.
	Linked        Fault = "has a symbolic link in it"   // A path that must be real.
	NotABlock     Fault = "is not a block device"       // The source of a Block.
	StaleHandle   Fault = "is stale"                    // The server or the device lost what was mounted: ESTALE, EIO, ENOTCONN.
	ReadOnly      Fault = "is read-only"                // And something was to be written: the marker.
	NoProgram     Fault = "needs a missing program"     // Such as mount.nfs.
	NoHelper      Fault = "has no helper to work on it" // The helper could not be started or did not answer as one.
)

// Error says what could not be done with which source, and why.
type Error struct {
	Fault  Fault
	Step   string     // What was tried: "mount", "unmount", "verify", "probe", "look for users of".
	Source string     // The source, or the path when there is none.
	Target string     // Its place on this host. Empty where it does not matter.
	Errno  unix.Errno // What the kernel said. Zero: nothing.
	Stderr string     // What the program said, word for word.
	Detail string     // More, in our own words.
	Err    error      // The cause, where there is one.
	Code   int        // The exit code of the program when it is not zero.
	Hung   bool       // The helper could not be killed at once: it hung in the kernel. It has ended all the same.
	Found  *Entry     // What is there instead, with Taken and NotMounted.
	Marker [2]string  // The uuid that was wanted and the one that was found, with WrongIdentity.
}

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", e.Step, e.Source)
	if e.Target != "" {
		fmt.Fprintf(&b, " at %s", e.Target)
	}
	if e.Fault != Failed {
		fmt.Fprintf(&b, ": it %s", e.Fault)
	}
	if e.Fault == WrongIdentity {
		fmt.Fprintf(&b, ": its uuid is %s instead of %s", orNone(e.Marker[1]), orNone(e.Marker[0]))
	}
	if e.Found != nil {
		fmt.Fprintf(&b, ": found %s", e.Found)
	}
	if e.Detail != "" {
		fmt.Fprintf(&b, ": %s", e.Detail)
	}
	if e.Code != 0 {
		fmt.Fprintf(&b, ": exit code %d", e.Code)
	}
	if e.Errno != 0 {
		fmt.Fprintf(&b, ": %s", e.Errno.Error())
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	if e.Stderr != "" {
		fmt.Fprintf(&b, ": %s", e.Stderr)
	}
	if c := e.correction(); c != "" {
		fmt.Fprintf(&b, "; %s", c)
	}
	return b.String()
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// correction says what to do about the error, where there is something.
func (e *Error) correction() string {
	switch e.Fault {
	case Taken:
		return "unmount what is there, it was not mounted by this agent"
	case WrongIdentity:
		return "check the source: this is not the file system that the pool was made on"
	case NotAFolder, Linked:
		return "give the real path of a folder"
	case NotABlock:
		return "give the path of a block device under /dev"
	case StaleHandle:
		return "check that the server still exports it, or the kernel log for errors of the device"
	case ReadOnly:
		return "mount it writable, or make the marker on the server"
	case NoProgram:
		return "install it"
	default:
		return ""
	}
}

// Unwrap returns the causes.
func (e *Error) Unwrap() []error {
	var causes []error
	if e.Errno != 0 {
		causes = append(causes, e.Errno)
	}
	if e.Err != nil {
		causes = append(causes, e.Err)
	}
	return causes
}

// staleErrno tells whether an error of a file operation means that the mount is of no use any more.
func staleErrno(errno unix.Errno) bool {
	return errno == unix.ESTALE || errno == unix.EIO || errno == unix.ENOTCONN || errno == unix.ESHUTDOWN || errno == unix.EUCLEAN
}
