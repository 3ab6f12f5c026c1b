// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"strings"

	"github.com/holdfast-storage/holdfast/internal/errs"
)

// maxBackendName is how long the name of a volume group, thin pool or zpool may be, so that there is room for names of volumes
// behind it, in bytes.
const maxBackendName = 100

// maxMappedName is the most bytes of a name in the kernel's device mapper.
const maxMappedName = 127

// CheckBackend refuses a name that a backend of some provider cannot have: of the volume group for LVM, of the group and the
// thin pool with a slash in between for LVM_THIN, of the zpool for ZFS and ZFS_THIN. The error is an *errs.Error of the kind
// Invalid.
func CheckBackend(p Provider, name string) error {
	var why string
	switch p {
	case LVM:
		why = unfitGroup(name)
	case LVMThin:
		group, thin, _ := strings.Cut(name, "/")
		if why = unfitGroup(group); why == "" {
			why = unfitThinPool(group, thin)
		}
	case ZFS, ZFSThin:
		why = unfitZpool(name)
	default:
		why = "nothing is made for this provider"
	}
	if why == "" {
		return nil
	}
	return errs.New(errs.Invalid, errs.StoragePool, "the name %q is not possible for a backend of the provider %s", name, p).
		About(errs.Name).Because("%s", why).Fix("choose another")
}

// plainStart tells whether a name consists of letters, digits and some other characters, and begins with a letter or a digit.
func plainStart(name, others string) bool {
	plain := func(r rune) bool { return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' }
	return name != "" && plain(rune(name[0])) &&
		!strings.ContainsFunc(name, func(r rune) bool { return !plain(r) && !strings.ContainsRune(others, r) })
}

// mapped is a name as the device mapper has it, where one hyphen has a meaning.
func mapped(name string) string { return strings.ReplaceAll(name, "-", "--") }

func unfitGroup(name string) string {
	switch {
	case !plainStart(name, "_-.+"):
		return "volume groups and thin pools are named with letters, digits and _ - . +, and begin with a letter or a digit"
	case len(mapped(name)) > maxBackendName:
		return "with each hyphen counted twice, it is longer than 100 characters"
	}
	return ""
}

// unfitThinPool says why a thin pool cannot have a name in a group, or nothing: LVM has names of its own for parts of volumes.
func unfitThinPool(group, name string) string {
	if why := unfitGroup(name); why != "" {
		return why
	}
	for _, start := range []string{"snapshot", "pvmove"} {
		if strings.HasPrefix(name, start) {
			return "LVM keeps names that begin with " + start + " for itself"
		}
	}
	for _, part := range []string{
		"cdata", "cmeta", "corig", "cpool", "cvol", "wcorig", "mimage", "mlog", "rimage", "rmeta", "tdata", "tmeta", "tpool", "vdata", "vorigin",
		"vpool", "imeta", "iorig", "pmspare",
	} {
		if strings.Contains(name, "_"+part) {
			return "LVM keeps names with _" + part + " for itself"
		}
	}
	if len(mapped(group)+"-"+mapped(name)+"_tdata") > maxMappedName {
		return "together with that of its volume group, with each hyphen counted twice, it is longer than the kernel admits"
	}
	return ""
}

// unfitZpool says why a zpool cannot have a name, or nothing.
func unfitZpool(name string) string {
	switch {
	case !plainStart(name, "_-.:") || '0' <= name[0] && name[0] <= '9':
		return "zpools are named with letters, digits and _ - . :, and begin with a letter"
	case len(name) > maxBackendName:
		return "it is longer than 100 characters"
	case name == "log" || len(name) > 1 && name[0] == 'c' && '0' <= name[1] && name[1] <= '9':
		return "ZFS keeps it for itself"
	}
	for _, start := range []string{"mirror", "raidz", "draid", "spare"} {
		if strings.HasPrefix(name, start) {
			return "ZFS keeps names that begin with " + start + " for itself"
		}
	}
	return ""
}
