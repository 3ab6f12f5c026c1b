// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package command runs the programs of the host: mkfs, lvs, zfs, drbdadm.
//
// It is the only package that starts processes. Everything else takes a [Runner], so that a recorded fake can stand in for the host.
package command
