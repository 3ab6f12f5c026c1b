// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package drbd_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent/drbd"
	"github.com/holdfast-storage/holdfast/internal/agent/drbd/drbdtest"
	"github.com/holdfast-storage/holdfast/internal/agent/drbd/kernel"
	"github.com/holdfast-storage/holdfast/internal/command"
)

// program puts a drbdsetup of a few lines of shell before all others.
func program(t *testing.T, text string) *command.Exec {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "drbdsetup"), []byte("#!/bin/sh\n"+text), 0o700); err != nil {
		t.Fatal(err)
	}
	return &command.Exec{Path: dir + ":/usr/bin:/bin"}
}

// recordedStream returns what one host saw in a transcript.
func recordedStream(t *testing.T, file, host string) string {
	t.Helper()
	for _, b := range drbdtest.Transcripts(t) {
		if b.File == file && b.Host == host && b.Stream {
			return b.Stdout
		}
	}
	t.Fatalf("%s has no stream of %s", file, host)
	return ""
}

// watch runs a Watcher and returns the names that it calls, until the test ends.
func watch(t *testing.T, w *drbd.Watcher) <-chan string {
	t.Helper()
	names := make(chan string, 1000)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.Watch(ctx, func(name string) { names <- name })
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return names
}

// until waits for a state of r0.
func until(t *testing.T, w *drbd.Watcher, names <-chan string, is func(kernel.Resource) bool) {
	t.Helper()
	for {
		select {
		case name := <-names:
			if r, ok := w.Resource(name); ok && is(r) {
				return
			}
		case <-time.After(20 * time.Second):
			r, _ := w.Resource("r0")
			t.Fatalf("it never came to be: %v", r)
		}
	}
}

func TestWatcherTellsOfChangesWhileTheStreamGoesOn(t *testing.T) {
	dir := t.TempDir()
	events := filepath.Join(dir, "events")
	if err := os.WriteFile(events, []byte(recordedStream(t, "01-create-up-first-sync.txt", "bravo")), 0o600); err != nil {
		t.Fatal(err)
	}
	w := &drbd.Watcher{Runner: program(t, `[ "$*" = "events2 --timestamps --statistics" ] && cat `+events+` && exec sleep 1000`)}
	names := watch(t, w)
	until(t, w, names, func(r kernel.Resource) bool {
		return len(r.Devices) == 1 && r.Devices[0].Disk == kernel.UpToDate && r.MayPromote != nil && *r.MayPromote
	})
	if !w.Alive() {
		t.Error("a stream that goes on is not alive")
	}
}

func TestWatcherBeginsAnewWhenAStreamBreaks(t *testing.T) {
	dir := t.TempDir()
	// The first stream ends in the midst of a line, the second has what no version prints, the third goes on.
	script := `cd ` + dir + `
n=$(($(cat n 2>/dev/null || echo 0) + 1)); echo $n >n
echo "exists resource name:r0 role:Secondary suspended:no"
echo "exists device name:r0 volume:0 minor:1000 disk:UpToDate size:$n"
echo "exists -"
case $n in 1) printf 'change reso' ;; 2) echo 'perhaps resource name:r0'; exec sleep 1000 ;; *) exec sleep 1000 ;; esac`
	w := &drbd.Watcher{Runner: program(t, script), Retry: time.Millisecond}
	names := watch(t, w)
	until(t, w, names, func(r kernel.Resource) bool { return r.Devices[0].Size == 3<<10 })
}

func TestWatcherKnowsNothingWithoutAStream(t *testing.T) {
	w := &drbd.Watcher{Runner: program(t, `echo "exists resource name:r0 role:Secondary"; exec sleep 1000`)}
	watch(t, w)
	if _, ok := w.Resource("r0"); ok || w.Alive() {
		t.Error("it knows a resource before the beginning was told whole")
	}
}

// TestGuardResumesWhenNobodyElseDoes runs the guard to its end.
func TestGuardResumesWhenNobodyElseDoes(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	exec := program(t, `echo "$*" >>`+log+`
case "$1" in status) echo '[{"name":"r0","node-id":0,"role":"Primary","suspended-user":true}]' ;; esac`)
	d := drbd.New(drbd.Settings{Runner: exec, Notes: filepath.Join(dir, "notes")})
	s := kernel.Resource{Name: "r0", Devices: []kernel.Device{{Minor: 1000}, {Volume: 1, Minor: 1001}}}
	h, err := d.Suspend(t.Context(), s, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	want := "suspend-io 1000\nsuspend-io 1001\nstatus r0 --json\nresume-io 1000\nresume-io 1001\n"
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		text, _ := os.ReadFile(log)
		notes, _ := os.ReadDir(filepath.Join(dir, "notes"))
		if string(text) == want && len(notes) == 0 {
			break
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%q, and the notes %v", text, notes)
		}
	}
	if whole, err := h.Resume(t.Context()); whole || err != nil {
		t.Errorf("held back until the end: %v, %v", whole, err)
	}
}

func TestSuspensionEndsWithItsNote(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	exec := program(t, `echo "$*" >>`+log+`
case "$1" in status) echo '[{"name":"r0","node-id":0,"role":"Primary","suspended-user":true}]' ;; esac`)
	d := drbd.New(drbd.Settings{Runner: exec, Notes: filepath.Join(dir, "notes")})
	h, err := d.Suspend(t.Context(), kernel.Resource{Name: "r0", Devices: []kernel.Device{{Minor: 1000}}}, 2*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if whole, err := h.Resume(t.Context()); !whole || err != nil {
			t.Errorf("held back until the end: %v, %v", whole, err)
		}
	}
	if notes, _ := os.ReadDir(filepath.Join(dir, "notes")); len(notes) != 0 {
		t.Errorf("notes are left: %v", notes)
	}
	if text, _ := os.ReadFile(log); strings.Count(string(text), "resume-io") != 1 {
		t.Errorf("%s", text)
	}
}

func TestSuspensionThatDidNotTakeIsUndone(t *testing.T) {
	for what, script := range map[string]string{
		"refused":  `case "$1" in suspend-io) [ "$2" = 1000 ] || { echo "1001: Failure: (127) Device minor not allocated" >&2; exit 10; } ;; esac`,
		"no trace": `case "$1" in status) echo '[{"name":"r0","node-id":0,"role":"Primary","suspended-user":false}]' ;; esac`,
	} {
		dir := t.TempDir()
		log := filepath.Join(dir, "log")
		d := drbd.New(drbd.Settings{Runner: program(t, `echo "$*" >>`+log+"\n"+script), Notes: filepath.Join(dir, "notes")})
		s := kernel.Resource{Name: "r0", Devices: []kernel.Device{{Minor: 1000}, {Volume: 1, Minor: 1001}}}
		if _, err := d.Suspend(t.Context(), s, time.Second); err == nil {
			t.Errorf("%s: nothing was said", what)
		}
		text, _ := os.ReadFile(log)
		notes, _ := os.ReadDir(filepath.Join(dir, "notes"))
		if !strings.Contains(string(text), "resume-io 1000") || len(notes) != 0 {
			t.Errorf("%s: %s, %v", what, text, notes)
		}
	}
}

func TestNothingIsHeldBackWithoutAGuard(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	if err := os.WriteFile(filepath.Join(dir, "notes"), nil, 0o600); err != nil { // Where the folder would be.
		t.Fatal(err)
	}
	d := drbd.New(drbd.Settings{Runner: program(t, `echo "$*" >>`+log), Notes: filepath.Join(dir, "notes")})
	if _, err := d.Suspend(t.Context(), kernel.Resource{Name: "r0", Devices: []kernel.Device{{Minor: 1000}}}, time.Second); err == nil {
		t.Error("it was held back without a note")
	}
	if text, err := os.ReadFile(log); err == nil {
		t.Errorf("%s", text)
	}
}

func TestNextAgentResumesWhatTheOneBeforeLeft(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	if err := os.WriteFile(filepath.Join(dir, "r0.1.minors"), []byte("1000\n1001\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	// One of them is gone meanwhile.
	d := drbd.New(drbd.Settings{Notes: dir, Runner: program(t, `echo "$*" >>`+log+`; [ "$2" = 1000 ] || { echo "1001: Failure: (127) Device minor not allocated" >&2; exit 10; }`)})
	if err := d.Recover(t.Context()); err != nil {
		t.Error(err)
	}
	if text, _ := os.ReadFile(log); string(text) != "resume-io 1000\nresume-io 1001\n" {
		t.Errorf("%s", text)
	}
	if _, err := os.Stat(filepath.Join(dir, "r0.1.minors")); err == nil {
		t.Error("the note is left")
	}
	if err := d.Recover(t.Context()); err != nil {
		t.Error(err)
	}
}
