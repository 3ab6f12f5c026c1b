// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package model holds the nouns of the domain that controller and agent share: names and
// their keys, sizes, providers, layers, properties, life cycles. It validates and parses; it
// does no I/O and imports nothing of Holdfast but errs.
//
// # Names and keys
//
// A name keeps the letters its creator typed; its identity ignores case, as in LINSTOR
// ("Vol-A" and "VOL-A" are one resource). So each name type has a key type: the name folded
// to lower case. Rows are stored and looked up by keys, names are only shown. A key is made
// from a name that was parsed, or from user input by Key, which never fails: a key that no
// valid name has simply finds nothing.
//
// All values are immutable: Props has no way to change in place.
package model
