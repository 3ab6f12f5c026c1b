// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package authority is the controller's half of identity: it keeps the certificate authority
// in the store, makes join tokens, gives and renews the certificates of nodes, and decides for
// each call of an agent who is calling.
//
// # What it promises
//
//   - A call of any service but Join comes from the agent of a node: it had a certificate of
//     this authority, in date when its connection began. It is refused before any of its
//     message is read otherwise, with the reason and what to do.
//   - A certificate is good for its node alone, by name and UUID, and until the next host joins
//     as that node. So a node that was deleted, or created again, admits nobody by an old one,
//     and who joins again shuts out who has the old key.
//   - A token is good once, for its node, until it expires or a newer one is made. A host whose
//     answer was lost may repeat the same request for a day.
//   - Renewing writes nothing: it works while the database takes no writes.
//   - Private keys and secrets are in no log and no error.
//
// Errors of the protocol are statuses of gRPC; all others are *errs.Error. All methods may be
// called from several goroutines.
package authority
