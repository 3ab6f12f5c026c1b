// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package zfs_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/zfs"
	"github.com/holdfast-storage/holdfast/internal/command"
)

// recorded is what ZFS 2.1.11 printed, in the lab.
const recorded = `tank/hf	filesystem	6580467765688695807	16898048	855286784	0	off	-	-	24576	0	0	-	1796056279	-	-	-	-	-	-
tank/hf/other	filesystem	65804	24576	855286784	0	off	-	-	24576	0	0	-	1796056279	-	-	-	-	-	-
tank/hf/db_00000:gone:2759171616112986629	volume	2759171616112986629	16872448	872159232	-	off	67108864	16384	16872448	0	0	-	1796056280	none	-	-	gone	-	-
tank/hf/db_00000:gone:2759171616112986629@s1	snapshot	14037837848729042120	0	-	-	-	67108864	-	16872448	-	-	-	1796056290	-	tank/hf/c_00000	off	gone	finished	-
tank/hf/c_00000	volume	16448343911086236234	1024	855286784	-	off	67108864	16384	16872448	0	138412032	tank/hf/db_00000:gone:2759171616112986629@s1	1796056292	dev	-	-	finished	-	abc
tank/hf/other/db_00001	volume	1	1024	1	-	off	67108864	16384	1	0	0	-	1796056292	dev	-	-	finished	-	-
`

func TestRecordedListIsRead(t *testing.T) {
	r, err := zfs.ParseReport("tank/hf", recorded)
	if err != nil {
		t.Fatal(err)
	}
	if r.Root.Used != 16898048 || r.Root.Available != 855286784 || r.Root.GUID != "6580467765688695807" || r.Root.ReadOnly {
		t.Errorf("%+v", r.Root)
	}
	gone := "db_00000:gone:2759171616112986629"
	if len(r.Volumes) != 2 || r.Volumes[gone].State != "gone" || r.Volumes[gone].Open {
		t.Errorf("%+v", r.Volumes)
	}
	want := zfs.Row{
		Name: "c_00000", Type: "volume", GUID: "16448343911086236234", Used: 1024, Available: 855286784, Size: 64 << 20, Block: 16384, Referenced: 16872448,
		Reserved: 138412032, Origin: "tank/hf/" + gone + "@s1", Created: time.Unix(1796056292, 0), Open: true, State: "finished", RolledBack: "abc",
	}
	if diff := cmp.Diff(want, r.Volumes["c_00000"]); diff != "" {
		t.Error(diff)
	}
	snapshots := r.Snapshots[gone]
	if len(snapshots) != 1 || snapshots[0].Name != "s1" || snapshots[0].State != "finished" || len(snapshots[0].Clones) != 1 || snapshots[0].Deferred {
		t.Errorf("%+v", snapshots)
	}
}

func TestHalfAListIsAnError(t *testing.T) {
	for _, text := range []string{
		"", "tank/hf\tfilesystem\n", recorded[:len(recorded)/2], strings.ReplaceAll(recorded, "16898048", "-1"), strings.ReplaceAll(recorded, "67108864", "64M"),
		strings.Replace(recorded, "tank/hf\t", "tank/x\t", 1), strings.Replace(recorded, "\tfilesystem\t", "\tvolume\t", 1),
	} {
		if r, err := zfs.ParseReport("tank/hf", text); err == nil {
			t.Errorf("%.60q was read as %+v", text, r)
		}
	}
}

func FuzzParseReport(f *testing.F) {
	f.Add(recorded)
	f.Add(strings.ReplaceAll(recorded, "16384", "none"))
	f.Fuzz(func(t *testing.T, text string) {
		r, err := zfs.ParseReport("tank/hf", text)
		if err != nil {
			return
		}
		for name, row := range r.Volumes {
			if name == "" || strings.Contains(name, "/") || row.Size < 0 || row.Used < 0 {
				t.Fatalf("%q is %+v", name, row)
			}
		}
	})
}

func TestPlacesThatCannotBeDatasetsAreRefused(t *testing.T) {
	host := zfs.NewHost(tools(t))
	for _, c := range []zfs.Config{
		{Dataset: "tank", Host: host},
		{Name: "p", Dataset: "tank"},
		{Name: "p", Dataset: "", Host: host},
		{Name: "p", Dataset: "-tank", Host: host},
		{Name: "p", Dataset: "tank/", Host: host},
		{Name: "p", Dataset: "tank/a b", Host: host},
		{Name: "p", Dataset: "tank@s", Host: host},
		{Name: "p", Dataset: strings.Repeat("t", 101), Host: host},
		{Name: "p", Dataset: "tank", Host: host, Block: 1000},
		{Name: "p", Dataset: "tank", Host: host, Block: 1 << 20},
	} {
		if _, err := zfs.New(c); err == nil {
			t.Errorf("%+v was taken", c)
		}
	}
}

// TestVolumeThatALateProgramMadeIsTaken has a program that was given up on end at the worst moment.
func TestVolumeThatALateProgramMadeIsTaken(t *testing.T) {
	const root = "tank/hf\tfilesystem\t65\t0\t855286784\t0\toff\t-\t-\t24576\t0\t0\t-\t1796056279\t-\t-\t-\t-\t-\t-\n"
	for state, ok := range map[string]bool{"new": true, "finished": false, "-": false} {
		made := false
		host := zfs.NewHost(command.RunnerFunc(func(_ context.Context, c command.Command) (command.Result, error) {
			if c.Args[0] == "create" {
				made = true
				return command.Result{}, &command.Error{Kind: command.Exited, Code: 1, Program: "zfs", Stderr: "cannot create 'tank/hf/db_00000': dataset already exists"}
			}
			text := root
			if made {
				text += "tank/hf/db_00000\tvolume\t27\t0\t1\t-\toff\t67108864\t16384\t0\t0\t0\t-\t1796056280\tnone\t-\t-\t" + state + "\t-\t-\n"
			}
			return command.Result{Stdout: []byte(text)}, nil
		}))
		d, err := zfs.New(zfs.Config{Name: "p", Dataset: "tank/hf", Host: host})
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Create(t.Context(), pool.ID{Resource: "db"}, 64<<20); (err == nil) != ok {
			t.Errorf("a volume that is %s: %v", state, err)
		}
	}
}
