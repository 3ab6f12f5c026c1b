// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package stack makes the volumes of one replica real on this host.
//
// It works by observing, planning and doing. A [Layer] observes what there is, and from that and from what is wanted a pure
// function plans [Step]s. Steps are small and idempotent, and absent means done; so after a failure or a crash the same wish is simply
// applied again. Nothing is reported from the fact that a step succeeded: the host is looked at again, and the answer is that observation.
//
// [Stack] is the engine of the storage layer alone: a replica's volumes on the drivers of package pool. Its rules:
//
//   - A filesystem is made once, on a NEW volume, before the volume is finished. A finished volume is never formatted, whatever lies on it.
//   - A volume is destroyed only because a wish says so, never because a wish does not name it.
//   - A replica is destroyed whole or refused whole: all its volumes are checked for users before the first one is touched.
//   - A volume never shrinks.
//
// A Stack may be used for many replicas at once. Calls for one replica must come one after the other: the agent has one worker per resource.
package stack
