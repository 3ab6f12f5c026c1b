// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package store keeps the whole state of the controller decoded in memory, serves reads from it, and makes updates durable in an
// engine of package kv.
//
// # What it promises
//
//   - Updates are strictly serial: each runs alone, on the state that all earlier ones left. There are no conflicts and no
//     retries, and no update can be lost, be decided on a stale read, or overlook a row that another one adds.
//   - Updates are durable when they answer, and whole through any crash.
//   - Views show durable states only, each at one revision, and cost no I/O and no waiting. What an answered update wrote is in
//     every view taken afterwards.
//   - No answer rests on what a crash can take back: an update that fails, or writes nothing, answers when the state that it has read
//     is durable.
//   - A child has its parents, always; see [ChildOf]. Unique values are unique; see [Unique]. Indexes and totals are exact.
//
// # Vocabulary
//
// A [Collection] declares one kind of row, by [Define]. A row is a Go value; its key is a part of it. An [Index] finds rows by other
// values, a [Total] adds up over rows; both live in memory and are derived. A [Revision] numbers the updates; a row remembers the one
// that last wrote it. A [View] is the state at one revision; a [Tx] is an update under way. A [Commit] is one update seen by a watcher.
//
// # Rows are values
//
// A row that was read is a copy, but for the maps, slices and pointers in it, which are shared with the state. Never change them in place:
// build new ones. Tests open their stores with [Paranoid], which finds who does.
//
// # How it works
//
// The state is a set of copy-on-write B-trees. There are two: the head, on which the next update builds, and the durable state, which
// views see. An update runs under one lock on a clone of the head, which takes microseconds, publishes the new head, and queues its
// rows. A committer merges what is queued into one commit of the engine, and moves the durable state forward. When a commit fails,
// everything in the queue fails, and the head returns to the durable state.
package store
