// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package backend makes what pools lie on: a volume group, a thin pool in a volume group of its own, or a zpool, of devices that
// nobody uses and that have nothing on them.
//
// # Vocabulary
//
// A backend is made of devices in steps: each device becomes a physical volume, they become a group, the group gets a thin pool; or
// one step makes a zpool. A making is one call that does so, with a token that nobody else has. The token is in a tag of the
// group, or in a property of the zpool, and each physical volume has an identifier that was chosen by the making. So what is ours can
// be told from what others have made under the same name or on the same device.
//
// # What is promised
//
// Devices are looked at again immediately before they are touched, and the programs that touch them are not told to overwrite
// anything, as far as they can be. Of two calls for one device or one name, one is refused at once.
//
// A making is written down before its first step, and forgotten as its last. What fails is undone; what a crash has left is undone by
// [Service.Recover], or before the next making. Only what has the token or the identifiers of a making is undone, and nothing in
// which someone has made something since: what is left is named in the error.
//
// A call for what is there already, made here for the same provider of the same devices, goes well, and completes what is missing.
//
// All methods may be called at once.
package backend
