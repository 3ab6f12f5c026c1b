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
)

// Notice is something that a caller should know of a call that succeeded.
type Notice struct {
	Kind    NoticeKind
	Object  Object
	Message string
}
