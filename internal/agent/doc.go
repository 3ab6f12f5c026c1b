// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package agent is the half of Holdfast that runs on every node: it holds a session with
// the controller, takes from it what the node shall have, makes that real through a [Host],
// and reports what was seen.
//
// # Vocabulary
//
// An assignment says what the node shall have of a pool or of a resource. All of them
// together are the assigned set. A session is one stream of assignments from one controller;
// its first message is a full set, or an increment chained to the set that the agent has, and
// each later one is an increment. To look at a resource is to apply its assignment: where
// nothing is to be done, nothing but looking happens.
//
// # What the agent promises
//
//   - Nothing is destroyed but by the word destroy in an assignment that a controller sent to
//     this very process. What is absent from a set, what is no longer assigned, and what a
//     file on disk says, never destroys anything.
//   - The assigned set is kept on disk. After a restart the volumes in it that exist are served
//     at once, with or without a controller; new ones are made and old ones are destroyed only
//     after a controller confirmed the set.
//   - A volume that was there once and is missing is an error. No empty one takes its place. Nor
//     is a snapshot that was complete once taken anew.
//   - Snapshots are part of the assignment of their resource, with or without volumes. What is
//     wanted of one fails alone, and its status says so.
//   - Copies go on in the background, and the status tells how far they are. A restart begins
//     them anew; what was half-made is seen by nobody.
//   - Writers that a controller had held back go on when it says so, after the limit that it
//     gave, and when the agent ends, whichever comes first.
//   - One resource is never worked on twice at once. A change of its assignment is taken up at
//     once, also when an older one waits for its next try.
//   - Whatever fails is tried again for ever with back-off, and its status says what failed,
//     how often, and when the next try comes. One resource, one pool, one bad item of an
//     assignment fails alone.
//   - Work is done in lanes, one for each set of pools that resources lie in: a pool that hangs
//     holds up nothing in other pools. Within a lane new work comes before repairs and repairs
//     before destroying, and one slot is always left for new work.
//   - A status is sent until the controller answered, and all of them again in each new
//     session. What could not be learned is absent from it, never zero.
//   - When the agent ends, devices stay as they are.
//
// Run starts everything that it needs and has stopped it all when it returns, but for calls of
// the host that do not end though they were cancelled: those are left behind.
package agent
