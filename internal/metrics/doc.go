// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package metrics serves what a controller knows of its cluster and of itself, in the text
// format of Prometheus.
//
// # Names
//
// What LINSTOR has a metric for has LINSTOR's name, labels and numbers here, so that its
// dashboards and alerts work unchanged; these names begin with linstor_. What only this
// controller can say begins with holdfast_. Sizes are bytes, times are seconds.
//
// # Unknown is absent
//
// A figure that is not known now has no sample: a pool whose node is away has no free space,
// neither an old one nor zero. States are the exception, as LINSTOR has a number for the
// unknown state.
//
// # Labels
//
// Labels name objects of the cluster, or come from a fixed set: routes, not paths; classes of
// failures, not their texts. So there are never more series than a cluster has objects.
//
// # Cost
//
// A scrape reads one view of the store and what agents last said, from memory. It asks no
// node, waits for nothing, and holds no lock for longer than it takes to read one status. Each
// replica is read once. The text is written as it is made, in pieces: samples are not kept as
// objects of their own, of which a large cluster has a hundred thousand.
//
// # Concurrency
//
// All methods of an [Exporter] may be called from several goroutines.
package metrics
