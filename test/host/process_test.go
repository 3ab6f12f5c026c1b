// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent/mount/mounttest"
)

// program is the built binary; empty without root.
var program string

func TestMain(m *testing.M) {
	if code, done := mounttest.Private(); done {
		os.Exit(code)
	}
	if os.Getuid() != 0 {
		fmt.Println("the tests of the real program need root: left out")
		os.Exit(m.Run())
	}
	dir, err := os.MkdirTemp("", "holdfast-host-")
	if err != nil {
		panic(err)
	}
	program = filepath.Join(dir, "holdfast")
	out, err := exec.Command("go", "build", "-o", program, "../../cmd/holdfast").CombinedOutput()
	if err != nil {
		fmt.Println(string(out))
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// system is a controller and agents, each a process.
type system struct {
	t      *testing.T
	dir    string
	api    string
	agents string
	procs  map[string]*process
}

type process struct {
	cmd *exec.Cmd
	log *os.File
}

// start starts a controller.
func start(t *testing.T) *system {
	t.Helper()
	if program == "" {
		t.Skip("devices need root")
	}
	s := &system{t: t, dir: t.TempDir(), api: free(t), agents: free(t), procs: map[string]*process{}}
	t.Cleanup(s.stop)
	s.controller()
	return s
}

func (s *system) controller() {
	s.t.Helper()
	s.run("controller", "controller", "--data", filepath.Join(s.dir, "controller"), "--listen", s.api, "--agent-listen", s.agents)
	s.until("the controller to be healthy", func() bool {
		a := s.call("GET", "/health", "")
		return a.status == http.StatusOK
	})
}

func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return l.Addr().String()
}

// run starts a process of the program under a name.
func (s *system) run(name string, args ...string) {
	s.t.Helper()
	log, err := os.Create(filepath.Join(s.dir, fmt.Sprintf("%s-%d.log", name, time.Now().UnixNano())))
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.procs[name] = &process{cmd: cmd, log: log}
}

// end ends a process by a signal.
func (s *system) end(name string, sig syscall.Signal) {
	s.t.Helper()
	p := s.procs[name]
	delete(s.procs, name)
	_ = p.cmd.Process.Signal(sig)
	err := p.cmd.Wait()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && (sig != syscall.SIGKILL || !exited) {
		text, _ := os.ReadFile(p.log.Name())
		s.t.Errorf("%s ended with %v\n%s", name, err, text)
	}
	_ = p.log.Close()
}

func (s *system) stop() {
	for name := range s.procs {
		if s.t.Failed() {
			text, _ := os.ReadFile(s.procs[name].log.Name())
			s.t.Logf("log of %s:\n%s", name, text)
		}
		s.end(name, syscall.SIGTERM)
	}
}

// node registers a node, makes a token by which its host joins, and starts its agent.
func (s *system) node(name string) {
	s.t.Helper()
	s.must("POST", "/v1/nodes", fmt.Sprintf(`{"name":%q,"type":"Satellite","net_interfaces":[{"name":"default","address":"127.0.0.1"}]}`, name))
	var made struct{ Token string }
	if err := json.Unmarshal([]byte(s.must("POST", "/v1/nodes/"+name+"/join-token", "")), &made); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(s.token(name), []byte(made.Token), 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.agent(name)
}

func (s *system) token(name string) string { return filepath.Join(s.dir, "token-"+name) }

func (s *system) agent(name string) {
	s.t.Helper()
	s.run(name, s.agentArgs(name)...)
	s.until("node "+name+" to be online", func() bool {
		return strings.Contains(s.call("GET", "/v1/nodes/"+name, "").text, `"connection_status":"ONLINE"`)
	})
}

func (s *system) agentArgs(name string) []string {
	return []string{"agent", "--node", name, "--controller", s.agents, "--state", filepath.Join(s.dir, "state-"+name), "--join-file", s.token(name)}
}

type answer struct {
	status int
	text   string
}

func (s *system) call(method, path, body string) answer {
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, method, "http://"+s.api+path, strings.NewReader(body))
	if err != nil {
		return answer{0, err.Error()}
	}
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		return answer{0, err.Error()}
	}
	text, err := io.ReadAll(a.Body)
	if err := errors.Join(err, a.Body.Close()); err != nil {
		return answer{0, err.Error()}
	}
	return answer{a.StatusCode, string(text)}
}

func (s *system) must(method, path, body string) string {
	s.t.Helper()
	a := s.call(method, path, body)
	if a.status >= 300 || a.status == 0 {
		s.t.Fatalf("%s %s: %d %s", method, path, a.status, a.text)
	}
	return a.text
}

// refused makes a call that must be refused with a text that holds each of the words.
func (s *system) refused(method, path, body string, words ...string) {
	s.t.Helper()
	a := s.call(method, path, body)
	if a.status < 400 {
		s.t.Errorf("%s %s was answered with %d %s", method, path, a.status, a.text)
	}
	for _, w := range words {
		if !strings.Contains(a.text, w) {
			s.t.Errorf("%s %s: the refusal does not say %q: %s", method, path, w, a.text)
		}
	}
}

func (s *system) until(what string, holds func() bool) {
	s.t.Helper()
	deadline := time.After(60 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			s.t.Fatalf("waited too long for %s", what)
		}
	}
}

// folder makes a folder for a pool.
func (s *system) folder(name string) string {
	s.t.Helper()
	dir := filepath.Join(s.dir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		s.t.Fatal(err)
	}
	return dir
}

func (s *system) pool(node, name, provider, dir string) {
	s.t.Helper()
	s.must("POST", "/v1/nodes/"+node+"/storage-pools",
		fmt.Sprintf(`{"storage_pool_name":%q,"provider_kind":%q,"props":{"StorDriver/StorPoolName":%q}}`, name, provider, dir))
}

// device returns the path of a volume's device.
func (s *system) device(resource, node string) string {
	s.t.Helper()
	var v struct {
		Path string `json:"device_path"`
	}
	text := s.must("GET", "/v1/resource-definitions/"+resource+"/resources/"+node+"/volumes/0", "")
	if err := json.Unmarshal([]byte(text), &v); err != nil || v.Path == "" {
		s.t.Fatalf("no device in %s: %v", text, err)
	}
	return v.Path
}

// sh runs a tool of the host.
func (s *system) sh(args ...string) string {
	s.t.Helper()
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	if err != nil {
		s.t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// mount mounts a device and unmounts it at the end of the test, when it still is.
func (s *system) mount(device string) string {
	s.t.Helper()
	dir := s.folder("mnt-" + filepath.Base(device))
	s.sh("mount", device, dir)
	s.t.Cleanup(func() { _ = exec.Command("umount", dir).Run() })
	return dir
}

// unmount unmounts a folder, and returns when nobody on this host has it mounted.
func (s *system) unmount(dir string) {
	s.t.Helper()
	s.sh("umount", dir)
	mounttest.Gone(s.t, dir)
}

// smallDisk mounts a filesystem of its own on a folder.
func (s *system) smallDisk(name, size string) string {
	s.t.Helper()
	img := filepath.Join(s.dir, name+".img")
	s.sh("truncate", "-s", size, img)
	s.sh("mkfs.ext4", "-q", "-m", "0", img)
	dir := s.folder(name)
	s.sh("mount", "-o", "loop", img, dir)
	s.t.Cleanup(func() { _ = exec.Command("umount", dir).Run() })
	return dir
}

// nothingLeft fails the test when a volume of a resource is still on the host.
func (s *system) nothingLeft(dir, resource string) {
	s.t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, e := range entries {
		if strings.Contains(e.Name(), resource) {
			s.t.Errorf("%s is still in %s", e.Name(), dir)
		}
	}
	if loops := s.sh("losetup", "--noheadings", "--output", "NAME,BACK-FILE"); strings.Contains(loops, dir+"/"+resource) {
		s.t.Errorf("a loop device of %s is left:\n%s", resource, loops)
	}
	if a := s.call("GET", "/v1/resource-definitions/"+resource, ""); a.status != http.StatusNotFound {
		s.t.Errorf("the definition %s is still there: %s", resource, a.text)
	}
}
