// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package hold_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent/hold"
	"github.com/holdfast-storage/holdfast/internal/agent/mount"
	"github.com/holdfast-storage/holdfast/internal/agent/mount/mounttest"
)

func newNFSHost(t *testing.T, lab *mounttest.Lab, opts string) (*host, hold.Pool) {
	t.Helper()
	h := newHost(t)
	h.down()
	h.limits.Probe, h.limits.ProbeEvery = 2*time.Second, 500*time.Millisecond
	h.limits.Unmount, h.limits.ForceAfter, h.limits.DetachAfter = 5*time.Second, time.Second, 2*time.Second
	h.boot()
	s, err := mount.ParseSource(mount.NFS, lab.Export)
	if err != nil {
		t.Fatal(err)
	}
	o, err := mount.ParseOptions(mount.NFS, lab.Versions[0]+","+opts)
	if err != nil {
		t.Fatal(err)
	}
	return h, hold.Pool{ID: "nfs", Spec: mount.Spec{Source: s, Options: o, Identity: mount.Identity{Create: true}}, Class: hold.Transfer}
}

// Two tasks on one export: the first ends, and the second still writes to the server and never to the bare folder.
func TestNFSPoolStaysForItsLastUser(t *testing.T) {
	lab := mounttest.NFS(t)
	h, p := newNFSHost(t, lab, "hard")
	got := h.acquire(p, "a")
	h.acquire(p, "b")
	h.release("a")
	if err := os.WriteFile(filepath.Join(got.Path(), "written by b"), []byte("x"), 0o600); err != nil {
		t.Error(err)
	}
	if td := h.release("b"); td.Outcome != hold.Done {
		t.Errorf("teardown %v", td)
	}
	if names, err := os.ReadDir(got.Path()); err != nil || len(names) != 0 {
		t.Errorf("the bare folder has %v, %v", names, err)
	}
	again := h.acquire(p, "c")
	if err := os.Remove(filepath.Join(again.Path(), "written by b")); err != nil {
		t.Error(err)
	}
	if td := h.release("c"); td.Outcome != hold.Done {
		t.Errorf("teardown %v", td)
	}
}

func TestNFSServerThatHangsIsSuspectUntilItAnswers(t *testing.T) {
	lab := mounttest.NFS(t)
	h, p := newNFSHost(t, lab, "hard,timeo=10,retrans=1")
	h.acquire(p, "a")
	lab.Stop(t)
	h.await(hold.SuspectEvent, 1)
	began := time.Now()
	st, err := h.Inspect(t.Context(), "nfs")
	if took := time.Since(began); err != nil || st.State != hold.StateSuspect || took > 100*time.Millisecond {
		t.Errorf("inspected in %s: %+v, %v", took, st, err)
	}
	if _, err := h.Acquire(t.Context(), p, req("b")); !hold.IsKind(err, hold.Suspect) {
		t.Errorf("acquire: %v", err)
	}
	other := h.folder("other")
	h.acquire(other, "c")
	if td := h.release("c"); td.Outcome != hold.Done {
		t.Errorf("another pool: %v", td)
	}
	lab.Start(t)
	h.await(hold.Recovered, 1)
	h.acquire(p, "b")
	h.release("a")
	if td := h.release("b"); td.Outcome != hold.Done {
		t.Errorf("teardown %v", td)
	}
}

func TestNFSTransferOfADeadServerIsUnmountedByForce(t *testing.T) {
	lab := mounttest.NFS(t)
	h, p := newNFSHost(t, lab, "hard,timeo=10,retrans=1")
	h.acquire(p, "a")
	lab.Stop(t)
	h.await(hold.SuspectEvent, 1)
	if td := h.release("a"); td.Outcome == hold.NotNeeded {
		t.Errorf("teardown %v", td)
	}
	deadline := time.After(time.Minute)
	for h.mounts(p) != 0 {
		select {
		case <-h.told:
		case <-deadline:
			st, _ := h.Inspect(t.Context(), "nfs")
			t.Fatalf("it is still mounted: %+v", st)
		}
	}
	lab.Start(t)
	h.acquire(p, "b")
	h.release("b")
}
