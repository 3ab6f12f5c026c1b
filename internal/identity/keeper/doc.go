// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package keeper is the agent's half of identity: it lets the host join with a token, keeps
// the node's credential in a file, renews it in time, and dials controllers with it.
//
// The credential is one file, [Name], in the agent's state folder: the private key, the
// certificate and the authorities, each a PEM block. It is replaced as a whole and made durable
// before it counts, so that key and certificate fit at every moment. It is read again at each
// handshake: who replaces it needs no restart.
//
// A token is told only to a controller that has the authority which made it. A token that the
// credential did not come from is tried even when there is a credential: so a node that was
// deleted and created again, or whose cluster was made anew, joins again by a new token. While
// it is refused, the credential that is there is used.
//
// Nothing here ends the agent: without a credential it cannot connect, and serves the volumes
// that it has.
package keeper
