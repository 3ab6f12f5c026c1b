// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package mounttest gives tests real mounts that harm nobody: a mount namespace of their own, a file system that hangs on command, loop
// devices, and processes that use mounts. All of it needs root; [NeedRoot] skips a test that has not got it.
//
// A test binary that uses it has a TestMain that ends with
//
//	os.Exit(mounttest.Main(m))
package mounttest
