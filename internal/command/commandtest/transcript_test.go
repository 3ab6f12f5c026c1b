// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package commandtest_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-storage/holdfast/internal/command"
	"github.com/holdfast-storage/holdfast/internal/command/commandtest"
)

const recorded = `# What a volume group says before and after.
$ lvs --units b 'vg 0'
> LV   Size
>
> a_00000  1024
$ lvs --units b 'vg 0'
! not found
= 5
`

func TestReplayAnswersInOrderAndRepeatsTheLast(t *testing.T) {
	r := commandtest.Replay(t, recorded)
	c := command.Command{Program: "lvs", Args: []string{"--units", "b", "vg 0"}}
	res, err := r.Run(t.Context(), c)
	if err != nil || string(res.Stdout) != "LV   Size\n\na_00000  1024\n" {
		t.Errorf("first: %q, %v", res.Stdout, err)
	}
	for range 2 {
		_, err = r.Run(t.Context(), c)
		var failed *command.Error
		if !errors.As(err, &failed) || failed.Code != 5 || failed.Stderr != "not found" {
			t.Errorf("later: %v", err)
		}
	}
	if diff := cmp.Diff([]string{"lvs --units b 'vg 0'", "lvs --units b 'vg 0'", "lvs --units b 'vg 0'"}, r.Calls()); diff != "" {
		t.Error(diff)
	}
}

func TestRecordedTranscriptReplaysTheSame(t *testing.T) {
	calls := []command.Command{
		{Program: "sh", Args: []string{"-c", "echo it\\'s; echo; echo err >&2; exit 7"}},
		{Program: "sh", Args: []string{"-c", "", "hush"}, Secret: []int{2}},
	}
	rec := commandtest.Record(&command.Exec{})
	replay := func(r command.Runner) (out []string) {
		for _, c := range calls {
			res, err := r.Run(t.Context(), c)
			text := "ok"
			if failed, ok := errors.AsType[*command.Error](err); ok {
				failed.Duration = 0
				text = failed.Error()
			}
			out = append(out, string(res.Stdout), string(res.Stderr), text)
		}
		return out
	}
	first := replay(rec)
	if diff := cmp.Diff(first, replay(commandtest.Replay(t, rec.Transcript()))); diff != "" {
		t.Errorf("%s\ntranscript:\n%s", diff, rec.Transcript())
	}
}

func TestParseRefusesWhatIsNotATranscript(t *testing.T) {
	for _, text := range []string{"> output first", "$ a\n= many", "$ a\n= 256", "$ a\nstray"} {
		if _, err := commandtest.Parse(text); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(recorded)
	f.Add("$\n>\n!\n= 0\n")
	f.Fuzz(func(t *testing.T, text string) {
		entries, err := commandtest.Parse(text)
		if err != nil {
			return
		}
		again, err := commandtest.Parse(commandtest.Format(entries))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(entries, again); diff != "" {
			t.Error(diff)
		}
	})
}
