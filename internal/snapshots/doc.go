// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package snapshots takes snapshots, makes new resources from them, brings resources back to
// them, and clones resources.
//
// # Vocabulary
//
// A snapshot is the state of a definition's volumes at one moment; its parts are what the nodes
// have of it. Those that were asked for together are one request: they are of one moment, and all
// of them are taken or none is. A hidden snapshot is made for a clone and goes with the end of it.
//
// # How a request is taken
//
// The rows are committed first, as planned or taking. When one node takes all, its agent sees
// to the one moment. Otherwise writers are held back on every node that uses the resources,
// then the parts become assigned, and when the nodes have reported them complete, writers go on.
// Each node tells what was written although it was to be held back: more than one volume, and
// the request has failed. Agents let writers go on by themselves after a while, and when they
// end, so that no death of a controller holds up anybody. What a controller that died has left is
// concluded by the next one: a request that was taken on several nodes has failed, and any other
// goes on.
//
// A request that fails leaves its rows, which say why, and nothing on any node. They go when
// they are deleted, or when another snapshot of the name is taken.
//
// # Deletions
//
// A deletion is an intent. The parts go on their nodes' word, whenever that comes; one that
// something is being made from, or rolled back to, goes when that has ended.
//
// # Clones
//
// A clone is a definition under a group, made together with the hidden snapshot and a job in one
// transaction, and filled by the job: take the snapshot, add the replicas, wait for the copies,
// let the snapshot go. Each step finds by itself what is left to do. A clone that fails loses its
// replicas at once, and itself a minute later, so that whoever waits for it can see why, and
// whoever asks again can begin anew.
//
// Errors are *errs.Error. All methods may be called at the same time. The leader runs Run.
package snapshots
