// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package drbd

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/command"
)

// Codes of the kernel that decisions rest on. The texts beside them change with versions.
const (
	noData     = -2  // Need access to UpToDate data.
	heldOpen   = -12 // Device is held open by someone.
	noQuorum   = -25
	noResource = 158
)

// Exit codes of drbdsetup and drbdadm.
const (
	exitNoSuch   = 10 // No such resource, and all refusals.
	exitRefused  = 11 // A state change that was refused.
	exitOccupied = 40 // Of drbdmeta: the metadata would cut into a filesystem.
)

// KernelError says that DRBD did not do what it was asked for.
type KernelError struct {
	Resource string
	What     string // As people read it: "take resource db down".
	Code     int    // The kernel's, as in "Failure: (119)" and "State change failed: (-12)"; zero when it gave none.
	Text     string // What was printed beside it.
	Err      error
}

func (e *KernelError) Error() string {
	text := e.Text
	if text == "" && e.Err != nil {
		text = e.Err.Error()
	}
	if hint := hints[e.Code]; hint != "" {
		text += "; " + hint
	}
	return fmt.Sprintf("%s: %s", e.What, text)
}

// Unwrap returns the cause.
func (e *KernelError) Unwrap() error { return e.Err }

// hints say what to do about codes of the kernel.
var hints = map[int]string{ //nolint:gochecknoglobals // A constant that Go cannot spell.
	102:      "another resource of this host has the port: give the resource another one",
	104:      "something else uses the backing device, or it is gone",
	111:      "the backing device is too small",
	119:      "the backing device has no metadata of DRBD: it was lost, or another device lies in its place. It is not made anew, because that would give up the data",
	161:      "the minor is in use already",
	162:      "the metadata of a volume may have no room for more peers",
	164:      "two hosts use the resource now: end one of the uses first",
	165:      "the metadata was not closed after a crash",
	173:      "another resource of this host has the same addresses",
	noData:   "no replica with all data can be reached",
	noQuorum: "too few of its hosts can be reached",
}

// UnwantedError says that drbdadm would do something that takes away what nobody said is to go. Nothing was done.
type UnwantedError struct {
	Resource string
	Command  string
}

func (e *UnwantedError) Error() string {
	return fmt.Sprintf("resource %s is not adjusted: that would run %q, which nobody asked for; look at \"drbdsetup status %s\" and at what was changed by hand",
		e.Resource, e.Command, e.Resource)
}

// LastCopyError says that this host does not give up its disk, because no peer is known to have all the data.
type LastCopyError struct {
	Resource string
	Volume   int
}

func (e *LastCopyError) Error() string {
	return fmt.Sprintf("volume %d of resource %s keeps its disk on this host: no peer that is connected has all the data", e.Volume, e.Resource)
}

// MetadataError says that metadata was not there after it was made.
type MetadataError struct {
	Device string
	Found  string // The data generation that is there.
}

func (e *MetadataError) Error() string {
	return fmt.Sprintf("%s has no new metadata of DRBD although drbdmeta said so: its data generation is %q", e.Device, e.Found)
}

// OccupiedError says that no metadata was made, because a filesystem lies where it would be.
type OccupiedError struct {
	Device string
}

func (e *OccupiedError) Error() string {
	return fmt.Sprintf("a filesystem on %s reaches to where the metadata of DRBD would lie: the volume was made from one that was not replicated, or was not wiped when it was made", e.Device)
}

var code = regexp.MustCompile(`(?:Failure|State change failed): \((-?\d+)\) *(.*)`)

// kernelError tells why a program failed, with the kernel's code.
func kernelError(resource, what string, err error) error {
	var failed *command.Error
	if !errors.As(err, &failed) || failed.Kind != command.Exited {
		return fmt.Errorf("%s: %w", what, err)
	}
	e := &KernelError{Resource: resource, What: what, Text: plainLines(failed.Stderr), Err: err}
	if m := code.FindStringSubmatch(failed.Stderr); m != nil {
		e.Code, _ = strconv.Atoi(m[1])
	} else if strings.Contains(failed.Stderr, "No valid meta data found") {
		e.Code = 119 // drbdmeta looks before the kernel does.
	}
	return e
}

// plainLines is what a program printed, without drbdadm's repetition of the command line, which may hold secrets.
func plainLines(stderr string) string {
	var kept []string
	for line := range strings.SplitSeq(stderr, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "Command '") || strings.HasPrefix(line, "additional info from kernel") || strings.HasPrefix(line, "==>") {
			continue
		}
		kept = append(kept, line)
	}
	return strings.Join(kept, "; ")
}

// opener is the kernel's word of who has a device open.
var opener = regexp.MustCompile(`drbd(\d+) opened by (.+) \(pid (\d+)\)`)

// inUse turns the kernel's refusal because of users into the error of all layers for that; other errors stay.
func inUse(w *Want, volumes func(minor int) int, err error) error {
	var e *KernelError
	if !errors.As(err, &e) || e.Code != heldOpen {
		return err
	}
	used := &pool.InUseError{ID: pool.ID{Resource: w.Name}, Detail: "DRBD keeps the resource up while someone uses it"}
	for _, m := range opener.FindAllStringSubmatch(e.Text, -1) {
		minor, _ := strconv.Atoi(m[1])
		pid, _ := strconv.Atoi(m[3])
		used.ID.Volume = volumes(minor)
		used.Holders = append(used.Holders, pool.Holder{Kind: pool.Opened, Name: m[2], PID: pid})
	}
	if len(used.Holders) == 0 {
		used.Holders = []pool.Holder{{Kind: pool.Claimed, Name: "DRBD"}}
	}
	return used
}
