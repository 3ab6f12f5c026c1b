// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package rest serves the LINSTOR REST API, version 1.
//
// The operations of the API are data: [Routes] lists every one of them, those that are not served yet included, and a test
// compares the list with the API. A handler decodes, calls one use case or reads one view of the store, and encodes; what
// an error becomes on the wire is decided in one place for all of them.
//
// # Reading
//
// A read takes the newest durable state from memory and never waits: not for a node, not for the disk. The free devices of
// hosts alone are asked for, since only the hosts know them. Lists are streamed row by row. A list that names objects costs in
// proportion to what it names.
//
// # Changing
//
// The client of a call that changes something may hang up at any time: the call goes on to its end, so that nothing is left
// half done. Every answer is a list of entries, the outcome first.
//
// # Concurrency
//
// A [Server] is set up by setting its fields, which nobody changes once Handler was called. The handler serves any
// number of requests at a time.
package rest
