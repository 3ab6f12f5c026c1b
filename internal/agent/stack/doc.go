// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package stack makes the volumes of one replica real on this host.
//
// It works by observing, planning and doing. A [Layer] observes what there is, and from that and from what is wanted a pure
// function plans [Step]s. Steps are small and idempotent, and absent means done; so after a failure or a crash the same wish is simply
// applied again. Nothing is reported from the fact that a step succeeded: the host is looked at again, and the answer is that observation.
//
// [Stack] is the engine of the storage layer alone: a replica's volumes and their snapshots, on the drivers of package pool. Its rules:
//
//   - A filesystem is made once, on a NEW volume, before the volume is finished. A finished volume is never formatted, whatever lies on it, and neither is one
//     that is made from another.
//   - A volume or snapshot is destroyed only because a wish says so, never because a wish does not name it. Volumes and snapshots go by themselves: a snapshot
//     outlives its volume, and a restored volume its snapshot.
//   - A replica is destroyed whole or refused whole: all its volumes are checked for users before the first one is touched.
//   - A volume never shrinks.
//   - A snapshot of a replica is of one moment in all of its volumes, or it is none: writers are held back while it is taken, and that they were is looked
//     at, not believed. One of which a part is missing was never told of, so it is taken anew as a whole.
//   - A volume whose source lies in another pool is copied from a clone that its source's pool makes for that time. Nobody is told of that clone.
//   - A filesystem that is mounted from a volume grows with it when the wish says so, in whatever namespace it is mounted.
//   - What is wanted of one snapshot fails alone.
//   - A roll-back is done once: it has a token, which the volume keeps. It is done on all volumes that are to be rolled back, or on none, if one is in use.
//
// Copies may take hours. They go on in the background, a few at once in each pool, and a wish that does not want one any more breaks it off. Nothing of them is kept
// over a restart: what is not whole by then is begun anew.
//
// A Stack may be used for many replicas at once. Calls for one replica must come one after the other: the agent has one worker per resource.
package stack
