// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"strconv"
	"strings"

	"github.com/holdfast-storage/holdfast/client"
)

const units = "B, S, K, kB, KiB, M, MB, MiB, G, GB, GiB, T, TB, TiB, P, PB, PiB"

// unitBytes returns how many bytes a unit has. Case does not matter: K and KiB are 1024 bytes, kB and KB are 1000.
func unitBytes(unit string) (uint64, bool) {
	switch strings.ToLower(unit) {
	case "b":
		return 1, true
	case "s": // A sector.
		return 512, true
	case "k", "kib":
		return 1 << 10, true
	case "m", "mib":
		return 1 << 20, true
	case "", "g", "gib":
		return 1 << 30, true
	case "t", "tib":
		return 1 << 40, true
	case "p", "pib":
		return 1 << 50, true
	case "kb":
		return 1e3, true
	case "mb":
		return 1e6, true
	case "gb":
		return 1e9, true
	case "tb":
		return 1e12, true
	case "pb":
		return 1e15, true
	default:
		return 0, false
	}
}

// parseSize reads the size of a volume: a whole number, and a unit or none for GiB. It is rounded up to KiB.
func parseSize(text string) (client.SizeKiB, error) {
	trimmed := strings.TrimSpace(text)
	end := 0
	for end < len(trimmed) && trimmed[end] >= '0' && trimmed[end] <= '9' {
		end++
	}
	if end == 0 {
		return 0, usagef("size %q: want a whole number and a unit, such as 10GiB", text)
	}
	unit := strings.TrimLeft(trimmed[end:], " ")
	factor, known := unitBytes(unit)
	if !known {
		return 0, usagef("size %q: %q is not a unit; units are %s, and none is GiB", text, unit, units)
	}
	number, err := strconv.ParseUint(trimmed[:end], 10, 64)
	high, bytes := bits.Mul64(number, factor)
	if err != nil || high != 0 || bytes > math.MaxInt64 {
		return 0, usagef("size %q: larger than %d bytes, which is the most there can be", text, int64(math.MaxInt64))
	}
	if bytes == 0 {
		return 0, usagef("size %q: a volume cannot be empty", text)
	}
	return client.RoundUp(int64(bytes)), nil
}

// formatSize returns a size as people read it, in the largest unit that it fills: 10 GiB, 1.50 MiB.
func formatSize(size client.SizeKiB) string {
	names := [...]string{"KiB", "MiB", "GiB", "TiB", "PiB"}
	unit, n := client.SizeKiB(1), 0
	for n < len(names)-1 && size >= unit<<10 {
		unit <<= 10
		n++
	}
	if size%unit != 0 {
		return fmt.Sprintf("%.2f %s", float64(size)/float64(unit), names[n])
	}
	return fmt.Sprintf("%d %s", size/unit, names[n])
}

// knownSize is as formatSize, and empty for a size that is not known or has no bound.
func knownSize(size *client.SizeKiB) string {
	if size == nil || *size == client.Unlimited {
		return ""
	}
	return formatSize(*size)
}

// exactSize returns a size in bytes.
func exactSize(size client.SizeKiB) string {
	return new(big.Int).Lsh(big.NewInt(int64(size)), 10).String()
}
