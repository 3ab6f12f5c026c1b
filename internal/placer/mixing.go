// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package placer

import "github.com/holdfast-storage/holdfast/internal/model"

// class is a set of providers that replicas of one definition may lie in together. A placement lies in one class as a whole.
type class uint8

const (
	files class = 1 << iota
	lvm
	lvmThin
	zfs
	blocks // All block providers, on nodes that can mix them.
	noDisk
)

// classOf is the class of a provider where nothing is mixed.
func classOf(p model.Provider) class {
	switch p {
	case model.File, model.FileThin:
		return files
	case model.LVM:
		return lvm
	case model.LVMThin:
		return lvmThin
	case model.ZFS, model.ZFSThin:
		return zfs
	default:
		return noDisk
	}
}

// mixing is the classes that existing replicas leave open.
type mixing struct{ open class }

// mixingOf tells what is open next to replicas of the given providers, on nodes that all can mix, or not.
func mixingOf(allowed bool, existing []model.Provider, allMix bool) mixing {
	open := files | lvm | lvmThin | zfs | noDisk
	if allowed && allMix {
		open |= blocks
	}
	for _, p := range existing {
		switch own := classOf(p); own {
		case noDisk:
		case files:
			open &= files | noDisk
		default:
			open &= own | blocks | noDisk
		}
	}
	return mixing{open}
}

// classes are those that a pool on a node belongs to.
func (m mixing) classes(p model.Provider, mixes bool) class {
	c := classOf(p)
	if mixes && c&(lvm|lvmThin|zfs) != 0 {
		c |= blocks
	}
	return c & m.open
}
