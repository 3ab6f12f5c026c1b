// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package lvm

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// sector is the unit of device mapper, in bytes.
const sector = 512

// Fill is how full a thin pool is. Blocks of metadata have 4096 bytes.
type Fill struct {
	UsedMeta, TotalMeta int64  // Blocks.
	Used, Total         int64  // Data blocks; a block's size is the pool's size through Total.
	Mode                string // "rw", "ro" or "out_of_data_space"; "Fail" and "Error" when the pool does not work at all.
	NeedsCheck          bool
}

// ParseStatus reads what dmsetup status printed: the bytes that each thin device really takes, and how full each thin pool is, by names of
// devices. Lines about other devices are left out.
func ParseStatus(text string) (taken map[string]int64, pools map[string]Fill, err error) {
	taken, pools = map[string]int64{}, map[string]Fill{}
	for line := range strings.Lines(text) {
		name, rest, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok {
			continue
		}
		words := strings.Fields(rest)
		if len(words) < 4 {
			continue
		}
		switch words[2] {
		case "thin":
			sectors, err := strconv.ParseInt(words[3], 10, 64)
			if err != nil || sectors < 0 || sectors > math.MaxInt64/sector {
				if words[3] == "Fail" || words[3] == "Error" {
					continue // Its pool says so too.
				}
				return nil, nil, fmt.Errorf("read the status of device %s: %q sectors are mapped", name, words[3])
			}
			taken[name] = sectors * sector
		case "thin-pool":
			fill, err := parseFill(words[3:])
			if err != nil {
				return nil, nil, fmt.Errorf("read the status of device %s: %w", name, err)
			}
			pools[name] = fill
		}
	}
	return taken, pools, nil
}

// parseFill reads the words of a thin pool's status behind its kind.
func parseFill(words []string) (Fill, error) {
	if words[0] == "Fail" || words[0] == "Error" {
		return Fill{Mode: words[0]}, nil
	}
	if len(words) < 5 {
		return Fill{}, fmt.Errorf("%q is too short for a thin pool", strings.Join(words, " "))
	}
	f := Fill{Mode: words[4]}
	var err error
	if f.UsedMeta, f.TotalMeta, err = ratio(words[1]); err != nil {
		return Fill{}, err
	}
	if f.Used, f.Total, err = ratio(words[2]); err != nil {
		return Fill{}, err
	}
	for _, word := range words[5:] {
		f.NeedsCheck = f.NeedsCheck || word == "needs_check"
	}
	return f, nil
}

// ratio reads "used/total".
func ratio(word string) (used, total int64, err error) {
	a, b, ok := strings.Cut(word, "/")
	used, errA := strconv.ParseInt(a, 10, 64)
	total, errB := strconv.ParseInt(b, 10, 64)
	if !ok || errA != nil || errB != nil || used < 0 || total <= 0 || used > total {
		return 0, 0, fmt.Errorf("%q does not say how much of how much is used", word)
	}
	return used, total, nil
}
