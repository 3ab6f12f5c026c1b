// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package lvm_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/lvm"
)

// recorded is what LVM 2.03.16 and Linux 6.1 printed, in the lab.
func recorded(tb testing.TB, name string) []byte {
	tb.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		tb.Fatal(err)
	}
	return text
}

func TestRecordedReportIsRead(t *testing.T) {
	r, err := lvm.ParseReport(recorded(t, "report-volumes.json"))
	if err != nil {
		t.Fatal(err)
	}
	group := lvm.Group{Name: "vg", UUID: "5xkUtg-RvmB-1i90-hyv7-1cr1-4hzO-8rA3UF", Size: 1071644672, Free: 979369984, Extent: 65536, Writable: true}
	if diff := cmp.Diff(group, r.Group); diff != "" {
		t.Error(diff)
	}
	if len(r.Volumes) != 6 {
		t.Errorf("%d volumes", len(r.Volumes))
	}
	for _, want := range []lvm.Volume{
		{
			Name: "db_00000", UUID: "bc1xvb-Ch7Z-FuFg-Rg1P-iZr3-NFD3-APkUdk", Kind: 'V', Size: 1 << 30, Tags: []string{"holdfast", "holdfast.rolled=a=3ab"}, Pool: "tp",
			Created: time.Unix(1796056947, 0), Active: true, Stripes: 1, ThinID: 1,
		},
		{
			Name: "db_00000.daily", UUID: "cN5CE9-ycGZ-w2ch-vjcb-Drjv-4a5p-wKpwAS", Kind: 'V', Size: 1 << 30, Tags: []string{"holdfast", "holdfast.new"}, Pool: "tp",
			Origin: "db_00000", Created: time.Unix(1796056957, 0), Stripes: 1, ThinID: 2,
		},
		{
			Name: "db_00001", UUID: "Dy69Id-Fz31-azjr-LqDU-25kl-E46U-liPJql", Kind: '-', Size: 20 << 20, Tags: []string{"holdfast"},
			Created: time.Unix(1796056914, 0), Active: true, Stripes: 2,
		},
	} {
		if diff := cmp.Diff(want, r.Volumes[want.Name]); diff != "" {
			t.Error(diff)
		}
	}
	full, err := lvm.ParseReport(recorded(t, "report-full.json"))
	if err != nil || full.Volumes["tp"].Health != "out_of_data" {
		t.Errorf("%+v, %v", full.Volumes["tp"], err)
	}
	if empty, err := lvm.ParseReport(recorded(t, "report-empty.json")); err != nil || len(empty.Volumes) != 0 {
		t.Errorf("%+v, %v", empty, err)
	}
}

func TestRecordedStatusIsRead(t *testing.T) {
	taken, pools, err := lvm.ParseStatus(string(recorded(t, "status-volumes.txt")))
	if err != nil || len(taken) != 1 || taken["vg-db_00000"] != 10<<20 {
		t.Errorf("taken %v, %v", taken, err)
	}
	if diff := cmp.Diff(map[string]lvm.Fill{"vg-tp-tpool": {UsedMeta: 61, TotalMeta: 512, Used: 160, Total: 512, Mode: "rw"}}, pools); diff != "" {
		t.Error(diff)
	}
	_, pools, err = lvm.ParseStatus(string(recorded(t, "status-full.txt")))
	if fill := pools["vg-tp-tpool"]; err != nil || fill.Used != fill.Total || fill.Mode != "out_of_data_space" {
		t.Errorf("%+v, %v", fill, err)
	}
	_, pools, err = lvm.ParseStatus("a-b: 0 1 thin-pool Fail\nc: 0 1 thin Fail\nd: 0 8 thin-pool 1 2/3 4/5 - ro no_discard_passdown queue_if_no_space needs_check 64\n")
	if err != nil || pools["a-b"].Mode != "Fail" || !pools["d"].NeedsCheck || pools["d"].Mode != "ro" {
		t.Errorf("%+v, %v", pools, err)
	}
}

func TestHalfAReportIsAnError(t *testing.T) {
	whole := recorded(t, "report-volumes.json")
	for _, text := range []string{
		"", "{}", `{"report":[]}`, `{"report":[{"vg":[]}]}`, string(whole[:len(whole)/2]),
		strings.ReplaceAll(string(whole), `"1073741824"`, `"-1"`), strings.ReplaceAll(string(whole), `"1073741824"`, `"1.5"`),
		strings.ReplaceAll(string(whole), `"vg_extent_size":"65536"`, `"vg_extent_size":"0"`),
	} {
		if r, err := lvm.ParseReport([]byte(text)); err == nil {
			t.Errorf("%.40q was read as %+v", text, r)
		}
	}
	for _, text := range []string{"p: 0 1 thin-pool 1 2/1 1/1 - rw x\n", "p: 0 1 thin-pool 1 2 1/1 - rw x\n", "v: 0 1 thin x\n", "p: 0 1 thin-pool 1 0/0 1/1 - rw\n"} {
		if taken, pools, err := lvm.ParseStatus(text); err == nil {
			t.Errorf("%q was read as %v, %v", text, taken, pools)
		}
	}
}

func FuzzParseReport(f *testing.F) {
	for _, name := range []string{"report-empty.json", "report-volumes.json", "report-full.json"} {
		f.Add(recorded(f, name))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := lvm.ParseReport(text)
		if err != nil {
			return
		}
		if r.Group.Extent <= 0 || r.Group.Size < 0 || r.Group.Free < 0 {
			t.Fatalf("%+v", r.Group)
		}
		for name, v := range r.Volumes {
			if name == "" || name != v.Name || v.Size < 0 || v.Stripes < 1 {
				t.Fatalf("%q is %+v", name, v)
			}
		}
	})
}

func FuzzParseStatus(f *testing.F) {
	f.Add(string(recorded(f, "status-volumes.txt")))
	f.Add(string(recorded(f, "status-full.txt")))
	f.Add("a: 0 1 thin-pool Fail\n")
	f.Fuzz(func(t *testing.T, text string) {
		taken, pools, err := lvm.ParseStatus(text)
		if err != nil {
			return
		}
		for name, bytes := range taken {
			if bytes < 0 {
				t.Fatalf("%s takes %d", name, bytes)
			}
		}
		for name, fill := range pools {
			if fill.Used > fill.Total || fill.Used < 0 || fill.UsedMeta > fill.TotalMeta {
				t.Fatalf("%s is %+v", name, fill)
			}
		}
	})
}

// lvmAdmits is the rule of LVM for names of logical volumes.
func lvmAdmits(name string) bool {
	if !regexp.MustCompile(`^[a-zA-Z0-9+_.][a-zA-Z0-9+_.-]{0,126}$`).MatchString(name) || name == "." || name == ".." {
		return false
	}
	if strings.HasPrefix(name, "snapshot") || strings.HasPrefix(name, "pvmove") {
		return false
	}
	for _, part := range []string{"_cdata", "_cmeta", "_corig", "_mimage", "_mlog", "_pmspare", "_rimage", "_rmeta", "_tdata", "_tmeta", "_vdata", "_vorigin", "_imeta", "_iorig", "_cvol", "_wcorig"} {
		if strings.Contains(name, part) {
			return false
		}
	}
	return true
}

func TestNamesAreAdmittedAndReadBack(t *testing.T) {
	word := rapid.OneOf(
		rapid.StringMatching(`[A-Za-z_][A-Za-z0-9_-]{0,47}`),
		rapid.SampledFrom([]string{"snapshot", "snapshot-1", "pvmove0", "db_tmeta", "a_tdata_rimage", "x_00000", "_mlog", "_", "db__cvol"}),
	)
	rapid.Check(t, func(t *rapid.T) {
		id := pool.ID{Resource: word.Draw(t, "resource"), Volume: rapid.IntRange(0, 65534).Draw(t, "volume")}
		name := lvm.VolumeName(id)
		if back, ok := lvm.ParseVolume(name); !lvmAdmits(name) || !ok || back != id.Fold() {
			t.Fatalf("%s is called %q, which is %s, %t", id, name, back, ok)
		}
		sid := pool.SnapshotID{Resource: id.Resource, Volume: id.Volume, Snapshot: word.Draw(t, "snapshot")}
		name = lvm.SnapshotName(sid)
		if back, ok := lvm.ParseSnapshot(name); !lvmAdmits(name) || !ok || back != sid.Fold() {
			t.Fatalf("%s is called %q, which is %s, %t", sid, name, back, ok)
		}
		if back, ok := lvm.ParseVolume(name); ok {
			t.Fatalf("snapshot %s is taken for volume %s", sid, back)
		}
	})
}

func TestTokensAreReadBackFromTags(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		token := rapid.StringMatching(`[!-~]{1,128}`).Draw(t, "token")
		tag := lvm.RolledTag(token)
		if !regexp.MustCompile(`^[A-Za-z0-9_+.=-]+$`).MatchString(tag) || len(tag) > 1024 {
			t.Fatalf("%q is no tag", tag)
		}
		if back := lvm.RolledToken([]string{"holdfast", tag}); back != token {
			t.Fatalf("%q became %q, which is %q", token, tag, back)
		}
	})
}

func FuzzParseNames(f *testing.F) {
	for _, seed := range []string{"db_00000", "+snapshot_00000", "db_+tmeta_00000", "db_00000.s", "db_00000+roll", "db+_00000", "db_00000.s.t", "++x_00000"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if id, ok := lvm.ParseVolume(name); ok && (id.Validate() != nil || lvm.VolumeName(id) != name) {
			t.Fatalf("%q is %s", name, id)
		}
		if id, ok := lvm.ParseSnapshot(name); ok && (id.Validate() != nil || lvm.SnapshotName(id) != name) {
			t.Fatalf("%q is %s", name, id)
		}
	})
}

func TestHolderOfALockIsFound(t *testing.T) {
	const text = "1: FLOCK  ADVISORY  WRITE 267 00:17:358 0 EOF\n1: -> FLOCK  ADVISORY  WRITE 300 00:17:358 0 EOF\n2: POSIX  ADVISORY  WRITE 203 00:17:235 0 EOF\n"
	if pid := lvm.HolderOf(text, 0, 0x17, 358); pid != 267 {
		t.Errorf("held by %d", pid)
	}
	if pid := lvm.HolderOf(text, 0, 0x17, 1); pid != 0 {
		t.Errorf("held by %d", pid)
	}
}

func TestWhatKilledProgramsLeftOfTheGroupIsFoundFromBelow(t *testing.T) {
	sys := t.TempDir()
	for dir, files := range map[string][4]string{
		"dm-2":  {"vg-tp-tpool", "LVM-abc-tpool", "1", ""},
		"dm-10": {"vg-db_00000", "LVM-abc", "1", ""},
		"dm-3":  {"vg-db_00001", "LVM-abc", "0", ""},
		"dm-4":  {"vg--x-db_00000", "LVM-abc", "1", ""}, // Of the group vg-x.
		"dm-5":  {"vg-crypt", "CRYPT-LUKS2-abc", "1", ""},
		"dm-6":  {"other-db_00000", "LVM-abc", "1", ""},
		"dm-0":  {"vg-tp_tmeta", "LVM-abc-tmeta", "0", "dm-2"},
		"dm-7":  {"vg-other_tmeta", "LVM-abc-tmeta", "0", ""},
		"dm-8":  {"vg-other_tdata", "LVM-abc-tdata", "1", ""},
		"dm-9":  {"vg-theirs_tmeta", "LVM-abc-tmeta", "0", ""}, // Of a thin pool that is not ours.
	} {
		at := filepath.Join(sys, "block", dir)
		must(t, os.MkdirAll(filepath.Join(at, "dm"), 0o700))
		must(t, os.MkdirAll(filepath.Join(at, "holders", files[3]), 0o700))
		for i, name := range []string{"name", "uuid", "suspended"} {
			must(t, os.WriteFile(filepath.Join(at, "dm", name), []byte(files[i]+"\n"), 0o600))
		}
	}
	stopped, stray, err := lvm.Leftovers(sys, "vg", []string{"tp", "other"})
	must(t, err)
	if diff := cmp.Diff([]string{"vg-tp-tpool", "vg-other_tdata", "vg-db_00000"}, stopped); diff != "" {
		t.Errorf("suspended: %s", diff)
	}
	if diff := cmp.Diff([]string{"vg-other_tmeta", "vg-other_tdata"}, stray); diff != "" {
		t.Errorf("stray: %s", diff)
	}
}
