// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package command runs the programs of the host: mkfs, lvs, zfs, drbdadm.
//
// It is the only package that starts processes. Everything else takes a [Runner], so that a recorded fake (package commandtest) can
// stand in for the host. [Exec] is the Runner that really runs programs. It promises that
//
//   - a program gets a small fixed environment with LC_ALL=C, so that its output does not depend on where the agent was started;
//   - a program runs in a process group of its own, which is killed whole when its time is over;
//   - Run returns a few seconds after that at the latest, even when the program hangs in the kernel and cannot be killed;
//   - output is bounded, and output that was cut is an error: nobody parses half an answer;
//   - what is marked as secret appears neither in logs nor in errors.
//
// An Exec may be used by many goroutines at once. It does not limit how many programs run: whoever knows the reason for a limit does.
package command
