// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
)

// storPoolName is the property that names the place of a pool, whatever its provider.
const storPoolName = "StorDriver/StorPoolName"

// Place returns where on the host a pool lies, as its properties say: a directory, a volume
// group with its thin pool, or a dataset. It is an Invalid error when they do not say it.
func Place(p Pool) (string, error) {
	keys := append([]string{storPoolName}, oldPlaces(p.Provider)...)
	for _, k := range keys {
		if place, ok := p.Props.Get(k); ok && place != "" {
			return place, nil
		}
	}
	return "", errs.New(errs.Invalid, errs.StoragePool, "storage pool %s of provider %s does not say where it lies", p.Name, p.Provider).
		About(errs.Property).Fix("set its property %s", storPoolName)
}

// oldPlaces are the properties that older clients name the place by.
func oldPlaces(p model.Provider) []string {
	switch p {
	case model.File, model.FileThin:
		return []string{"StorDriver/FileDir"}
	case model.LVM, model.LVMThin:
		return []string{"StorDriver/LvmVg"}
	case model.ZFS:
		return []string{"StorDriver/ZPool"}
	case model.ZFSThin:
		return []string{"StorDriver/ZPoolThin"}
	case model.Diskless:
	}
	return nil
}
