// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package freeze stops the writes to a mounted filesystem for a moment, and never leaves one stopped.
//
// The kernel does not tie a freeze to a process: a filesystem that was frozen stays so when whoever froze it has died, and then hangs
// everyone who writes to it, through an unmount and a mount, until the next boot. So three parties see to it that it is thawed:
//
//   - The guard, a process of its own, freezes and thaws. It thaws when it is told to, when the limit is over, when it gets a signal to end, and when
//     the connection to the agent breaks, which it does in the moment in which the agent dies.
//   - The agent holds a descriptor of the filesystem that the guard opened. When the guard dies, or does not answer, the agent thaws by itself. It needs no
//     path for that, so it cannot hang and works on what was unmounted lazily.
//   - When both were killed at once, the next agent thaws: before anything is frozen, a note of it is written to a folder that does not outlive the boot.
//     [Freezer.Recover] works off the notes of processes that are gone. A filesystem that was unmounted meanwhile is reached by a mount that nobody sees.
//
// While it is frozen, the two descriptors keep the filesystem from being unmounted, but for a lazy unmount.
//
// A filesystem that someone else has frozen is not thawed here.
//
// The guard is this very program, started as /proc/self/exe with [HelperName] as its first argument. Whoever builds a program with this package in it, tests
// included, begins main with
//
//	if len(os.Args) > 1 && os.Args[1] == freeze.HelperName {
//		os.Exit(freeze.HelperMain(os.Args[2:]))
//	}
//
// All types may be used by many goroutines at once.
package freeze
