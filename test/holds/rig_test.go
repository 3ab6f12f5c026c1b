// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package holds_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/agent/local"
	"github.com/holdfast-storage/holdfast/internal/agent/mount"
	"github.com/holdfast-storage/holdfast/internal/agent/mount/mounttest"
)

// program is the real one, built once.
var program string

func TestMain(m *testing.M) {
	if code, done := mounttest.Private(); done {
		os.Exit(code)
	}
	if os.Geteuid() != 0 {
		os.Exit(m.Run())
	}
	dir, err := os.MkdirTemp("", "holdfast-holds-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	program = filepath.Join(dir, "holdfast")
	if out, err := exec.Command("go", "build", "-o", program, "../../cmd/holdfast").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build holdfast: %v\n%s", err, out)
		os.Exit(1)
	}
	code := mounttest.Main(m)
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// system is a controller and an agent in one process, in a mount namespace of the tests' own.
type system struct {
	t      *testing.T
	dir    string
	socket string
	run    string // Of the agent: paths of sockets are short.
	listen string
	agents string
	cmd    *exec.Cmd
	local  *local.Client
}

func start(t *testing.T) *system {
	t.Helper()
	s := &system{t: t, dir: mounttest.Scratch(t), listen: free(t), agents: free(t)}
	var err error
	if s.run, err = os.MkdirTemp("", "hf-"); err != nil { //nolint:usetesting // Short.
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(s.run) })
	s.socket = filepath.Join(s.run, "agent.sock")
	s.local = local.NewClient(s.socket)
	if err := unix.Mount("", s.dir, "", unix.MS_SHARED, ""); err != nil { // As systemd makes all of a host.
		t.Fatal(err)
	}
	s.boot()
	t.Cleanup(func() {
		s.end(syscall.SIGTERM)
		if t.Failed() {
			text, _ := os.ReadFile(filepath.Join(s.dir, "log"))
			t.Logf("the log:\n%s", text)
		}
		for _, d := range s.loops() {
			_ = exec.Command("losetup", "-d", d).Run()
		}
	})
	return s
}

func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

func (s *system) boot() {
	s.t.Helper()
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	s.cmd = exec.Command(program, "up", "--data", filepath.Join(s.dir, "data"), "--run", s.run, "--listen", s.listen, "--agent-listen", s.agents, "--node", "n1")
	s.cmd.Stdout, s.cmd.Stderr = log, log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.await("it is up", func() bool {
		res, err := http.Get("http://" + s.listen + "/v1/nodes/n1")
		if err != nil {
			return false
		}
		defer func() { _ = res.Body.Close() }()
		text, _ := io.ReadAll(res.Body)
		return strings.Contains(string(text), "ONLINE")
	})
}

func (s *system) end(how syscall.Signal) {
	_ = s.cmd.Process.Signal(how)
	_ = s.cmd.Wait()
}

func (s *system) await(what string, ok func() bool) {
	s.t.Helper()
	deadline := time.After(30 * time.Second)
	for !ok() {
		select {
		case <-deadline:
			s.t.Fatalf("waited too long until %s", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// call makes a request and returns the status and the answer.
func (s *system) call(method, path, body string) (int, string) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, "http://"+s.listen+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

func (s *system) must(method, path, body string) string {
	s.t.Helper()
	status, text := s.call(method, path, body)
	if status >= 300 {
		s.t.Fatalf("%s %s: %d %s", method, path, status, text)
	}
	return text
}

// get decodes an answer.
func get[T any](s *system, path string) (v T) {
	s.t.Helper()
	if err := json.Unmarshal([]byte(s.must("GET", path, "")), &v); err != nil {
		s.t.Fatal(err)
	}
	return v
}

// createPool asks for a pool on a mount.
func (s *system) createPool(name string, properties map[string]string) (int, string) {
	s.t.Helper()
	props := map[string]string{}
	for key, value := range properties {
		props["StorDriver/"+key] = value
	}
	body, err := json.Marshal(map[string]any{"storage_pool_name": name, "provider_kind": "FILE_THIN", "props": props})
	if err != nil {
		s.t.Fatal(err)
	}
	return s.call("POST", "/v1/nodes/n1/storage-pools", string(body))
}

// share makes a folder and a pool in it.
func (s *system) share(name string) (dir string) {
	s.t.Helper()
	dir = mounttest.Mkdir(s.t, s.dir, "shares", name)
	if status, text := s.createPool(name, map[string]string{"Mount/Type": "bind", "Mount/Source": dir}); status != 201 {
		s.t.Fatalf("create pool %s: %d %s", name, status, text)
	}
	return dir
}

// volume makes a resource with one volume in a pool and returns its device.
func (s *system) volume(name, pool string, mib int) string {
	s.t.Helper()
	s.must("POST", "/v1/resource-definitions", fmt.Sprintf(`{"resource_definition":{"name":%q}}`, name))
	s.must("POST", "/v1/resource-definitions/"+name+"/volume-definitions", fmt.Sprintf(`{"volume_definition":{"size_kib":%d}}`, mib<<10))
	s.must("POST", "/v1/resource-definitions/"+name+"/resources", fmt.Sprintf(`[{"resource":{"node_name":"n1","props":{"StorPoolName":%q}}}]`, pool))
	var device string
	s.await("the device of "+name+" is known", func() bool {
		volumes := get[[]struct {
			Device string `json:"device_path"`
		}](s, "/v1/resource-definitions/"+name+"/resources/n1/volumes")
		if len(volumes) == 1 {
			device = volumes[0].Device
		}
		return device != ""
	})
	return device
}

// mounts returns the targets of what the agent has mounted.
func (s *system) mounts() (targets []string) {
	s.t.Helper()
	var r mount.Reader
	t, err := r.Table()
	if err != nil {
		s.t.Fatal(err)
	}
	_ = r.Close()
	for _, e := range t.Under(filepath.Join(s.dir, "data/agent/mnt")) {
		targets = append(targets, e.Target)
	}
	return targets
}

// loops returns the loop devices over files of the system.
func (s *system) loops() (devices []string) {
	out, err := exec.Command("losetup", "--noheadings", "--output", "NAME,BACK-FILE").Output()
	if err != nil {
		return nil
	}
	for line := range bytes.Lines(out) {
		name, file, _ := strings.Cut(strings.TrimSpace(string(line)), " ")
		if strings.HasPrefix(strings.TrimSpace(file), s.dir) {
			devices = append(devices, name)
		}
	}
	return devices
}

// holders returns the ids of who holds a pool, but for the agent at work.
func (s *system) holders(pool string) (ids []string) {
	s.t.Helper()
	p, err := s.local.Pool(context.Background(), pool)
	if err != nil {
		return nil
	}
	for _, h := range p.Holds {
		if !strings.HasPrefix(h.ID, "agent/") {
			ids = append(ids, h.ID)
		}
	}
	slices.Sort(ids)
	return ids
}
