// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package zfs

import (
	"strings"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
)

// No name of ours has a colon.
const (
	rollSuffix = ":roll"
	goneMark   = ":gone:"
)

// goneName is what a volume is called that is kept for what depends on it.
func goneName(id pool.ID, guid string) string { return id.Name() + goneMark + guid }

// idOf returns the volume that a zvol is, is to become, or was.
func idOf(name string) (pool.ID, bool) {
	plain, _, _ := strings.Cut(name, ":")
	return pool.ParseName(plain)
}
