// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package held is the pool driver for folders of mounted sources, such as NFS exports: a file pool whose folder is there
// only while someone holds its source.
//
// # Who holds
//
// Each volume that is open on this host holds the pool's source until it is closed or removed. The agent holds it too as
// long as it works in the folder, and a little longer. Jobs and users from outside have holds of their own. So a
// pool that is resident while it is used is mounted for its first user and taken down after its last.
//
// # Where the work is done
//
// All work in the folder is done by package file in a worker, a process of its own that began in the verified mount: see
// package worker. The agent's process touches no path of the source. When the server does not answer, calls fail with a
// [pool.FaultyError] as soon as that is known, the worker is killed, and is left behind if it hangs in the kernel. As long
// as it hangs, all calls for this pool fail at once, and those for other pools do not notice.
//
// # What is seen of a pool that is not mounted
//
// A pool that nobody uses is not mounted to be looked at again and again: its space and its volumes are those of the last
// look, for [Config].Remember. What is done in a pool, or could be done by others while it is mounted here, is looked at
// for real.
//
// # Sharing
//
// A folder belongs to one pool of one node, by the mark that package file keeps in it. Nodes that share a source have a folder
// each, and the shared-space name of their pools says that their room is one.
package held
