// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package observed holds what the agents last said: which nodes are there, what became of
// their replicas and snapshots, what their pools have, which jobs go on. It is soft state.
// Nothing of it is stored, nothing of it outlives the process, and a controller that has just
// started knows nothing until the agents have told it.
//
// # Current or not
//
// A status is current while its node has a session and the agent has said it in that
// session, or has resumed the session before without a gap. A status that is not current is
// kept for people, but what can have changed since is taken out of it: whether a volume is
// in use, its holders, its disk state, its allocation, and the whole space of a pool read as
// unknown. So no caller can mistake an old figure for one of now, even one who never asks.
//
// # Connections
//
// A node is OFFLINE without a session, CONNECTED from the start of one until the agent has
// taken over what the node shall have, and ONLINE from then on.
//
// # Concurrency
//
// All methods may be called from several goroutines. Reads take a lock that is only ever
// held for work in memory: they never wait for a node. What is handed out is never changed
// afterwards, and must not be changed by its reader. The methods that write (Connect, Ready,
// Disconnect, Report, and those that forget) belong to package dispatch, which calls them for
// one node at a time.
package observed
