// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package holds_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/agent/local"
	"github.com/holdfast-storage/holdfast/internal/agent/mount/mounttest"
)

func TestTheDemoIsAsPromised(t *testing.T) {
	mounttest.NeedRoot(t)
	out, err := exec.CommandContext(t.Context(), "../demo/holds", program).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestVolumesAndUsersKeepTheirPoolOverTheDeathOfTheAgent(t *testing.T) {
	s := start(t)
	s.share("vault")
	device := s.volume("db", "vault", 8)
	if _, err := s.local.Acquire(t.Context(), "vault", local.Request{ID: "me", Holder: "tester"}); err != nil {
		t.Fatal(err)
	}
	content := []byte("what was written before")
	if err := os.WriteFile(device, content, 0); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		s.end(syscall.SIGKILL)
		if len(s.mounts()) != 1 {
			t.Fatalf("mounted after the death of the agent: %v", s.mounts())
		}
		s.boot()
		s.await("holds are known again", func() bool { return slices.Equal(s.holders("vault"), []string{"me", "volume/vault/db/0"}) })
	}
	text := make([]byte, len(content))
	f, err := os.Open(device)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Read(text); err != nil || !bytes.Equal(text, content) {
		t.Errorf("read %q, %v", text, err)
	}
	_ = f.Close()
	s.must("DELETE", "/v1/resource-definitions/db", "")
	s.await("the volume holds no more", func() bool { return slices.Equal(s.holders("vault"), []string{"me"}) })
	r, err := s.local.Release(t.Context(), "me")
	if err != nil || r.Anomaly {
		t.Errorf("release: %+v, %v", r, err)
	}
	s.await("the pool goes down", func() bool { return len(s.mounts()) == 0 })
	if r, err := s.local.Release(t.Context(), "me"); err != nil || !r.Anomaly {
		t.Errorf("a second release: %+v, %v", r, err)
	}
}

func TestARunningCommandHoldsItsPoolOverTheDeathOfTheAgentAndNotLonger(t *testing.T) {
	s := start(t)
	dir := s.share("vault")
	s.await("the pool is down", func() bool { return len(s.mounts()) == 0 })
	fifo := filepath.Join(s.dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	run := exec.Command(program, "hold", "run", "vault", "--", "sh", "-c", "echo here >\"$HOLDFAST_POOL/file\"; read -r _ <"+fifo+"; exit 42")
	run.Env = append(os.Environ(), "HOLDFAST_SOCKET="+s.socket)
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	s.await("it runs", func() bool {
		_, err := os.Stat(filepath.Join(dir, "holdfast/n1/vault/file"))
		return err == nil
	})
	s.end(syscall.SIGKILL)
	s.boot()
	s.await("it holds again", func() bool { return len(s.holders("vault")) == 1 && len(s.mounts()) == 1 })
	if err := os.WriteFile(fifo, []byte("go\n"), 0); err != nil {
		t.Fatal(err)
	}
	if err := run.Wait(); run.ProcessState.ExitCode() != 42 {
		t.Errorf("the status of the command: %v", err)
	}
	s.await("the pool goes down", func() bool { return len(s.mounts()) == 0 })
}

func TestAJobGoesOnAfterTheDeathOfTheAgentAndHoldsItsPools(t *testing.T) {
	s := start(t)
	s.share("vault")
	device := s.volume("db", "vault", 16)
	content := make([]byte, 12<<20)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(content)
	var once sync.Once
	arrived, stop := make(chan struct{}), make(chan struct{})
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		first := false
		once.Do(func() { first = true })
		if !first {
			_, _ = w.Write(content)
			return
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(content)))
		_, _ = w.Write(content[:6<<20])
		w.(http.Flusher).Flush() //nolint:forcetypeassert // It is one.
		close(arrived)
		select {
		case <-stop:
		case <-q.Context().Done():
		}
	}))
	defer site.Close()
	defer close(stop)
	sum := sha256.Sum256(content)
	want := "sha256:" + hex.EncodeToString(sum[:])
	s.must("POST", "/v1/nodes/n1/jobs", fmt.Sprintf(`{"id":"get","kind":"download","url":%q,"to":{"resource_name":"db"},"checksum":%q}`, site.URL, want))
	<-arrived
	if h := s.holders("vault"); !slices.Contains(h, "job/get/vault") {
		t.Errorf("the job does not hold its pool: %v", h)
	}
	s.end(syscall.SIGKILL)
	s.boot()
	type job struct{ State, Result, Problem string }
	s.await("the job has ended", func() bool {
		status, text := s.call("GET", "/v1/nodes/n1/jobs/get", "")
		return status == 200 && !strings.Contains(text, `"running"`) && !strings.Contains(text, `"waiting"`)
	})
	if j := get[job](s, "/v1/nodes/n1/jobs/get"); j.State != "done" || j.Result != want {
		t.Errorf("the job is %+v", j)
	}
	have := make([]byte, len(content))
	f, err := os.Open(device)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if _, err := f.Read(have); err != nil || !bytes.Equal(have, content) {
		t.Errorf("the volume has another content, %v", err)
	}
	s.await("the job holds no more", func() bool { return slices.Equal(s.holders("vault"), []string{"volume/vault/db/0"}) })
}

func TestASourceThatCannotBeHadIsRefusedWithItsReason(t *testing.T) {
	s := start(t)
	file := filepath.Join(s.dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dir := mounttest.Mkdir(t, s.dir, "dir")
	link := filepath.Join(s.dir, "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		props map[string]string
		want  string
	}{
		"missing":        {map[string]string{"Mount/Type": "bind", "Mount/Source": filepath.Join(s.dir, "none")}, "no such file"},
		"no folder":      {map[string]string{"Mount/Type": "bind", "Mount/Source": file}, "not a folder"},
		"a link":         {map[string]string{"Mount/Type": "bind", "Mount/Source": link}, "symbolic link"},
		"no device":      {map[string]string{"Mount/Type": "block", "Mount/Source": "/dev/none"}, "no such file"},
		"no block":       {map[string]string{"Mount/Type": "block", "Mount/Source": "/dev/null"}, "not a block device"},
		"not mounted":    {map[string]string{"Mount/Type": "existing", "Mount/Source": dir}, "is not mounted"},
		"bad option":     {map[string]string{"Mount/Type": "bind", "Mount/Source": dir, "Mount/Options": "remount"}, "remount"},
		"bad type":       {map[string]string{"Mount/Type": "floppy", "Mount/Source": dir}, "floppy"},
		"folder outside": {map[string]string{"Mount/Type": "bind", "Mount/Source": dir, "StorPoolName": "../x"}, "not below"},
		"no source":      {map[string]string{"Mount/Type": "bind", "StorPoolName": dir}, "Mount/Source"},
	} {
		t.Run(name, func(t *testing.T) {
			status, text := s.createPool("bad", tc.props)
			if status < 400 || !strings.Contains(strings.ToLower(text), strings.ToLower(tc.want)) {
				t.Errorf("%d %s, and not because of %q", status, text, tc.want)
			}
		})
	}
	s.await("nothing is mounted", func() bool { return len(s.mounts()) == 0 })
}

func TestTheSameSourceUnderTwoNames(t *testing.T) {
	s := start(t)
	dir := s.share("one")
	if status, text := s.createPool("two", map[string]string{"Mount/Type": "bind", "Mount/Source": dir + "/"}); status != 201 {
		t.Fatalf("a second pool on one source: %d %s", status, text)
	}
	s.volume("aa", "one", 4)
	s.volume("bb", "two", 4)
	if m := s.mounts(); len(m) != 1 {
		t.Errorf("one source is mounted at %v", m)
	}
	s.must("DELETE", "/v1/resource-definitions/aa", "")
	s.await("the pool of the first is free", func() bool { return len(s.holders("one")) == 0 })
	if len(s.mounts()) != 1 {
		t.Error("the mount was taken from under the second pool")
	}
	status, text := s.createPool("three", map[string]string{"Mount/Type": "bind", "Mount/Source": dir, "Mount/Options": "ro"})
	if status < 400 || !strings.Contains(text, "options conflict") {
		t.Errorf("other options for a source in use: %d %s", status, text)
	}
	s.must("DELETE", "/v1/resource-definitions/bb", "")
	s.await("nothing is mounted", func() bool { return len(s.mounts()) == 0 })
}
