// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package integrity holds the suite that runs every door (a call that makes a child) against
// every deletion of a parent: with the schedule held at each step of the first call, with
// the database killed there, and as races of real requests. Afterwards the database holds no
// orphan, and no two answers exclude each other.
package integrity
