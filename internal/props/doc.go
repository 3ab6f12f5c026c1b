// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package props knows every property: where it may be set, what it may be set to, and from where it is inherited. The keys are those of LINSTOR.
//
// # Vocabulary
//
// A property is a key with a value, both text, set at a scope: the controller, a node, a group and so on. A value that is not set at a scope is
// inherited: the key has a chain of scopes, and the first of them that has a value wins. That value is the effective one. A key is
// exact, or a pattern such as "Aux/*" (everything below) or "Paths/<name>/<node>" (one segment for each placeholder).
//
// # Checking
//
// [Check] accepts or refuses a change as a whole, and changes nothing: what is stored is what was sent. Only what is set is checked. Whatever is set
// already may be deleted, also when a newer version does not know it any more.
//
// The package holds no state. All functions may be called at once.
package props
