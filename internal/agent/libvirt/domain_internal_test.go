// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package libvirt

import "testing"

func FuzzParse(f *testing.F) {
	f.Add("<domain><name>a</name><devices><disk><source file='/a/b'/><backingStore><source file='/c'/></backingStore></disk></devices></domain>")
	f.Add("<domain")
	f.Fuzz(func(t *testing.T, text string) {
		name, uses, err := parse(text)
		if err == nil && name == "" {
			t.Error("a domain without a name was taken")
		}
		for _, u := range uses {
			if u.path == "" || u.path[0] != '/' {
				t.Errorf("path %q is not absolute", u.path)
			}
		}
	})
}
