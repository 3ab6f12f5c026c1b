// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package lvm

import (
	"os"

	"golang.org/x/sys/unix"
)

// zeroOut has a device write zeros, by itself where it can.
func zeroOut(f *os.File, at, length int64) error {
	return unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_ZERO_RANGE|unix.FALLOC_FL_KEEP_SIZE, at, length)
}
