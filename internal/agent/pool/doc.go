// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package pool defines what a storage pool on a host can do: make block devices, grow them and remove them.
//
// # Vocabulary
//
// A pool is a place that volumes are cut from: a directory, a volume group, a dataset. A volume is one block device's worth of space,
// known by an [ID]. It is NEW from Create or Clone until Finish, and finished from then on. It is open while it has a block device. It is in use
// while anything but the driver needs it; whoever does is a [Holder] and has a name. A snapshot is the content that a volume had at one moment, known by a
// [SnapshotID].
//
// # The crash rule
//
// Nobody is ever told of a NEW volume. So a NEW volume that is found after a crash may be formatted again or removed, whatever lies on
// it, and a finished volume is never formatted, whatever lies on it. Finish is the one step that turns the first into the second; it is
// atomic and durable.
//
// # What every driver promises
//
//   - Every method is idempotent: after a crash at any point, the same call again completes the work.
//   - Absent means done: closing what is not open and removing what does not exist succeed.
//   - In use means refused, with the holders named, before anything was touched.
//   - A driver touches only volumes that carry its own mark. What others put into the pool is neither listed, opened nor removed.
//   - What could not be learned is an error. It is never zero, never absent and never success.
//   - The content of a volume is never looked at: it belongs to whoever writes it.
//   - Sizes are bytes. A volume's size is what its user can write; it is rounded up to the pool's granularity, never down.
//   - All methods may be called at once, for the same volume too. Calls for one volume run one after the other, but for the time in which content
//     is copied: then others may look at the volumes, and what is removed or made meanwhile makes the copy fail.
//   - A copy that was broken off is never taken for a whole one, whatever broke it off.
//
// Package pooltest holds the suite that checks these promises on any driver, and a pool in memory that keeps them.
package pool
