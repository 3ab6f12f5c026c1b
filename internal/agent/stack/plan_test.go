// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package stack_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/pooltest"
	"github.com/holdfast-storage/holdfast/internal/agent/stack"
)

const mib = pooltest.MiB

func TestPlan(t *testing.T) {
	volume := func(size, device int64, isNew bool) *pool.Volume {
		v := &pool.Volume{Size: size, Granularity: 4 * mib, New: isNew}
		if device > 0 {
			v.Device = pool.Device{Path: "/dev/x", Size: device}
		}
		return v
	}
	ext4 := &stack.Filesystem{Type: "ext4", MkfsParams: "-m 0"}
	wants := func(volumes ...stack.VolumeWant) stack.Want {
		for i := range volumes {
			volumes[i].Number, volumes[i].Pool = i, "p"
		}
		return stack.Want{Resource: "db", Volumes: volumes}
	}
	gone := func(w stack.Want) stack.Want { w.Destroy = true; return w }
	plain := stack.VolumeWant{Size: 10 * mib}
	formatted := stack.VolumeWant{Size: 10 * mib, Filesystem: ext4}
	users := []pool.Holder{{Kind: pool.Mounted, Name: "/mnt", PID: 7}}
	makeExt4 := "make ext4 on volume db/0: mkfs.ext4 -F -q -E nodiscard,lazy_itable_init=1 -m 0"

	for _, tc := range []struct {
		name  string
		want  stack.Want
		there []stack.There
		steps []string
	}{
		{"nothing wanted", wants(), nil, nil},
		{
			"absent", wants(plain),
			[]stack.There{{}},
			[]string{"create volume db/0 of 10485760 bytes in pool p", "open volume db/0 in pool p", "finish volume db/0 in pool p"},
		},
		{
			"absent, with a file system", wants(formatted),
			[]stack.There{{}},
			[]string{"create volume db/0 of 10485760 bytes in pool p", "open volume db/0 in pool p", makeExt4, "finish volume db/0 in pool p"},
		},
		{
			"left new", wants(formatted),
			[]stack.There{{Volume: volume(12*mib, 12*mib, true)}},
			[]string{"create volume db/0 of 10485760 bytes in pool p", "open volume db/0 in pool p", makeExt4, "finish volume db/0 in pool p"},
		},
		{
			"left new with another size", wants(plain),
			[]stack.There{{Volume: volume(40*mib, 0, true)}},
			[]string{"create volume db/0 of 10485760 bytes in pool p", "open volume db/0 in pool p", "finish volume db/0 in pool p"},
		},
		{"finished and open", wants(formatted), []stack.There{{Volume: volume(12*mib, 12*mib, false)}}, nil},
		{"finished, open and used", wants(formatted), []stack.There{{Volume: volume(12*mib, 12*mib, false), Holders: users}}, nil},
		{"finished and closed", wants(formatted), []stack.There{{Volume: volume(12*mib, 0, false)}}, []string{"open volume db/0 in pool p"}},
		{
			"too small", wants(formatted),
			[]stack.There{{Volume: volume(8*mib, 8*mib, false)}},
			[]string{"grow volume db/0 from 8388608 to 10485760 bytes in pool p"},
		},
		{
			"too small and closed", wants(plain),
			[]stack.There{{Volume: volume(8*mib, 0, false)}},
			[]string{"grow volume db/0 from 8388608 to 10485760 bytes in pool p", "open volume db/0 in pool p"},
		},
		{"device too small", wants(plain), []stack.There{{Volume: volume(12*mib, 8*mib, false)}}, []string{"open volume db/0 in pool p"}},
		{
			"too large, after all else", wants(plain, plain),
			[]stack.There{{Volume: volume(16*mib, 0, false)}, {}},
			[]string{
				"open volume db/0 in pool p", "create volume db/1 of 10485760 bytes in pool p", "open volume db/1 in pool p", "finish volume db/1 in pool p",
				"shrink volume db/0 from 16777216 to 10485760 bytes in pool p",
			},
		},
		{"destroy nothing", gone(wants(plain, plain)), []stack.There{{}, {}}, nil},
		{
			"destroy, one of them new and one absent", gone(wants(formatted, plain, plain)),
			[]stack.There{{Volume: volume(8*mib, 8*mib, true)}, {}, {Volume: volume(8*mib, 0, false)}},
			[]string{"close volume db/0 in pool p", "close volume db/2 in pool p", "remove volume db/0 in pool p", "remove volume db/2 in pool p"},
		},
		{
			"destroy what was lost", gone(wants(plain)),
			[]stack.There{{Volume: &pool.Volume{Size: mib, Granularity: mib, Lost: true, Device: pool.Device{Path: "/dev/x", Size: mib}}}},
			[]string{"remove volume db/0 in pool p"},
		},
		{"existed and does", wants(stack.VolumeWant{Size: mib, Existing: true}), []stack.There{{Volume: volume(4*mib, 4*mib, false)}}, nil},
		{
			"destroy one, keep the other", wants(stack.VolumeWant{Destroy: true}, plain),
			[]stack.There{{Volume: volume(8*mib, 0, false)}, {Volume: volume(12*mib, 12*mib, false), Holders: users}},
			[]string{"remove volume db/0 in pool p"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := stack.Plan(pooltest.NewMemory(pooltest.MemoryConfig{}), tc.want, tc.there)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.steps, got); diff != "" {
				t.Error(diff)
			}
		})
	}

	for _, tc := range []struct {
		name  string
		want  stack.Want
		there []stack.There
		text  string
	}{
		{
			"used", gone(wants(plain, plain)),
			[]stack.There{{Volume: volume(8*mib, 8*mib, false)}, {Volume: volume(8*mib, 8*mib, false), Holders: users}},
			"volume db/1 is in use: mounted at /mnt (seen by pid 7)",
		},
		{"one of many used", wants(plain, stack.VolumeWant{Destroy: true}), []stack.There{{}, {Volume: volume(8*mib, 8*mib, true), Holders: users}}, "volume db/1 is in use"},
		{"unknown file system", wants(stack.VolumeWant{Size: mib, Filesystem: &stack.Filesystem{Type: "ntfs"}}), []stack.There{{}}, "use ext4, xfs or btrfs"},
		{"bad option", wants(stack.VolumeWant{Size: mib, Filesystem: &stack.Filesystem{Type: "xfs", MkfsParams: "/dev/sda"}}), []stack.There{{}}, "is not an option"},
		{"existed and does not", wants(stack.VolumeWant{Size: mib, Existing: true}), []stack.There{{}}, "nobody was to remove it"},
		{"existed and is new", wants(stack.VolumeWant{Size: mib, Existing: true}), []stack.There{{Volume: volume(4*mib, 4*mib, true)}}, "nobody was to remove it"},
		{"lost", wants(plain), []stack.There{{Volume: &pool.Volume{Size: mib, Granularity: mib, Lost: true, Device: pool.Device{Path: "/dev/x", Size: mib}}}}, "/dev/x still has its content"},
		{"no size", wants(stack.VolumeWant{}), []stack.There{{}}, "give a size above zero"},
		{"named twice", stack.Want{Resource: "db", Volumes: []stack.VolumeWant{plain, plain}}, []stack.There{{}, {}}, "named twice"},
	} {
		t.Run("refused/"+tc.name, func(t *testing.T) {
			got, err := stack.Plan(pooltest.NewMemory(pooltest.MemoryConfig{}), tc.want, tc.there)
			if err == nil || len(got) > 0 || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("got %q, %v, want an error with %q", got, err, tc.text)
			}
		})
	}
}
