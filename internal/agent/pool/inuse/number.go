// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package inuse

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Number returns the number of the block device at a path, as [Table.Device] takes it, or false when there is none.
func Number(path string) (rdev uint64, ok bool, err error) {
	var st unix.Stat_t
	err = unix.Stat(path, &st)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("look at %s: %w", path, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFBLK {
		return 0, false, fmt.Errorf("%s is no block device", path)
	}
	return st.Rdev, true, nil
}
