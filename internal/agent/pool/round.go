// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package pool

import "math"

// RoundUp returns the smallest multiple of granularity that is not below size, both in bytes. A size below one, or one whose multiple does
// not fit, is a *SizeError. The granularity must be above zero.
func RoundUp(size, granularity int64) (int64, error) {
	if size <= 0 {
		return 0, &SizeError{Asked: size}
	}
	limit := math.MaxInt64 / granularity * granularity
	if size > limit {
		return 0, &SizeError{Asked: size, Limit: limit}
	}
	if rest := size % granularity; rest != 0 {
		size += granularity - rest
	}
	return size, nil
}
