// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package dispatch is the controller's side of the agent protocol: it tells each agent what
// its node shall have, and takes what the agent says of it into package observed.
//
// # Vocabulary
//
// An assignment is what a node shall have of one pool or one resource. A session is one
// stream of assignments to one agent. Its first message is a full set, or, for an agent
// process that still has exactly what it was sent last, an increment to that; all others are
// increments. Assignments are built from the newest durable state, and only from that: an
// agent never acts on what a crash can take back.
//
// The keys of encrypted volumes are a part of their assignments while the controller has them
// open, and of nothing that is kept or told anywhere else. That it opened them is no commit, so it
// changes no generation: the assignments are sent anew, and their states come with the
// generation that they had.
//
// What a node has of a definition is one assignment: the replica, and its parts of snapshots,
// which may be there without a replica.
//
// The generation of a resource's assignment is the highest revision among the rows that it
// was made of: the resource, its definition, the volume definitions of its volumes and the
// snapshots' parts on the node, and then what it shares with others: their group, the pools and the
// settings, and for DRBD the other replicas, the nodes with their interfaces, what is set for
// connections, and how the replica begins. So it is the
// same after a reconnect or a new start of the controller, but for rows that went, and it grows
// when something of it changed. When only rows of
// the second kind changed, and nothing of what the agent is told, no new assignment is sent.
// Whoever wants to wait for an agent writes the resource's own row, or that of a snapshot's part,
// and waits for that revision.
//
// # What it promises
//
//   - Nothing is ever destroyed because it is absent. An assignment says destroy if and only
//     if its row is Deleting.
//   - The rows of what was destroyed go before the agent's report is answered, so that a
//     report that was lost on any step is repeated. A word about another incarnation of
//     a replica than the one in the store never removes a row.
//   - A node is OFFLINE as soon as its stream ends or nothing was heard of it for
//     Config.OfflineAfter, and ONLINE once the agent has taken over what it was sent first.
//   - There is one session for a node: a new one ends the one before, without an OFFLINE in
//     between.
//   - A slow agent costs the names of what changed since it last took something, no queue,
//     and holds up nobody else. A commit costs in proportion to the replicas that it
//     concerns, a reconnect to the objects of that node.
//   - A row that the store could not read concerns that object alone: it is left as it is on
//     its host, and everything else is assigned and observed.
//
// # Concurrency
//
// All methods may be called from several goroutines. Sessions are taken while Run runs, and
// have all ended when it has returned.
package dispatch
