// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// AuthorityKey is the key of the one row of Authorities.
const AuthorityKey = "controller"

// Secret is a value that only the database may show. However it is printed or logged, it says
// no more than that it is one. JSON has it in clear, as that is how rows are stored: whatever
// else encodes rows must leave fields of this type out, or be marked as secret itself.
type Secret []byte

const redacted = "(secret)"

// Format implements fmt.Formatter for all verbs.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// LogValue implements slog.LogValuer.
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// Authority is the certificate authority of the cluster, by which agents know the controller
// and the controller knows its agents. Written by identity/authority.
type Authority struct {
	Certificate []byte `json:"certificate"` // DER
	PrivateKey  Secret `json:"private_key"` // PKCS #8, DER
}

// LogValue implements slog.LogValuer.
func (Authority) LogValue() slog.Value { return slog.StringValue("certificate authority") }

// Membership is how often agents have joined as a node, and the token with which the next one
// can. Written by identity/authority.
//
// It is of the node with that UUID alone, and it is no child of it: one that outlives its
// node means nothing, and a node can be deleted without a thought for it.
type Membership struct {
	Node  model.NodeKey `json:"node"`
	UUID  string        `json:"uuid"`  // of the node
	Joins uint64        `json:"joins"` // certificates of earlier joins are refused
	Token *JoinToken    `json:"token,omitempty"`
}

// JoinToken is the newest token of a node.
type JoinToken struct {
	Hash    string     `json:"hash"` // SHA-256 of its secret, hexadecimal
	Created time.Time  `json:"created"`
	Expires time.Time  `json:"expires"`
	Used    *time.Time `json:"used,omitempty"` // nil while it can be used
	UsedKey string     `json:"used_key,omitempty"`
}

// The collections of identity.
var (
	Authorities = store.Define("authority", func(*Authority) string { return AuthorityKey })

	Memberships = store.Define("membership", func(m *Membership) model.NodeKey { return m.Node })
)
