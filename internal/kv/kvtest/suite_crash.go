// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package kvtest

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-storage/holdfast/internal/kv"
)

// childVariable tells a test program that it is the child, and the directory of the map.
const childVariable = "HOLDFAST_KVTEST_CHILD"

func childDirectory() string { return os.Getenv(childVariable) }

// actAsChild appends the batches of someBatch, from where the map is, and says each revision on standard output once it is
// durable. It ends when it is killed, or at the latest after many batches.
func (s Subject) actAsChild(t *testing.T, dir string) {
	t.Helper()
	e := s.Child(dir)
	term, err := e.Own(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r, _ := load(t, e)
	for range 100_000 {
		if r, err = e.Append(context.Background(), term, someBatch(int(r)+1)); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintf(os.Stdout, "durable %d\n", r); err != nil {
			return // nobody listens any more
		}
	}
}

// killedProcess kills a process that appends, again and again. Each batch that it has called durable must be there, and the map must
// be exactly the batches up to its revision.
func (s Subject) killedProcess(t *testing.T) {
	if s.Child == nil {
		t.Skip("the map does not outlive its process")
	}
	dir := t.TempDir()
	name, _, _ := strings.Cut(t.Name(), "/")
	total := kv.Revision(0)
	for _, batches := range []int{1, 2, 5, 40, 13} {
		acknowledged := runAndKill(t, name, dir, total, batches)
		e := own(t, s.Child(dir))
		r, rows := e.rows()
		if r < acknowledged {
			t.Fatalf("revision %d was acknowledged, the map is at %d", acknowledged, r)
		}
		if d := cmp.Diff(foldTo(int(r)), rows); d != "" {
			t.Fatalf("revision %d has other rows after a kill (-want +got):\n%s", r, d)
		}
		total = r
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// runAndKill starts the child, kills it when it has acknowledged some batches, and returns the last revision that it has acknowledged.
func runAndKill(t *testing.T, test, dir string, from kv.Revision, batches int) kv.Revision {
	t.Helper()
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = out.Close() }()
	child, err := os.StartProcess(os.Args[0], []string{os.Args[0], "-test.run=^" + test + "$", "-test.v=false"}, &os.ProcAttr{
		Env:   append(os.Environ(), childVariable+"="+dir),
		Files: []*os.File{nil, in, os.Stderr},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	acknowledged := from
	lines := bufio.NewScanner(out)
	for lines.Scan() { // to its end: what was written before the kill is acknowledged too
		n, ok := strings.CutPrefix(lines.Text(), "durable ")
		if !ok {
			t.Errorf("the child says %q", lines.Text())
			continue
		}
		r, err := strconv.ParseUint(n, 10, 64)
		if err != nil || kv.Revision(r) != acknowledged+1 {
			t.Errorf("the child says %q after %d", lines.Text(), acknowledged)
		}
		acknowledged = kv.Revision(r)
		if acknowledged == from+kv.Revision(batches) {
			if err := child.Kill(); err != nil {
				t.Error(err)
			}
		}
	}
	if end, err := child.Wait(); err != nil || end.Success() {
		t.Errorf("the child has ended by itself: %v, %v", end, err)
	}
	if acknowledged < from+kv.Revision(batches) {
		t.Fatalf("the child has acknowledged %d after %d, expected %d more", acknowledged, from, batches)
	}
	return acknowledged
}
