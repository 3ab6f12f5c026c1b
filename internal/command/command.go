// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"slices"
	"time"
)

// A Runner runs programs to their end.
type Runner interface {
	// Run runs c and returns what it printed. Anything but exit code 0 is an *Error, and the result then holds what was printed so far. Run
	// ends when ctx does, and at the latest after c.Limit: the whole process group is killed, and a program that cannot be killed is left behind.
	Run(ctx context.Context, c Command) (Result, error)
}

// RunnerFunc is a function that is a Runner.
type RunnerFunc func(ctx context.Context, c Command) (Result, error)

// Run calls f.
func (f RunnerFunc) Run(ctx context.Context, c Command) (Result, error) { return f(ctx, c) }

// Command is one call of a program.
type Command struct {
	Program string   // A name that is looked up, or a path.
	Args    []string // Without the program.
	Secret  []int    // Indexes in Args of what must never be shown. Prefer Stdin: any user of the host can read arguments.
	Stdin   []byte   // Never shown. Empty: the program reads end of file.
	Env     []string // KEY=value, on top of the pinned environment.

	Limit     time.Duration // How long it may run, whatever ctx says. Zero: DefaultLimit.
	MaxOutput int           // Bytes of stdout that are kept. Zero: DefaultMaxOutput. A program that prints more has failed.
}

// Defaults of a Command.
const (
	DefaultLimit     = 60 * time.Second
	DefaultMaxOutput = 8 << 20
)

// redacted stands for a secret argument.
const redacted = "***"

// Shown returns the arguments as they may be shown: secret ones are replaced.
func (c Command) Shown() []string {
	shown := slices.Clone(c.Args)
	for _, i := range c.Secret {
		if i >= 0 && i < len(shown) {
			shown[i] = redacted
		}
	}
	return shown
}

// Result is what a program printed.
type Result struct {
	Stdout   []byte
	Stderr   []byte // The last part of it, when it was long.
	Duration time.Duration
}
