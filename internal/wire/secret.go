// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import "log/slog"

// Secret is a passphrase or key of a request. It is sent as it is, and printed and logged as stars.
type Secret string

const redacted = "***"

// String returns stars.
func (Secret) String() string { return redacted }

// GoString returns stars.
func (Secret) GoString() string { return redacted }

// LogValue returns stars.
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// PassphraseStatus says whether the master passphrase is set and known to the controller.
type PassphraseStatus struct {
	Status string `json:"status"`
}

// Values of [PassphraseStatus].
const (
	PassphraseUnset    = "unset"
	PassphraseLocked   = "locked"
	PassphraseUnlocked = "unlocked"
)

// PassPhraseCreate sets the master passphrase (POST) or changes it (PUT).
type PassPhraseCreate struct {
	NewPassphrase Secret `json:"new_passphrase,omitempty"`
	OldPassphrase Secret `json:"old_passphrase,omitempty"`
}

// PassPhraseEnter unlocks the controller (PATCH). Its JSON is the bare string.
type PassPhraseEnter = Secret
