// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package drbd_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/agent/drbd"
	"github.com/holdfast-storage/holdfast/internal/agent/drbd/config"
	"github.com/holdfast-storage/holdfast/internal/agent/drbd/drbdtest"
	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/command"
)

// dryRuns are the recorded answers of drbdadm to what it would do.
func dryRuns(tb testing.TB) []drbdtest.Block {
	tb.Helper()
	var blocks []drbdtest.Block
	for _, b := range drbdtest.Transcripts(tb) {
		words := strings.Fields(b.Line)
		if words[0] == "drbdadm" && slices.Contains(words, "-d") && (slices.Contains(words, "adjust") || slices.Contains(words, "up")) && b.Code == 0 && !strings.ContainsAny(b.Line, "|;") {
			blocks = append(blocks, b)
		}
	}
	return blocks
}

// TestEveryRecordedDryRunIsJudged: those that take something away are refused, all others are not.
func TestEveryRecordedDryRunIsJudged(t *testing.T) {
	w := &drbd.Want{
		Name: "r0", Volumes: []drbd.Volume{{Minor: 1000}, {Number: 1, Minor: 1001}},
		Peers: []config.Peer{{Name: "alpha"}, {Name: "bravo", NodeID: 1}, {Name: "charlie", NodeID: 2}},
	}
	refused, taken := 0, 0
	takes := regexp.MustCompile(`del-peer|del-minor|detach|new-minor r0 1048576`)
	for _, b := range dryRuns(t) {
		commands, err := drbd.ParseCommands(b.Stdout)
		if err != nil {
			t.Errorf("%s: %s: %v", b.File, b.Line, err)
			continue
		}
		err = drbd.Review(w, commands)
		if want := takes.MatchString(b.Stdout); want != (err != nil) {
			t.Errorf("%s: %s: %v for\n%s", b.File, b.Line, err, b.Stdout)
		}
		if err != nil {
			refused++
		} else {
			taken++
		}
	}
	if refused < 5 || taken < 15 {
		t.Errorf("%d refused and %d taken", refused, taken)
	}
}

// TestEveryRecordedRefusalIsUnderstood finds the kernel's number in all that drbdadm and drbdsetup said.
func TestEveryRecordedRefusalIsUnderstood(t *testing.T) {
	number := regexp.MustCompile(`(Failure|failed): \((-?\d+)\)`)
	seen := map[int]bool{}
	for _, b := range drbdtest.Transcripts(t) {
		m := number.FindStringSubmatch(b.Stderr)
		if m == nil || b.Code == 0 && !strings.Contains(b.Line, ";") {
			continue
		}
		want, _ := strconv.Atoi(m[2])
		seen[want] = true
		err := drbd.ErrorOf("r0", "do it", &command.Error{Kind: command.Exited, Program: "drbdsetup", Code: b.Code, Stderr: strings.TrimSpace(b.Stderr)})
		var e *drbd.KernelError
		if !errors.As(err, &e) || e.Code != want || e.Text == "" || strings.Contains(err.Error(), "Command '") {
			t.Errorf("%s: %s: %v", b.File, b.Line, err)
		}
		used := new(pool.InUseError)
		err = drbd.ForTheKernel(&drbd.Want{Name: "r0"}, func(int) int { return 0 }, err)
		if held := want == -12; held != errors.As(err, &used) {
			t.Errorf("%s: %s: %v", b.File, b.Line, err)
		} else if held && (len(used.Holders) == 0 || used.Holders[0].PID == 0) {
			t.Errorf("%s: %s: nobody is named: %v", b.File, b.Line, err)
		}
	}
	for _, code := range []int{-1, -2, -10, -12, -25, 102, 104, 119, 125, 127, 151, 158, 161, 162, 164, 165, 173} {
		if !seen[code] {
			t.Errorf("the transcripts have no refusal (%d)", code)
		}
	}
}

// TestFileThatWasCutOffIsReplaced: drbdadm takes a file without its last brace, and deletes what it does not name.
func TestFileThatWasCutOffIsReplaced(t *testing.T) {
	r := newRig(t)
	r.up()
	path := filepath.Join(r.cluster.Node("alpha").Folder, "r0.res")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	cut := text[:strings.LastIndex(string(text), "connection {")] // It parses, and has one peer.
	if err := os.WriteFile(path, cut, 0o600); err != nil {
		t.Fatal(err)
	}
	r.apply("alpha")
	if after, _ := os.ReadFile(path); string(after) != string(text) {
		t.Errorf("the file is\n%s", after)
	}
	if calls := r.cluster.Node("alpha").Calls(); len(calls) > 0 {
		t.Errorf("%v", calls)
	}
	if s := r.state("alpha"); len(s.Connections) != 2 {
		t.Errorf("%v", s)
	}
}

// TestGenerationThatWasNotSetIsNotBelieved: without a terminal set-gi says that it was cancelled, and ends with 0.
func TestGenerationThatWasNotSetIsNotBelieved(t *testing.T) {
	r := newRig(t)
	n := r.cluster.Node("alpha")
	n.Disk("/dev/mapper/new", 64*mib)
	n.Answer("drbdmeta --force 1009 v09 /dev/mapper/new internal set-gi --node-id 0 5A3C6E4F12345678:0:0:0:1:1:0:0:0:0", 1, "Operation canceled.\n", "", 0)
	v, m := drbd.Volume{Minor: 1009, Disk: "/dev/mapper/new"}, drbd.Metadata{Peers: room, Generation: "5A3C6E4F12345678"}
	err := r.nodes["alpha"].CreateMetadata(t.Context(), "r9", v, m)
	if wrong := new(drbd.MetadataError); !errors.As(err, &wrong) || wrong.Found != "0000000000000004" {
		t.Errorf("%v", err)
	}
	if err := r.nodes["alpha"].CreateMetadata(t.Context(), "r9", v, m); err != nil {
		t.Error(err)
	}
}

func FuzzParseCommands(f *testing.F) {
	for _, b := range dryRuns(f) {
		f.Add(b.Stdout)
	}
	f.Add(`drbdsetup new-peer r0 1 --shared-secret=a\"b\\c\ d '--x=y z'`)
	f.Fuzz(func(t *testing.T, text string) {
		commands, err := drbd.ParseCommands(text)
		if err != nil {
			return
		}
		for _, c := range commands {
			if c.Verb == "" || c.Program != "drbdsetup" && c.Program != "drbdmeta" {
				t.Errorf("%q gave %+v", text, c)
			}
		}
		_ = drbd.Review(&drbd.Want{Name: "r0"}, commands)
	})
}
