// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package lvm

// What tests reach.
var (
	VolumeName    = volumeName
	SnapshotName  = snapshotName
	ParseVolume   = parseVolume
	ParseSnapshot = parseSnapshot
	RolledTag     = rolledTag
	RolledToken   = rolledToken
	HolderOf      = holderOf
)

// MaxCommands is the limit of programs that run at once.
const MaxCommands = maxCommands

// Leftovers finds what a killed program left of a group below another sysfs.
var Leftovers = leftovers
