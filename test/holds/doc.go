// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package holds tests pools on mounts with the program itself, on real mounts: their volumes, jobs and users over the death of
// the agent, sources that cannot be had, and the demo.
package holds
