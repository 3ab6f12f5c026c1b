// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"cmp"
	"fmt"
	"strings"
)

const (
	maxNameLen   = 48    // What the API admits.
	maxVolume    = 65534 // Likewise.
	volumeDigits = 5
)

// ID names one volume: a resource and the volume's number in it. IDs that differ only in the case of letters name the same volume.
type ID struct {
	Resource string
	Volume   int
}

// Validate refuses an ID that cannot be a name on disk: drivers call it first, so that nothing that a caller passes can leave the pool.
func (id ID) Validate() error {
	if id.Volume < 0 || id.Volume > maxVolume {
		return fmt.Errorf("volume number %d of resource %q is out of range: use 0 to %d", id.Volume, id.Resource, maxVolume)
	}
	return validateName("resource", id.Resource)
}

// validateName refuses what is not the name of a resource or snapshot.
func validateName(noun, name string) error {
	if n := len(name); n == 0 || n > maxNameLen {
		return fmt.Errorf("%s name %q has %d bytes: use 1 to %d", noun, name, n, maxNameLen)
	}
	for i, c := range []byte(name) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
		if !letter && (i == 0 || c != '-' && (c < '0' || c > '9')) {
			return fmt.Errorf("%s name %q: %q is not allowed at byte %d: use letters, digits, '_' and '-', and begin with a letter or '_'", noun, name, c, i)
		}
	}
	return nil
}

// Fold returns the ID in the case that is used on disk. Two IDs name the same volume when their folded forms are equal.
func (id ID) Fold() ID {
	return ID{Resource: strings.ToLower(id.Resource), Volume: id.Volume}
}

// Name returns the volume's name on disk, the same for all cases of the ID: the folded resource, an underscore and the volume's number in
// five digits. It has no separator of paths in it when the ID is valid.
func (id ID) Name() string {
	return fmt.Sprintf("%s_%0*d", strings.ToLower(id.Resource), volumeDigits, id.Volume)
}

// String returns the ID as people read it.
func (id ID) String() string {
	return fmt.Sprintf("%s/%d", id.Resource, id.Volume)
}

// Compare orders IDs by folded resource, then by number.
func (id ID) Compare(other ID) int {
	return cmp.Or(strings.Compare(strings.ToLower(id.Resource), strings.ToLower(other.Resource)), cmp.Compare(id.Volume, other.Volume))
}

// ParseName is the inverse of Name. It returns false for a name that Name cannot have made.
func ParseName(name string) (ID, bool) {
	i := len(name) - volumeDigits - 1
	if i < 1 || name[i] != '_' {
		return ID{}, false
	}
	id := ID{Resource: name[:i]}
	for _, c := range []byte(name[i+1:]) {
		if c < '0' || c > '9' {
			return ID{}, false
		}
		id.Volume = id.Volume*10 + int(c-'0')
	}
	if id.Validate() != nil || id.Name() != name {
		return ID{}, false
	}
	return id, true
}
