// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package pooltest checks that a pool driver keeps the promises of package pool, and has a pool in memory that keeps them.
//
// A driver's own test is a factory:
//
//	func TestDriver(t *testing.T) {
//		pooltest.Suite{New: func(t *testing.T) pooltest.Fixture { … }}.Run(t)
//	}
//
// What differs between drivers is declared in the fields of [Suite]; the suite has no special cases for any of them.
//
// [Memory] is not a mock: it keeps volumes, sizes, states and room like a real pool. Tests of what lies above a pool make its calls fail,
// stop them half-way, and mark its volumes as used.
package pooltest
