// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package mount brings the sources of storage pools up at their places on this host, takes them down, and says who uses them. It decides
// nothing: when a source may go down is the business of package hold.
//
// # Vocabulary
//
// A [Source] is what is mounted: an NFS export, a block device, a folder, or something that the operator mounted himself. Its place is
// the one path at which this host has it. A [Spec] is a source with the options and the identity that are wanted. An [Entry] is one
// mount as the kernel lists it; all of them are a [Table].
//
// # What it promises
//
//   - Whatever touches a path that can hang runs in a child process with a deadline. This process itself reads only /proc and asks the
//     kernel for its list of mounts, which always answers.
//   - A call of [Kernel] returns when it is over: nothing of it is at work any more. A helper that hangs in the kernel and cannot be
//     killed keeps its call from returning; whoever calls has a deadline of his own and goes on without it. After a restart of the
//     agent, [Kernel.Settle] waits for what an earlier process left at work.
//   - What a helper says about success is not believed: the kernel's table is read afterwards. An unmount that printed nothing, and one
//     that claims to have worked, are the same until the mount is gone from the table.
//   - Nothing is mounted over something, and nothing is unmounted but the very mount that the caller names.
//   - A mount is known by the kernel's unique number where there is one (Linux 6.8), never by its path alone.
//   - A place is immutable while nothing is mounted there, on file systems that know the flag: not even root writes into the bare folder.
//
// # Helpers
//
// The helper is this very program, started as /proc/self/exe with [HelperName] as its first argument. Whoever builds a program with this
// package in it, tests included, begins main with
//
//	if len(os.Args) > 1 && os.Args[1] == mount.HelperName {
//		os.Exit(mount.HelperMain(os.Args[2:]))
//	}
//
// All types may be used by many goroutines at once. A Kernel refuses a second change of a source while one is at work, also one of an
// earlier process, with the kind Occupied.
package mount
