// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"

	"github.com/holdfast-storage/holdfast/internal/errs"
)

// The size bounds of a volume in bytes. The lowest is one 4 KiB block, the highest is the
// largest device that DRBD 9 serves (DRBD manual: 1 PiB), far below any overflow.
const (
	MinVolumeSize int64 = 4 << 10
	MaxVolumeSize int64 = 1 << 50
)

// CheckVolumeSize refuses a size in bytes that no volume can have.
func CheckVolumeSize(size int64) error {
	if size >= MinVolumeSize && size <= MaxVolumeSize {
		return nil
	}
	return errs.New(errs.Invalid, errs.VolumeDefinition, "the volume size of %d KiB is not possible", size>>10).
		About(errs.VolumeSize).
		Because("a volume has at least %s and at most %s", FormatSize(MinVolumeSize), FormatSize(MaxVolumeSize))
}

// FormatSize writes bytes for a reader: exact below 1 KiB, else with two decimals in binary
// units, without a fraction where there is none.
func FormatSize(bytes int64) string {
	if bytes < 0 {
		return "-" + FormatSize(-bytes)
	}
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	n, u := float64(bytes), 0
	for n >= 1024 && u < len(units)-1 {
		n /= 1024
		u++
	}
	if n == float64(int64(n)) {
		return fmt.Sprintf("%d %s", int64(n), units[u])
	}
	return fmt.Sprintf("%.2f %s", n, units[u])
}
