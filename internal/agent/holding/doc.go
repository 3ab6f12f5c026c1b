// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package holding is everything about pools on mounts that an agent has once: the kernel's mounts, the journal, the set of
// holds with those who know of users, and the drivers of the pools. It puts packages mount, hold and pool/held together and
// tells controllers and people of them.
//
// Nothing is mounted or changed on a host whose pools all lie on its own file systems.
//
// All methods may be called by many goroutines at once.
package holding
