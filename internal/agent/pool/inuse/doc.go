// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package inuse finds out who uses a block device or a file on this host, and names them.
//
// One pass over /proc and /sys answers for all devices and files at once: processes that have them open, mounts in every mount
// namespace that some process lives in, swap, and devices stacked on top. Passes are shared: a caller gets a pass that began after its
// call, and callers that come while one runs share the next. So a look is never stale, and a hundred volumes do not cost a hundred passes. What is
// only told, and nothing is done upon, may be a look that is a little older: see [Sharing].
//
// A pass does not block on a dead network filesystem: it takes only what the kernel knows of an open file without asking its server. It is
// bounded in time all the same; when the time is over, the answer is an error, and unknown counts as used.
//
// Not everyone can be seen: processes that are better protected than ours (their ids are in [Table].Hidden), descriptors that are under way in a socket or registered with io_uring, mounts in a namespace that no process
// lives in, processes outside of the PID namespace. So a caller that is about to destroy something must also let the kernel refuse it, by an exclusive
// open and by looking whether the device is really gone.
package inuse
