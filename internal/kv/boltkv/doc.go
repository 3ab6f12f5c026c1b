// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package boltkv is the engine for one machine: a bbolt file.
//
// The file has two buckets. "rows" holds the entries as they are. "holdfast" holds what the engine knows of the file itself: its
// format, when it was created, the revision, and the term. Each append is one transaction of bbolt, with two syncs of the file:
// when it has answered, the batch survives a loss of power.
//
// The lock of the file is the ownership. It is taken by Own and given up by Close, so a second process waits in Own until the
// first one ends, or until its context ends; the error then names the file and, where the system tells, the process.
//
// The history for Watch is kept in memory: it begins when the file is opened and is bounded.
//
// A file that is damaged or of another kind is an error of Own or Load, never a panic: what bbolt does not check itself is checked
// before it sees the file, and its panics and faults on damaged pages are turned into errors.
//
// Backups: package database makes them, also while the file is in use. A copy of the file while no process owns it, and a snapshot of
// the file system at any moment, are whole databases too.
package boltkv
