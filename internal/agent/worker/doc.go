// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package worker runs parts of the agent in processes of their own: whatever touches a file system whose server may hang.
//
// # Vocabulary
//
// A worker is this very program, started once more with [Name] as its first argument. It has a kind, which says what it
// serves, and may have a place: the folder of a mount that becomes its working directory. The agent calls methods of a
// worker, many at once; each may tell how far it is, can be cancelled, and ends with a result or an error.
//
// # What is promised
//
//   - The agent's process never waits for what a worker waits for: [Worker.Call] returns when its context ends, whatever the
//     worker does.
//   - A worker at a place begins in the very mount that was named, or not at all. With names that are relative to its
//     working directory it cannot miss that mount.
//   - A worker that does not end a cancelled call in time is killed, and left behind when it hangs in the kernel.
//     [Worker.Gone] tells when it has really ended.
//   - A worker ends when its agent does: it sees that its connection is closed.
//
// Whoever builds a program with this package in it, tests included, begins main with
//
//	if len(os.Args) > 1 && os.Args[1] == worker.Name {
//		os.Exit(worker.Main(os.Args[2:], kinds))
//	}
package worker
