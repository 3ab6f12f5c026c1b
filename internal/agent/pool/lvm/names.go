// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package lvm

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
)

// Tags of logical volumes that are ours.
const (
	ours      = "holdfast"        // On all of them.
	tagNew    = "holdfast.new"    // On a NEW volume or snapshot.
	tagHalf   = "holdfast.half"   // On what is on its way to become the content of a volume that is rolled back.
	tagRolled = "holdfast.rolled" // With the token of the volume's last roll-back behind an equals sign.
)

// rollSuffix is behind the name of what a volume is rolled back to. No name of a volume or snapshot ends so.
const rollSuffix = "+roll"

// messenger is the name of a volume that is there for a moment. No name of a volume or snapshot is like it.
const messenger = "holdfast+messenger"

// maxDeviceName is the most bytes of the kernel's name of a device.
const maxDeviceName = 127

// reservedStarts and reservedParts are what LVM admits in no name: it calls its own volumes so.
func reservedStarts() []string { return []string{"snapshot", "pvmove"} }

func reservedParts() []string {
	return []string{
		"cdata", "cmeta", "corig", "cpool", "cvol", "wcorig", "mimage", "mlog", "rimage", "rmeta", "tdata", "tmeta", "tpool", "vdata", "vorigin",
		"vpool", "imeta", "iorig", "pmspare",
	}
}

// guard makes a name one that LVM admits: it puts a plus sign, which no name of ours has, where LVM would see one of its own.
func guard(name string) string {
	for _, start := range reservedStarts() {
		if strings.HasPrefix(name, start) {
			name = "+" + name
		}
	}
	for _, part := range reservedParts() {
		name = strings.ReplaceAll(name, "_"+part, "_+"+part)
	}
	return name
}

// volumeName is the name of a volume's logical volume: that of the ID, guarded.
func volumeName(id pool.ID) string { return guard(id.Name()) }

// snapshotName is the name of a snapshot's logical volume: that of its volume, a dot, which no name of ours has, and its own.
func snapshotName(id pool.SnapshotID) string {
	return guard(id.Of().Name() + "." + strings.ToLower(id.Snapshot))
}

// parseVolume is the inverse of volumeName. It returns false for a name that volumeName cannot have made.
func parseVolume(name string) (pool.ID, bool) {
	plain := strings.ReplaceAll(name, "+", "")
	id, ok := pool.ParseName(plain)
	return id, ok && guard(plain) == name
}

// parseSnapshot is the inverse of snapshotName.
func parseSnapshot(name string) (pool.SnapshotID, bool) {
	plain := strings.ReplaceAll(name, "+", "")
	volume, snapshot, ok := strings.Cut(plain, ".")
	if !ok || guard(plain) != name {
		return pool.SnapshotID{}, false
	}
	return pool.ParseSnapshotName(volume + "@" + snapshot)
}

// deviceName is what the kernel calls the device of a logical volume.
func deviceName(group, name string) string {
	double := func(s string) string { return strings.ReplaceAll(s, "-", "--") }
	return double(group) + "-" + double(name)
}

// admit refuses a name that the kernel has no room for.
func (p *Pool) admit(name string) error {
	// LVM adds up to as much for the layers below.
	if n := len(deviceName(p.c.Group, name+rollSuffix)); n > maxDeviceName {
		return fmt.Errorf("pool %s: the name %s in group %s becomes %d bytes long in the kernel, which admits %d: use a shorter name, or one with fewer hyphens", p.c.Name, name, p.c.Group, n, maxDeviceName)
	}
	return nil
}

// rolledTag is the tag with a token. Tags have fewer characters than tokens: others are written as an equals sign and two hexadecimal digits.
func rolledTag(token string) string {
	var b strings.Builder
	b.WriteString(tagRolled + "=")
	for _, c := range []byte(token) {
		if c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c == '.' || c == '_' || c == '-' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "=%02x", c)
		}
	}
	return b.String()
}

// rolledToken is the inverse of rolledTag: the token among tags, or none.
func rolledToken(tags []string) string {
	i := slices.IndexFunc(tags, func(tag string) bool { return strings.HasPrefix(tag, tagRolled+"=") })
	if i < 0 {
		return ""
	}
	parts := strings.Split(strings.TrimPrefix(tags[i], tagRolled+"="), "=")
	var b strings.Builder
	b.WriteString(parts[0])
	for _, part := range parts[1:] {
		var c byte
		if len(part) < 2 {
			return ""
		}
		if _, err := fmt.Sscanf(part[:2], "%02x", &c); err != nil {
			return ""
		}
		b.WriteByte(c)
		b.WriteString(part[2:])
	}
	return b.String()
}
