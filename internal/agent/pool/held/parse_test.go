// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package held_test

import (
	"errors"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/agent/hold"
	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/held"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func asFaulty(err error, fault **pool.FaultyError) bool { return errors.As(err, fault) }

func TestParse(t *testing.T) {
	type props = properties
	for name, tc := range map[string]struct {
		props  props
		device string
		folder string
		always bool
	}{
		"a pool of its own": {props: props{"StorDriver/StorPoolName": "/srv/pool"}},
		"NFS is the default": {
			props: props{"StorDriver/Mount/Source": "NAS1:/vol/a/"}, device: "nas1:/vol/a", folder: "holdfast/n1/fast",
		},
		"a folder": {
			props:  props{"StorDriver/Mount/Source": "nas1:/vol/a", "StorDriver/StorPoolName": "/vms/n1/"},
			device: "nas1:/vol/a", folder: "vms/n1",
		},
		"the root": {
			props:  props{"StorDriver/Mount/Source": "nas1:/vol/a", "StorDriver/StorPoolName": "/", "StorDriver/Mount/Residency": "Always"},
			device: "nas1:/vol/a", always: true,
		},
		"an older name of the folder": {
			props: props{"StorDriver/Mount/Type": "block", "StorDriver/Mount/Source": "/dev/vdb", "StorDriver/FileDir": "x"}, device: "/dev/vdb", folder: "x",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, ok, err := held.Parse("Fast", "N1", tc.props.full)
			if err != nil || ok != (tc.device != "") {
				t.Fatalf("got %v, %v", ok, err)
			}
			if ok && (s.Pool.Spec.Source.Device() != tc.device || s.Folder != tc.folder || (s.Pool.Residency == hold.Always) != tc.always) {
				t.Errorf("got %+v", s)
			}
		})
	}
	for name, p := range map[string]props{
		"options without a source": {"StorDriver/Mount/Options": "vers=3"},
		"no export":                {"StorDriver/Mount/Source": "nas1"},
		"an unknown kind":          {"StorDriver/Mount/Source": "nas1:/a", "StorDriver/Mount/Type": "smb"},
		"a bad option":             {"StorDriver/Mount/Source": "nas1:/a", "StorDriver/Mount/Options": "bg"},
		"a folder outside":         {"StorDriver/Mount/Source": "nas1:/a", "StorDriver/StorPoolName": "../b"},
		"an unknown residency":     {"StorDriver/Mount/Source": "nas1:/a", "StorDriver/Mount/Residency": "never"},
		"no device":                {"StorDriver/Mount/Source": "/srv", "StorDriver/Mount/Type": "block"},
	} {
		if s, _, err := held.Parse("fast", "n1", p.full); err == nil {
			t.Errorf("%s was taken: %+v", name, s)
		}
	}
}

// full looks a key up as it is.
func (p properties) full(key string) (string, bool) {
	v, ok := p[key]
	return v, ok
}
