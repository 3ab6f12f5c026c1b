// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package drbdtest stands in for DRBD 9 in tests.
//
// [Transcripts] are what a real DRBD 9.2.18 with drbd-utils 9.22 printed on three nodes, alpha, bravo and charlie, command by command, with its exit
// codes. [Cluster] is a small model of drbdadm, drbdsetup and drbdmeta on some nodes that behaves as they show, their traps
// included: what takes a device away from under its users does so, and is noted as a [Cluster.Disasters].
package drbdtest
