// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package converge runs the loops of the leading controller: what has to go on without anybody
// calling, and over restarts.
//
// # Jobs
//
// A job is a row that a use case has begun together with its intent, see schema.Job. The loop
// makes tries at it, one at a time, until it has ended: at once when it is begun or asked for
// again, then with a delay that doubles from Config.RetryFirst to Config.RetryMost while the
// tries bring nothing. What came of each try is written to the row. A try that is cut off by
// the end of the process leaves the row as it was, and the next leader begins where the work
// is. Tries are idempotent, so nothing is lost or done twice.
//
// A job that was cancelled, or whose row is gone, has its try ended. A try that panics is one
// that failed: one bad object never stops the loops.
//
// # Eviction
//
// A node that has replicas and stays OFFLINE for as long as the property
// DrbdOptions/AutoEvictAfterTime says is evicted, unless DrbdOptions/AutoEvictAllowEviction
// forbids it, or more of all nodes are OFFLINE than
// DrbdOptions/AutoEvictMaxDisconnectedNodes permits: then it is the controller that is cut
// off. The time that a node was away before this leader began does not count.
//
// # Concurrency
//
// Run may run once at a time, on the leader alone.
package converge
