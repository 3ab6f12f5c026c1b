// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package etcdkv is the engine for several machines: keys below a prefix of an etcd cluster, which may be shared with others.
//
// # Keys
//
// Below the prefix, "row/" begins the keys of the entries, which keep their bytes. "sequence" holds the revision, the term and the
// format, as JSON: {"format":1,"revision":42,"term":3}. "leader" is the key of package leader, if there is an election.
//
// # How ownership is proven
//
// Each append is one transaction of etcd. It compares the sequence key with the one that this engine wrote last, and, in a reign
// (see [Engine.Reign]), the election key with that of the reign; it writes the rows and the new sequence. Own writes the sequence
// key too, with the next term: from then on every comparison of an earlier owner fails, whatever its clock says and however long
// its request was under way.
//
// # Unknown outcomes
//
// A transaction that was not answered is sent again, unchanged. Since it compares the sequence that it replaces, it takes effect
// at most once: either the second one succeeds, or it fails and the sequence shows whose batch took its place. Only when etcd
// does not answer at all for the time of [Settings.Patience] is the answer [kv.ErrUnknown].
//
// # Watching
//
// A transaction shows as one set of changes, with the sequence key as its last one. A watcher that loses its connection, or whose
// place in the history of etcd was compacted, finds its place again by the sequence: a shared etcd that compacts because of others
// does no harm to a watcher that has seen everything. The delete of an absent key leaves no trace in etcd, and a watcher does not see it.
//
// # Concurrency
//
// All methods may be called from several goroutines. Appends of one engine run one after the other.
package etcdkv
