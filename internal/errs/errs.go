// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package errs holds the one error type that crosses from the domain to the edges. An
// Error says what happened, to which object, why, and what to do about it; its Kind, Object
// and Attr are what an edge maps to its own codes, so that no text is ever parsed.
//
// It imports nothing of Holdfast. All values are immutable once made.
package errs

import (
	"errors"
	"fmt"
	"maps"
)

// Kind classes an error by what its caller can do about it.
type Kind int

// The kinds. The zero Kind is Internal, so that an error nobody classed is never taken for
// a mistake of the user.
const (
	Internal     Kind = iota // a fault of Holdfast itself
	Invalid                  // a value of the request cannot be accepted; Attr names which
	NotFound                 // the object, or the parent that the request names, does not exist
	Exists                   // an object of that identity exists already
	InUse                    // someone outside Holdfast's control uses the object now
	HasChildren              // other objects still name this one as their parent
	Closing                  // the object, or its parent, is being deleted
	NotEnough                // fewer candidates than asked for (nodes, pools, replicas)
	NoSpace                  // a pool cannot hold what was asked
	Exhausted                // a range of numbers is used up; Attr names which
	NotConnected             // the node that would do the work is not connected
	HostFailed               // the node tried and could not; Cause has its words
	Unsupported              // known, but not possible with this provider, layer or version
	Protected                // the object is part of the system and cannot be changed so
	Unavailable              // the store does not accept writes now, or this is not the leader
	TimedOut                 // the work was accepted, but its outcome was not seen in time
	NotUpToDate              // a replica does not have all data yet
)

// Object is the noun that an error is about.
type Object int

// The objects.
const (
	NoObject Object = iota
	Controller
	Node
	NetInterface
	StoragePool
	StoragePoolDefinition
	ResourceGroup
	VolumeGroup
	ResourceDefinition
	VolumeDefinition
	Resource
	Volume
	Snapshot
	NodeConnection
	ResourceConnection
	KeyValueStore
)

// Attr names the attribute that an Invalid or Exhausted error is about.
type Attr int

// The attributes.
const (
	NoAttr Attr = iota
	Name
	ExternalName
	NodeType
	Address
	Port
	Minor
	NodeID
	PeerSlots
	VolumeNumber
	VolumeSize
	VolumeSizes
	PlaceCount
	Property
	LayerKind
	LayerStack
	Provider
	Pool
	EncryptionType
	Body
	Query
	Flag
	ReplicaCount
	Passphrase    // that opens the master key
	NewPassphrase // that is to open it from now on
	MasterKey     // which is needed, and not open
)

// Error is what the domain answers when it refuses or cannot do something.
type Error struct {
	Kind       Kind
	Object     Object
	Attr       Attr
	Message    string            // what happened, to which object
	Cause      string            // why, with the numbers
	Correction string            // what the reader can do
	Details    string            // anything longer, such as a reason for each rejected pool
	Refs       map[string]string // the objects by LINSTOR's reference keys, such as "RscDfn"
	wrapped    error
}

// Error implements error: message, cause and correction in one line.
func (e *Error) Error() string {
	s := e.Message
	if e.Cause != "" {
		s += ": " + e.Cause
	}
	if e.Correction != "" {
		s += " (" + e.Correction + ")"
	}
	return s
}

// Unwrap returns the error that e was made of, for errors.Is and errors.As.
func (e *Error) Unwrap() error { return e.wrapped }

// New makes an Error about object with a formatted message.
func New(kind Kind, object Object, format string, args ...any) *Error {
	return &Error{Kind: kind, Object: object, Message: fmt.Sprintf(format, args...)}
}

// About returns a copy of e that is about attribute a.
func (e *Error) About(a Attr) *Error {
	c := *e
	c.Attr = a
	return &c
}

// Because returns a copy of e with a formatted cause.
func (e *Error) Because(format string, args ...any) *Error {
	c := *e
	c.Cause = fmt.Sprintf(format, args...)
	return &c
}

// Fix returns a copy of e with a formatted correction.
func (e *Error) Fix(format string, args ...any) *Error {
	c := *e
	c.Correction = fmt.Sprintf(format, args...)
	return &c
}

// Detail returns a copy of e with details.
func (e *Error) Detail(details string) *Error {
	c := *e
	c.Details = details
	return &c
}

// Wrap returns a copy of e that unwraps to err.
func (e *Error) Wrap(err error) *Error {
	c := *e
	c.wrapped = err
	return &c
}

// Ref returns a copy of e that names one more object by its reference key.
func (e *Error) Ref(key, value string) *Error {
	c := *e
	c.Refs = make(map[string]string, len(e.Refs)+1)
	maps.Copy(c.Refs, e.Refs)
	c.Refs[key] = value
	return &c
}

// As returns the Error in err's chain, or nil.
func As(err error) *Error {
	e, _ := errors.AsType[*Error](err)
	return e
}

// Is tells whether err holds an Error of kind.
func Is(err error, kind Kind) bool {
	e := As(err)
	return e != nil && e.Kind == kind
}
