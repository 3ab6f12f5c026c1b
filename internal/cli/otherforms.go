// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"slices"

	"github.com/spf13/cobra"
)

// The linstor client has more than one form of some words. Those that are not shown by help are here.

// otherOption returns the option that another name of it means, or "".
func otherOption(name string) string {
	return map[string]string{
		"fr": "from-resource", "fs": "from-snapshot", "tr": "to-resource", "rsc-grp": "resource-group", "hrep": "hide-replication-states",
		"lib": "library", "ports": "show-preferred-drbd-ports", "prov": "providers", "default-storage-pool": "dflt",
	}[name]
}

// addOtherForms gives commands the short forms that they have as well.
func addOtherForms(root *cobra.Command) {
	for group, forms := range map[string]map[string]string{
		"resource-definition": {"clone": "cln"},
		"resource":            {"activate": "act", "deactivate": "deact"},
	} {
		at := child(root, group)
		if at == nil {
			continue
		}
		for name, form := range forms {
			if c := child(at, name); c != nil && !slices.Contains(c.Aliases, form) {
				c.Aliases = append(c.Aliases, form)
			}
		}
	}
}
