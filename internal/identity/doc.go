// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package identity is what the controller and the agents have in common about who is who: the
// form of join tokens, what a node's certificate says, and how an agent knows its controller.
//
// # Vocabulary
//
// The authority is the controller's own certificate authority; its fingerprint is the SHA-256
// of its public key. A [Node] is whom a certificate names: a node by its name and its UUID,
// and by the number of the join that it came from. A [Token] lets one host join as one node, once. A
// [Credential] is what an agent then has: a key, its certificate, and the authorities that it
// trusts.
//
// # What is checked
//
//   - Both sides speak TLS 1.3. The controller's certificate is good for the name [ServerName]
//     and not for addresses: a controller may move. Certificates of nodes are good for clients
//     alone, so that no agent can pass for the controller.
//   - An agent that joins tells its token to nobody but a controller whose authority has the
//     fingerprint in the token. Afterwards it trusts the authorities of its credential.
//   - Credentials are read again at each handshake: whoever replaces them needs no restart.
//
// The controller's half is package authority, the agent's half is package keeper. All
// functions may be called from several goroutines.
package identity
