// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package host holds the tests of the real program on real devices: controller and agents as
// processes, pools of files on loop devices, filesystems, mounts, full disks and kills. They
// need root.
package host
