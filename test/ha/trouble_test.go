// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package ha_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/kv"
	"github.com/holdfast-storage/holdfast/internal/kv/boltkv"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// ask makes a request and returns the answer.
func (p *process) ask(method, path, body string) (status int, text string, warning string) {
	p.t.Helper()
	return p.say(method, path, body, nil)
}

// askItself reads what a controller itself has: it passes on no request that has come from a standby.
func (p *process) askItself(path string) (status int) {
	p.t.Helper()
	status, _, _ = p.say(http.MethodGet, path, "", http.Header{"Holdfast-Forwarded-By": {"test"}})
	return status
}

func (p *process) say(method, path, body string, header http.Header) (status int, text string, warning string) {
	p.t.Helper()
	q, err := http.NewRequestWithContext(p.t.Context(), method, p.url+path, bytes.NewBufferString(body))
	if err != nil {
		p.t.Fatal(err)
	}
	if header != nil {
		q.Header = header
	}
	a, err := (&http.Client{Timeout: 30 * time.Second}).Do(q)
	if err != nil {
		return 0, err.Error(), ""
	}
	all, err := io.ReadAll(a.Body)
	if err := errors.Join(err, a.Body.Close()); err != nil {
		p.t.Fatal(err)
	}
	return a.StatusCode, string(all), a.Header.Get("Warning")
}

func spawned(name string) string {
	return fmt.Sprintf(`{"resource_definition_name":%q,"volume_sizes":[1024],"definitions_only":true}`, name)
}

const spawnPath = "/v1/resource-groups/DfltRscGrp/spawn"

// until asks again and again until an answer is right, which it must be soon.
func (p *process) until(method, path, body string, right func(status int, text string) bool) {
	p.t.Helper()
	p.soon(method+" "+path, func() (int, string, bool) {
		status, text, _ := p.ask(method, path, body)
		return status, text, right(status, text)
	})
}

// soon tries again and again until an answer is right.
func (p *process) soon(what string, try func() (status int, text string, right bool)) {
	p.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	var status int
	var text string
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); <-tick.C {
		var right bool
		if status, text, right = try(); right {
			return
		}
	}
	p.t.Fatalf("%s goes on being answered %d %s", what, status, text)
}

func is(want int) func(int, string) bool {
	return func(status int, _ string) bool { return status == want }
}

// plant writes rows behind the controller's back.
func plant(t *testing.T, path string, rows ...kv.Entry) {
	t.Helper()
	e := boltkv.New(path)
	term, err := e.Own(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = e.Append(t.Context(), term, kv.Batch{Put: rows})
	if err := errors.Join(err, e.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestARowThatDoesNotDecodeIsSetAsideAndTheRestServed(t *testing.T) {
	p := newProcess(t, settings{Name: "one"})
	p.start()
	leading(t, []*process{p}, 10*time.Second)
	p.ask("POST", spawnPath, spawned("good"))
	p.kill()
	plant(t, filepath.Join(p.Dir, "holdfast.db"), kv.Entry{Key: "definition/torn\x00", Value: []byte(`{"schema":0,"rev`)})
	p.start()
	leading(t, []*process{p}, 10*time.Second)
	if status, text, _ := p.ask("GET", "/v1/controller/database", ""); status != 200 || !strings.Contains(text, `"key":"torn"`) {
		t.Errorf("what was set aside is not listed: %d %s", status, text)
	}
	if status, text, _ := p.ask("GET", "/v1/resource-definitions/good", ""); status != 200 {
		t.Errorf("a good row is not served: %d %s", status, text)
	}
	if status, text, _ := p.ask("POST", spawnPath, spawned("more")); status != 201 {
		t.Errorf("no more can be made: %d %s", status, text)
	}
	if status, text, _ := p.ask("POST", spawnPath, spawned("torn")); status < 300 {
		t.Errorf("the row that was set aside was overwritten: %d %s", status, text)
	}
}

// ended waits for the end of a controller that cannot go on, and returns what it said.
func (p *process) ended() string {
	p.t.Helper()
	timer := time.AfterFunc(30*time.Second, func() { _ = p.cmd.Process.Kill() })
	defer timer.Stop()
	if err := p.cmd.Wait(); err == nil || p.cmd.ProcessState.ExitCode() != 1 {
		p.t.Errorf("it ended with %v", p.cmd.ProcessState)
	}
	p.cmd = nil
	text, err := os.ReadFile(p.log)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(text)
}

func TestADatabaseOfALaterProgramIsRefused(t *testing.T) {
	p := newProcess(t, settings{Name: "one"})
	p.start()
	leading(t, []*process{p}, 10*time.Second)
	p.kill()
	plant(t, filepath.Join(p.Dir, "holdfast.db"), store.OwnRow(100, store.Origin{Generation: schema.Generation + 1, Program: "9.9.9+future"}))
	p.start()
	if text := p.ended(); !strings.Contains(text, "version 9.9.9+future of the program wrote it") {
		t.Errorf("it said %s", text)
	}
}

func TestADamagedFileIsRefusedInWords(t *testing.T) {
	p := newProcess(t, settings{Name: "one"})
	if err := os.WriteFile(filepath.Join(p.Dir, "holdfast.db"), bytes.Repeat([]byte("text"), 10000), 0o600); err != nil {
		t.Fatal(err)
	}
	p.start()
	if text := p.ended(); !strings.Contains(text, "not a bbolt file") {
		t.Errorf("it said %s", text)
	}
}

func TestTwoControllersOnOneFile(t *testing.T) {
	t.Parallel()
	first, second := newProcess(t, settings{Name: "one"}), newProcess(t, settings{Name: "two"})
	first.start()
	leading(t, []*process{first}, 10*time.Second)
	second.Dir = first.Dir
	second.start()
	if text := second.ended(); !strings.Contains(text, fmt.Sprintf("in use by process %d", first.cmd.Process.Pid)) {
		t.Errorf("it said %s", text)
	}
	if status, text, _ := first.ask("POST", spawnPath, spawned("good")); status != 201 {
		t.Errorf("the first one: %d %s", status, text)
	}
}

// small mounts a small file system for the data of a controller.
func small(t *testing.T, p *process, bytes string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("mounts need root")
	}
	if err := unix.Mount("tmpfs", p.Dir, "tmpfs", 0, "size="+bytes); err != nil {
		t.Fatal(err)
	}
	p.log = filepath.Join(filepath.Dir(p.Dir), "log")
	t.Cleanup(func() {
		p.kill()
		_ = unix.Unmount(p.Dir, unix.MNT_DETACH)
	})
}

// fill takes the space that is left, and returns what gives it back.
func fill(t *testing.T, dir string) (free func()) {
	t.Helper()
	path := filepath.Join(dir, "junk")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	block := make([]byte, 4096)
	for err == nil {
		_, err = f.Write(block)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	_ = f.Close()
	return func() {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAFullDiskStopsWritesAloneAndHeals(t *testing.T) {
	p := newProcess(t, settings{Name: "one"})
	small(t, p, "40m")
	p.start()
	leading(t, []*process{p}, 10*time.Second)
	p.ask("POST", spawnPath, spawned("good"))
	free := fill(t, p.Dir)
	large := strings.Repeat("x", 3000)
	n := 0
	p.until("POST", spawnPath, "", func(int, string) bool { // until the file itself has no room left
		n++
		status, text, _ := p.ask("POST", "/v1/resource-definitions",
			fmt.Sprintf(`{"resource_definition":{"name":"def-%d","props":{"Aux/a":%q,"Aux/b":%q}}}`, n, large, large))
		for range 200 {
			if status != 201 {
				break
			}
			n++
			status, text, _ = p.ask("POST", "/v1/resource-definitions",
				fmt.Sprintf(`{"resource_definition":{"name":"def-%d","props":{"Aux/a":%q,"Aux/b":%q}}}`, n, large, large))
		}
		if status != 201 && (status != 503 || !strings.Contains(text, "no space left")) {
			t.Fatalf("a full disk is answered %d %s", status, text)
		}
		return status != 201
	})
	p.until("GET", "/health", "", func(status int, text string) bool { return status == 503 && strings.Contains(text, "no space left") })
	p.until("GET", "/v1/resource-definitions/good", "", is(200))
	p.kill()
	p.start() // on the full disk: reads are served, whether or not a small write fits into pages that are free
	p.until("GET", "/v1/resource-definitions/good", "", is(200))
	free()
	leading(t, []*process{p}, 20*time.Second)
	if status, text, _ := p.ask("POST", spawnPath, spawned("late")); status != 201 {
		t.Errorf("a write afterwards is answered %d %s", status, text)
	}
}

func TestAReadOnlyDiskStopsWritesAloneAndHeals(t *testing.T) {
	p := newProcess(t, settings{Name: "one"})
	small(t, p, "60m")
	p.start()
	leading(t, []*process{p}, 10*time.Second)
	p.ask("POST", spawnPath, spawned("good"))
	p.kill()
	if err := unix.Mount("", p.Dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	p.start()
	p.until("GET", "/v1/resource-definitions/good", "", is(200))
	p.until("GET", "/health", "", func(status int, text string) bool { return status == 503 && strings.Contains(text, "read-only") })
	if status, text, _ := p.ask("POST", spawnPath, spawned("late")); status != 503 {
		t.Errorf("a write is answered %d %s", status, text)
	}
	if err := unix.Mount("", p.Dir, "", unix.MS_REMOUNT, ""); err != nil {
		t.Fatal(err)
	}
	leading(t, []*process{p}, 20*time.Second)
	if status, text, _ := p.ask("POST", spawnPath, spawned("late")); status != 201 {
		t.Errorf("a write afterwards is answered %d %s", status, text)
	}
}

func TestWithoutEtcdReadsGoOnAndWritesHeal(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1, 2*time.Second)
	p, _ := leading(t, c.all, failOver)
	other := c.others(p)[0]
	if status, text, _ := other.ask("POST", spawnPath, spawned("good")); status != 201 {
		t.Fatalf("a standby answers %d %s", status, text)
	}
	for _, p := range c.all { // a standby shows a commit shortly after it was made
		p.soon("what "+p.Name+" itself has", func() (int, string, bool) {
			status := p.askItself("/v1/resource-definitions/good")
			return status, "", status == http.StatusOK
		})
	}
	c.etcd.Kill(0)
	for _, p := range c.all {
		p.until("GET", "/health", "", is(503))
		p.until("GET", "/v1/resource-definitions/good", "", is(200))
	}
	for _, path := range []string{"/v1/nodes", "/v1/view/resources", "/v1/orphans", "/v1/view/storage-pools", "/v1/jobs", "/v1/controller/database", "/v1/physical-storage"} {
		if status, text, _ := other.ask("GET", path, ""); status != 200 {
			t.Errorf("%s without etcd is answered %d %s", path, status, text)
		}
	}
	for _, p := range c.all {
		if status, _, warning := p.ask("GET", "/v1/resource-definitions/good", ""); status != 200 || !strings.HasPrefix(warning, "110 ") {
			t.Errorf("a read without etcd is answered %d, warning %q", status, warning)
		}
		if status, text, _ := p.ask("POST", spawnPath, spawned("late")); status != 503 || !strings.Contains(text, "etcd") {
			t.Errorf("a write without etcd is answered %d %s", status, text)
		}
	}
	c.etcd.Restart(0)
	c.etcd.WaitWritable()
	leading(t, c.all, failOver)
	if status, text, _ := other.ask("POST", spawnPath, spawned("late")); status != 201 {
		t.Errorf("a write afterwards is answered %d %s", status, text)
	}
}

// A database that definitions come to and go from stays as large as it is.
func TestCyclesLeaveTheSizeAsItWas(t *testing.T) {
	p := newProcess(t, settings{Name: "one"})
	p.start()
	leading(t, []*process{p}, 10*time.Second)
	size := func() int64 {
		i, err := os.Stat(filepath.Join(p.Dir, "holdfast.db"))
		if err != nil {
			t.Fatal(err)
		}
		return i.Size()
	}
	var first int64
	for cycle := range 5 {
		for n := range 150 {
			if status, text, _ := p.ask("POST", spawnPath, spawned(fmt.Sprintf("vol-%d", n))); status != 201 {
				t.Fatal(status, text)
			}
		}
		for n := range 150 {
			if status, text, _ := p.ask("DELETE", fmt.Sprintf("/v1/resource-definitions/vol-%d", n), ""); status != 200 {
				t.Fatal(status, text)
			}
		}
		if cycle == 0 {
			first = size()
		}
	}
	if now := size(); now != first {
		t.Errorf("after five cycles the file has %d bytes, after one %d", now, first)
	}
	_, text, _ := p.ask("GET", "/v1/resource-definitions", "")
	if strings.TrimSpace(text) != "[]" {
		t.Errorf("left: %s", text)
	}
}
