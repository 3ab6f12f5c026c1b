// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package kernel reads what DRBD's kernel module tells of its resources through drbdsetup: its state (status --json), its configuration (show --json),
// and the stream of its changes (events2).
//
// States are DRBD's own words, because people and clients know them. Sizes are bytes; drbdsetup prints KiB.
//
// A node knows its own disks and guesses those of its peers: a peer's disk can be shown in a state that it left half a minute ago. Whoever decides something
// takes the disk state that each node tells of itself.
//
// Fields that are not known here are ignored: newer versions print more.
package kernel
