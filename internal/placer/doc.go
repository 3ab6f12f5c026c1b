// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package placer decides where replicas go. It only computes: it knows no store, no clock and no chance, and the same input in any order
// gives the same plan. The caller brings nodes and pools as they are; nothing is changed and nothing is reserved.
//
// # How a plan is found
//
// Filter, score, search. Every node and pool that cannot take a replica is rejected with a reason and its numbers. What is left gets a score
// from 0 to 1 for each criterion, weighted. Then the search takes the best pool that a complete placement can hold, then the next best, and
// so on, and goes back whenever the rules that tie replicas to each other cannot be met. It is exact: when a placement exists, it is found, and
// one that breaks a rule is never returned. Only for input built to be hard, three or more rules whose values cross each other in thousands of
// ways, it gives up after a fixed amount of work, and says so instead of saying that there is none.
//
// # Rules and preferences
//
// Rules always hold: what the filter says, one replica to a node, one replica to a shared space, no mixing of providers unless allowed, room in
// the pool. Preferences hold when the rules permit: values of an x-replicas-on-different property are filled one after the other, all replicas lie
// in pools of one name, and nodes that use the definition without a disk are taken last.
//
// # Room
//
// [Space.Room] is the one place where it is computed how much a pool can still promise. All sizes are bytes.
package placer
