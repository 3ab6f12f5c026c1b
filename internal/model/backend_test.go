// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package model_test

import (
	"strings"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
)

func TestNamesThatABackendCannotHaveAreRefused(t *testing.T) {
	long := strings.Repeat("a", 100)
	for _, c := range []struct {
		provider model.Provider
		name     string
		ok       bool
	}{
		{model.LVM, "vg0", true},
		{model.LVM, "0_-.+", true},
		{model.LVM, long, true},
		{model.LVM, long + "a", false},
		{model.LVM, strings.Repeat("a-", 40), false}, // The kernel doubles hyphens.
		{model.LVM, "", false},
		{model.LVM, "-f", false},
		{model.LVM, ".", false},
		{model.LVM, "a/b", false},
		{model.LVM, "a:b", false},
		{model.LVM, "größe", false},
		{model.LVM, "a\nb", false},
		{model.LVMThin, "linstor_fast/fast", true},
		{model.LVMThin, "vg/thin-1", true},
		{model.LVMThin, "vg", false},
		{model.LVMThin, "vg/a/b", false},
		{model.LVMThin, "vg/snapshot1", false},
		{model.LVMThin, "vg/pvmove", false},
		{model.LVMThin, "vg/x_tmeta", false},
		{model.LVMThin, "snapshot/thin", true}, // A group may have that name.
		{model.LVMThin, "linstor_" + strings.Repeat("a", 60) + "/" + strings.Repeat("a", 60), false},
		{model.ZFS, "tank", true},
		{model.ZFSThin, "linstor_sda", true},
		{model.ZFS, "tank:a.b-c_d", true},
		{model.ZFS, "0tank", false},
		{model.ZFS, "tank+", false},
		{model.ZFS, "tank/hf", false},
		{model.ZFS, "mirror1", false},
		{model.ZFS, "raidz", false},
		{model.ZFS, "log", false},
		{model.ZFS, "logs", true},
		{model.ZFS, "c0t0", false},
		{model.ZFS, "cat", true},
		{model.ZFS, "c", true},
		{model.ZFS, long + "a", false},
		{model.File, "vg0", false},
	} {
		err := model.CheckBackend(c.provider, c.name)
		if c.ok != (err == nil) {
			t.Errorf("%s %q: %v", c.provider, c.name, err)
		}
		if e := errs.As(err); err != nil && (e == nil || e.Kind != errs.Invalid || e.Attr != errs.Name || e.Cause == "") {
			t.Errorf("%s %q: %v", c.provider, c.name, err)
		}
	}
}
