// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package luks encrypts the volumes of a pool with LUKS2.
//
// [Over] puts a layer over a pool driver that is a pool driver itself: what lies above uses encrypted volumes as any others, and what lies below
// sees volumes that are [HeaderSize] larger. Sizes that are told and taken are those that a user can write; the header is added and taken off here. A volume that is
// open has a device mapping /dev/mapper/holdfast-luks-<volume> over the device of the volume below.
//
// # Keys
//
// Each volume has a key, which a function gives, and which goes to cryptsetup on its standard input alone. A key is random and long, so it is not stretched:
// the time that LUKS takes by default for a passphrase that a person can remember buys nothing here. Snapshots and clones have the header of what they were made
// of, and so its key.
//
// A function that cannot give a key yet returns a [LockedError]: then volumes stay shut, and all that needs no key goes on, such as to list, to grow what is closed, to
// close and to remove.
//
// A key that does not open a volume is a [WrongKeyError]; a volume that has no LUKS header where it should have one is a [HeaderError]. LUKS cannot tell a wrong
// key from damage to the place where the header keeps its keys; who knows that the key is right, because it was encrypted with authentication, knows more.
//
// # New volumes
//
// The header is made when a NEW volume is opened for the first time, and made again on a NEW one that cannot be opened: nobody was told of it. A finished
// volume never gets a new header, whatever lies on it.
//
// The sector size of mappings is always 512 bytes and the header always has the same size, so that replicas on different disks are alike.
package luks
