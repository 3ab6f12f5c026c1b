// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package libvirt knows the files that virtual machines use, as libvirt tells: the disks of all domains, running or not, with
// the whole backing chains that it knows, and whatever else they boot from or share. It asks for domains alone.
//
// A [Finder] is one for package hold. While libvirt does not answer, its users are not known, and nothing is unmounted. A call
// that hangs ends with its time, and its connection is given up: the next call makes another one.
package libvirt
