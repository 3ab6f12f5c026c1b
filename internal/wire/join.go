// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package wire

// JoinTokenCreate asks for a join token of a node. LINSTOR has no such call.
type JoinTokenCreate struct {
	ExpiresIn *int64 `json:"expires_in_s,omitempty"` // seconds; absent: a day
}

// JoinToken lets one host join as a node, once.
type JoinToken struct {
	NodeName string `json:"node_name"`
	Token    Secret `json:"token"`
	Expires  int64  `json:"expires_timestamp"` // milliseconds since the epoch
}
