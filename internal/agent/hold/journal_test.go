// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package hold_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/holdfast-storage/holdfast/internal/agent/hold"
	"github.com/holdfast-storage/holdfast/internal/agent/mount"
)

func openFiles(tb testing.TB, dir, boot string) *hold.Files {
	tb.Helper()
	j, err := hold.OpenFiles(dir, boot)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := j.Close(); err != nil {
			tb.Error(err)
		}
	})
	return j
}

func records(ids ...string) []hold.Record {
	var rs []hold.Record
	for _, id := range ids {
		rs = append(rs, hold.Record{Type: hold.HoldAdded, Hold: &hold.Hold{ID: hold.ID(id), Pool: "p", Source: nas, Holder: req(id).Holder, Mode: hold.ReadWrite}})
	}
	return rs
}

func load(tb testing.TB, j *hold.Files) map[mount.Source]hold.Saved {
	tb.Helper()
	all, err := j.Load()
	if err != nil {
		tb.Fatal(err)
	}
	saved := map[mount.Source]hold.Saved{}
	for _, s := range all {
		saved[s.Source] = s
	}
	return saved
}

func TestJournalReturnsWhatWasWritten(t *testing.T) {
	dir := t.TempDir()
	j := openFiles(t, dir, "boot 1")
	entry := mount.Entry{Unique: 7, ID: 3, Target: "/x"}
	done := hold.Record{Type: hold.MountDone, Spec: &mount.Spec{Source: nas, Options: "soft"}, Entry: &entry, Identity: "1"}
	steps := []error{
		j.Append(nas, records("a"), true), j.Append(nas, records("b", "c"), false), j.Append(nas, []hold.Record{done}, true),
		j.Append(nas2, records("x"), true), j.Rewrite(nas2, nil), j.Append(nas2, records("y"), true), j.Rewrite(nas2, records("z")), j.Append(nas2, records("w"), false),
	}
	for i, err := range steps {
		if err != nil {
			t.Errorf("step %d: %v", i, err)
		}
	}
	want := map[mount.Source]hold.Saved{
		nas:  {Source: nas, Records: append(records("a", "b", "c"), done)},
		nas2: {Source: nas2, Records: records("z", "w")},
	}
	for range 2 { // A second process reads the same.
		if diff := cmp.Diff(want, load(t, openFiles(t, dir, "boot 1")), cmpopts.IgnoreFields(hold.Hold{}, "Created")); diff != "" {
			t.Error(diff)
		}
	}
	if saved := load(t, openFiles(t, dir, "boot 2")); len(saved) != 0 {
		t.Errorf("after a reboot there is %v", saved)
	}
}

func TestJournalOfACrash(t *testing.T) {
	cases := []struct {
		name    string
		change  func(text string) string
		ids     int
		damaged bool
	}{
		{"whole", func(s string) string { return s }, 3, false},
		{"a torn last line", func(s string) string { return s[:len(s)-5] }, 2, false},
		{"nothing of the last line but its beginning", func(s string) string { return s[:strings.LastIndex(s[:len(s)-1], "\n")+4] }, 2, false},
		{"a last line without its content", func(s string) string {
			at := strings.LastIndex(s[:len(s)-1], "\n") + 1
			return s[:at] + strings.Repeat("\x00", 10) + "\n"
		}, 2, false},
		{"a line in the middle changed", func(s string) string { return strings.Replace(s, `"b"`, `"B"`, 1) }, 1, true},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			j := openFiles(t, dir, "1")
			if err := j.Append(nas, records("a", "b", "c"), true); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(dir, nas.Key()+".journal")
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(tc.change(string(text))), 0o600); err != nil {
				t.Fatal(err)
			}
			j = openFiles(t, dir, "1")
			saved := load(t, j)[nas]
			if len(saved.Records) != tc.ids || (saved.Damaged != "") != tc.damaged {
				t.Errorf("%d records, damage %q", len(saved.Records), saved.Damaged)
			}
			if tc.damaged {
				return
			}
			if err := j.Append(nas, records("d"), true); err != nil {
				t.Fatal(err)
			}
			if saved = load(t, openFiles(t, dir, "1"))[nas]; len(saved.Records) != tc.ids+1 || saved.Damaged != "" {
				t.Errorf("%d records after another one, damage %q", len(saved.Records), saved.Damaged)
			}
		})
	}
}

func TestUnreadableJournalStopsTheStart(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, nas.Key()+".journal")
	if err := os.WriteFile(file, []byte("what is this\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openFiles(t, dir, "1").Load(); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("load: %v", err)
	}
}

func TestJournalDoesNotGrowForEver(t *testing.T) {
	dir := t.TempDir()
	j := openFiles(t, dir, "1")
	w := newWorld()
	p := w.process()
	set, err := hold.Open(hold.Config{Driver: p, Journal: j, Limits: quick()})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{world: w, Set: set, tb: t, p: p}
	r.get(pool, req("first"))
	for i := range 600 {
		id := fmt.Sprintf("h%d", i)
		r.get(pool, req(id))
		r.give(id)
	}
	st, err := os.Stat(filepath.Join(dir, nas.Key()+".journal"))
	if err != nil || st.Size() > 192<<10 {
		t.Errorf("the journal has %d bytes, %v", st.Size(), err)
	}
	r.give("first")
	r.stop()
}

func FuzzJournal(f *testing.F) {
	dir := f.TempDir()
	j := openFiles(f, dir, "1")
	if err := j.Append(nas, records("a", "b"), false); err != nil {
		f.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, nas.Key()+".journal"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add(text[:len(text)-3])
	f.Add([]byte("00000000 {}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, nas.Key()+".journal"), text, 0o600); err != nil {
			t.Fatal(err)
		}
		j := openFiles(t, dir, "1")
		all, err := j.Load()
		if err != nil || len(all) == 0 || all[0].Damaged != "" {
			return
		}
		// What was read can be added to, and is read the same with the addition.
		if err := j.Append(nas, records("z"), false); err != nil {
			t.Fatal(err)
		}
		again, err := openFiles(t, dir, "1").Load()
		if err != nil || len(again) != 1 || again[0].Damaged != "" || len(again[0].Records) != len(all[0].Records)+1 {
			t.Errorf("%d records become %v, %v", len(all[0].Records), again, err)
		}
	})
}
