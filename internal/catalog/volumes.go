// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// volumeNumber returns the number asked for, or the lowest that is not taken.
func volumeNumber(object errs.Object, asked *int32, taken func(model.VolumeNumber) bool) (model.VolumeNumber, error) {
	if asked != nil {
		nr := model.VolumeNumber(*asked)
		if nr < 0 || nr > model.MaxVolumeNumber {
			return 0, errs.New(errs.Invalid, object, "the volume number %d is not possible", nr).About(errs.VolumeNumber).
				Fix("use a number from 0 to %d", model.MaxVolumeNumber)
		}
		return nr, nil
	}
	for nr := model.VolumeNumber(0); nr <= model.MaxVolumeNumber; nr++ {
		if !taken(nr) {
			return nr, nil
		}
	}
	return 0, errs.New(errs.Exhausted, object, "there is no free volume number").About(errs.VolumeNumber).
		Because("all of 0 to %d are used", model.MaxVolumeNumber)
}

// Encrypted is the flag of a volume definition whose volumes must lie encrypted in their pools.
const Encrypted = "ENCRYPTED"

// knownFlags are the flags that a client may give a volume definition.
func knownFlags() []string { return []string{Encrypted, "GROSS_SIZE"} }

// changeFlags returns flags after the edits: a name sets the flag, "-name" clears it.
func changeFlags(object errs.Object, flags, edits []string) ([]string, error) {
	out := slices.Clone(flags)
	for _, e := range edits {
		name, clear := strings.CutPrefix(strings.ToUpper(e), "-")
		if !slices.Contains(knownFlags(), name) {
			return nil, errs.New(errs.Invalid, object, "the flag %q is not known", e).About(errs.Flag).
				Fix("use some of %s, each with '-' before it to clear it", strings.Join(knownFlags(), ", "))
		}
		out = slices.DeleteFunc(out, func(f string) bool { return f == name })
		if !clear {
			out = append(out, name)
		}
	}
	return out, nil
}

// NewVolume is a volume definition to add.
type NewVolume struct {
	Number *int32 // nil: the lowest free one
	Size   int64  // usable bytes
	Props  model.Props
	Flags  []string
	Minor  *int32 // nil: chosen when a replica needs one
	Key    []byte // sealed; nil: made when a replica needs one
	UUID   string
}

// MaxVolumes is the most volumes that a definition can have, so that a definition with all its
// volumes always fits into one transaction.
const MaxVolumes = 64

// AddVolume inserts a volume definition in a transaction: the one door for all of them.
func AddVolume(tx *store.Tx, d *schema.Definition, n NewVolume) (schema.VolumeDefinition, error) {
	v := schema.VolumeDefinition{
		Definition: d.Name.Key(), UUID: n.UUID, Size: n.Size, Props: n.Props, Minor: n.Minor, Key: n.Key,
	}
	if err := model.CheckVolumeSize(n.Size); err != nil {
		return v, err
	}
	count := 0
	for range schema.VolumesOf(tx, v.Definition) {
		count++
	}
	if count >= MaxVolumes {
		return v, errs.New(errs.Exhausted, errs.VolumeDefinition, "resource definition %s takes no more volumes", d.Name).
			About(errs.VolumeNumber).Because("it has %d, the most that is possible", count)
	}
	var err error
	if v.Flags, err = changeFlags(errs.VolumeDefinition, nil, n.Flags); err != nil {
		return v, err
	}
	if v.Number, err = volumeNumber(errs.VolumeDefinition, n.Number, func(nr model.VolumeNumber) bool {
		_, taken := schema.VolumeDefinitions.Get(tx, model.VolumeDefinitionID{Definition: v.Definition, Number: nr})
		return taken
	}); err != nil {
		return v, err
	}
	return v, schema.VolumeDefinitions.Insert(tx, v)
}

// ChangeFlags applies edits to the flags of a volume definition.
func ChangeFlags(v *schema.VolumeDefinition, edits []string) error {
	flags, err := changeFlags(errs.VolumeDefinition, v.Flags, edits)
	if err != nil {
		return err
	}
	v.Flags = flags
	return nil
}
