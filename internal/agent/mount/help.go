// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package mount

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/command"
)

// request is what a helper is asked, as JSON on its standard input.
type request struct {
	Step   string `json:"step"`
	Source string `json:"source"`
	Slot   slot   `json:"slot"`
	Parent int    `json:"parent"`
	Target string `json:"target"`
	Spec   Spec   `json:"spec"`
	Entry  Entry  `json:"entry"`
	Force  Force  `json:"force,omitempty"`
}

// answer is one line that a helper prints. Only a look for users has more than one.
type answer struct {
	Refusal  *refusal  `json:"refusal,omitempty"`
	Identity string    `json:"identity,omitempty"`
	Inode    uint64    `json:"inode,omitempty"`
	Users    []User    `json:"users,omitempty"`
	Machines []Machine `json:"machines,omitempty"`
	Complete bool      `json:"complete,omitempty"`
}

// refusal is what a helper says of its failure.
type refusal struct {
	Fault  Fault      `json:"fault"`
	Errno  unix.Errno `json:"errno,omitempty"`
	Detail string     `json:"detail,omitempty"`
	Found  *Entry     `json:"found,omitempty"`
	Marker [2]string  `json:"marker,omitzero"`
}

func (r *refusal) Error() string {
	return fmt.Sprintf("%s %s: %v", r.Fault, r.Detail, r.Errno)
}

// becomesProgram is the verb whose helper may turn into a program, which then prints no answer.
const becomesProgram = "mount"

// refusedCode is the exit code of a helper that says itself what went wrong. Any other is of the program that it became.
const refusedCode = 97

// helperLimit is how long a helper may run when the caller's context has no deadline.
const helperLimit = time.Minute

// help runs a helper and returns when it is gone: one that hangs in the kernel is waited for, whatever ctx says.
func (k *Kernel) help(ctx context.Context, verb string, req request) (answer, error) {
	fault := &Error{Step: req.Step, Source: req.Source, Target: req.Target}
	if pid, err := req.Slot.busy(); err != nil || pid != 0 {
		fault.Fault, fault.Err = Occupied, err
		if pid != 0 {
			fault.Detail = fmt.Sprintf("process %d is at work", pid)
		}
		return answer{}, fault
	}
	req.Parent = os.Getpid()
	text, err := json.Marshal(req)
	if err != nil {
		return answer{}, err
	}
	c := command.Command{
		Program: k.c.Helper[0], Args: append(append([]string(nil), k.c.Helper[1:]...), verb, req.Step, req.Source), Stdin: text,
		Limit: helperLimit,
	}
	if deadline, ok := ctx.Deadline(); ok {
		c.Limit = max(time.Until(deadline), time.Millisecond)
	}
	res, err := k.c.Runner.Run(ctx, c)
	if pid, _ := req.Slot.busy(); pid != 0 { // Killed and still there: it hangs.
		fault.Hung = true
		if werr := req.Slot.wait(context.WithoutCancel(ctx)); werr != nil {
			err = errors.Join(err, werr)
		}
	}
	return understand(verb, res, err, fault)
}

// understand turns what a helper printed, and how it ended, into an answer or fault.
func understand(verb string, res command.Result, err error, fault *Error) (answer, error) {
	var ans answer
	d := json.NewDecoder(bytes.NewReader(res.Stdout))
	for {
		var line answer
		if d.Decode(&line) != nil {
			break // The end, or what a killed helper had not finished.
		}
		ans.Machines, ans.Identity, ans.Inode, ans.Refusal, ans.Complete = line.Machines, line.Identity, line.Inode, line.Refusal, line.Complete
		if len(line.Users) > 0 {
			ans.Users = line.Users // Later lists contain earlier ones.
		}
	}
	if err == nil {
		if !ans.Complete && verb != becomesProgram {
			fault.Fault, fault.Detail = NoHelper, "it printed no answer"
			return ans, fault
		}
		return ans, nil
	}
	var failed *command.Error
	if !errors.As(err, &failed) {
		fault.Fault, fault.Err = NoHelper, err
		return ans, fault
	}
	switch {
	case failed.Kind == command.Exited && failed.Code == refusedCode && ans.Refusal != nil:
		r := ans.Refusal
		fault.Fault, fault.Errno, fault.Detail, fault.Found, fault.Marker = r.Fault, r.Errno, r.Detail, r.Found, r.Marker
	case failed.Kind == command.Exited:
		fault.Fault, fault.Code, fault.Stderr = Failed, failed.Code, failed.Stderr
	case failed.Kind == command.TimedOut:
		fault.Fault, fault.Stderr, fault.Err = TimedOut, failed.Stderr, context.DeadlineExceeded
	case failed.Kind == command.Cancelled || failed.Kind == command.NotStarted && errors.Is(err, context.Canceled):
		fault.Fault, fault.Err = Failed, context.Canceled
	case failed.Kind == command.NotStarted && errors.Is(err, context.DeadlineExceeded):
		fault.Fault, fault.Err = TimedOut, context.DeadlineExceeded
	case failed.Kind == command.Signaled:
		fault.Fault, fault.Stderr, fault.Err = Failed, failed.Stderr, err
	default:
		fault.Fault, fault.Err = NoHelper, err
	}
	return ans, fault
}
