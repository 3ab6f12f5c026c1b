// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package stack

import "github.com/holdfast-storage/holdfast/internal/agent/pool"

// SplitWords is tested by itself because it is a parser of what users type.
func SplitWords(line string) ([]string, error) { return splitWords(line) }

// MkfsArgs returns the command line that makes a filesystem, without the device.
func MkfsArgs(fs Filesystem) (program string, args []string, err error) {
	m, err := makerOf(fs.Type)
	if err != nil {
		return "", nil, err
	}
	args, err = m.args(fs.MkfsParams)
	return m.program, args, err
}

// There is what a plan starts from: the volumes of a wish in its order, nil for one that does not exist, and who uses them.
type There struct {
	Volume  *pool.Volume
	Holders []pool.Holder
}

// Plan returns what the steps are called that lead from there to w.
func Plan(d pool.Driver, w Want, there []There) ([]string, error) {
	var have []found
	for _, t := range there {
		f := found{driver: d, holders: t.Holders}
		if t.Volume != nil {
			f.exists, f.volume = true, *t.Volume
		}
		have = append(have, f)
	}
	steps, err := (&storage{}).Plan(w, have)
	var names []string
	for _, s := range steps {
		names = append(names, s.What)
	}
	return names, err
}
