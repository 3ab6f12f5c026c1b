// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package errs

// NoticeKind says what a Notice is about.
type NoticeKind int

// The kinds of notices.
const (
	PropertySet         NoticeKind = iota // a property got a value
	PropertyRemoved                       // a property was removed
	PropertyWasUnset                      // a property that was to be removed was not there
	NothingSpawned                        // definitions were made, but no replicas, as asked
	PartialAssumed                        // the group has no volume groups, so any number of sizes fits
	AlreadyDeployed                       // there are as many replicas as asked for, or more
	ReplicaExists                         // the replica to create is there already
	SameSize                              // the volume has the size asked for already
	NodeNotConnected                      // the node does its part when it is connected again
	ChangedByDefault                      // a value nobody gave was chosen
	SuccessNote                           // something more that was done
	AlreadyBeingDeleted                   // a delete of it is under way, and was joined
	NotEvacuating                         // the node to restore is neither evacuated nor evicted
	GoesOn                                // the work has begun, and goes on after the answer
	WasNotThere                           // what was to be removed, or used, is not there
	HasDiskAlready                        // the replica that was to get a disk has one
	DisklessAlready                       // the replica that was to lose its disk has none
	TieBreakerCreated                     // a tie-breaker was made
	TieBreakerRemoved                     // one that is not needed any more goes
	TieBreakerTakeover                    // a replica without a disk became the tie-breaker instead of going
	NoTieBreaker                          // one is needed, and no node can take it
	Deactivated                           // a replica was taken out of use so that another can be used
)

// Notice is something that a caller should know of a call that succeeded.
type Notice struct {
	Kind    NoticeKind
	Object  Object
	Message string
}
