// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package resources makes replicas, places them, moves them, and takes them away: spawn,
// autoplace, create, volumes added to and removed from what is deployed, grow, delete, groups
// adjusted, nodes evacuated, evicted, restored and lost. It tells what a spawn would do.
//
// Each exported method of Resources is one use case in three parts:
//
//  1. Plan on the newest durable view: where do replicas go, is anyone using the device.
//  2. Commit one transaction, which checks again what the plan rests on, and plans again
//     right there when it does not hold any more. Promised space, numbers and parents are
//     settled by this commit and by nothing else.
//  3. Wait, outside any transaction, for what the agents say: the answer is an observation.
//
// When the hosts cannot do what was committed, what this call added is marked for deletion
// again, and the error has the host's words. A caller that goes away does not stop a use case
// that has committed.
//
// Every door that makes a replica goes through one function on a transaction, add.
//
// Work that outlives its call is a job: the use case commits it with its intent and answers, and
// package converge has Work make tries at it. Each part of a job is a use case of its own,
// so a job that is cut off, or made twice, does no harm.
//
// AutoDiskful is a loop of the leader, which gives disks to replicas that are in use for long.
//
// Errors are *errs.Error. All methods of Resources may be called at the same time.
package resources
