// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package local_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent/holding"
	"github.com/holdfast-storage/holdfast/internal/agent/local"
	"github.com/holdfast-storage/holdfast/internal/agent/mount/mounttest"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/held"
	"github.com/holdfast-storage/holdfast/internal/agent/worker"
	"github.com/holdfast-storage/holdfast/internal/command"
)

// holderEnv makes the test binary a process that holds a pool.
const holderEnv = "HOLDFAST_TEST_HOLDER"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == worker.Name {
		syscall.Exit(worker.Main(os.Args[2:], map[string]worker.Kind{held.KindName: held.Kind()}))
	}
	if socket := os.Getenv(holderEnv); socket != "" {
		syscall.Exit(beHolder(socket))
	}
	os.Exit(mounttest.Main(m))
}

// beHolder holds a pool until it is told to end.
func beHolder(socket string) int {
	g, err := local.NewClient(socket).Acquire(context.Background(), "vault", local.Request{Holder: "test", Process: true})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println(g.Path)
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	return 0
}

// agent is the holds of a host and the socket for its users.
type agent struct {
	*local.Client

	t      *testing.T
	dir    string
	socket string
	h      *holding.Holding
	stop   context.CancelFunc
	ended  chan error
}

func start(t *testing.T) *agent {
	t.Helper()
	a := &agent{t: t, dir: mounttest.Scratch(t)}
	short, err := os.MkdirTemp("", "hf-") //nolint:usetesting // Paths of sockets are short.
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(short) })
	a.socket = filepath.Join(short, "run/agent.sock")
	a.Client = local.NewClient(a.socket)
	mounttest.Mkdir(t, a.dir, "share")
	a.boot()
	t.Cleanup(a.down)
	return a
}

func (a *agent) boot() {
	a.t.Helper()
	var err error
	a.h, err = holding.Open(a.t.Context(), holding.Config{
		Node: "n1", State: filepath.Join(a.dir, "state"), Run: filepath.Join(a.dir, "run"), Runner: &command.Exec{}, Pools: held.Config{Linger: time.Millisecond},
	})
	if err != nil {
		a.t.Fatal(err)
	}
	props := map[string]string{"StorDriver/Mount/Type": "bind", "StorDriver/Mount/Source": filepath.Join(a.dir, "share")}
	if _, ok, err := a.h.Open("vault", true, "", func(k string) (string, bool) { v, ok := props[k]; return v, ok }); err != nil || !ok {
		a.t.Fatal(ok, err)
	}
	ctx, stop := context.WithCancel(context.Background())
	a.stop, a.ended = stop, make(chan error, 1)
	server := &local.Server{Holding: a.h, Metrics: http.NotFoundHandler()}
	go func() { a.ended <- server.Serve(ctx, a.socket) }()
	a.await("it serves", func() bool {
		_, err := a.Pools(context.Background())
		return err == nil
	})
}

func (a *agent) down() {
	a.t.Helper()
	a.stop()
	if err := <-a.ended; err != nil {
		a.t.Error(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := a.h.Close(ctx); err != nil {
		a.t.Error(err)
	}
}

func (a *agent) await(what string, ok func() bool) {
	a.t.Helper()
	deadline := time.After(20 * time.Second)
	for !ok() {
		select {
		case <-deadline:
			a.t.Fatalf("waited too long until %s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (a *agent) pool() local.Pool {
	a.t.Helper()
	p, err := a.Pool(context.Background(), "VAULT")
	if err != nil {
		a.t.Fatal(err)
	}
	return p
}

func TestAnOperatorHoldsAPoolUntilHeReleasesIt(t *testing.T) {
	a := start(t)
	if p := a.pool(); p.State != "absent" || len(p.Holds) != 0 {
		t.Errorf("at first: %+v", p)
	}
	for range 2 { // Again is the same hold.
		g, err := a.Acquire(t.Context(), "vault", local.Request{ID: "h1", Holder: "me"})
		if err != nil || g.ID != "h1" || g.Path != filepath.Join(a.pool().Target, "holdfast/n1/vault") {
			t.Errorf("acquire: %+v, %v", g, err)
		}
	}
	if p := a.pool(); p.State != "ready" || len(p.Holds) != 1 || p.Holds[0].Holder != "me" || p.Holds[0].Kind != "operator" {
		t.Errorf("held: %+v", p)
	}
	for what, r := range map[string]local.Request{"an id of another hold": {ID: "h1", Holder: "other"}, "no id": {Holder: "me"}, "no holder": {ID: "h2"}} {
		if g, err := a.Acquire(t.Context(), "vault", r); err == nil {
			t.Errorf("%s was taken: %+v", what, g)
		}
	}
	if _, err := a.Acquire(t.Context(), "none", local.Request{ID: "h2", Holder: "me"}); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("an unknown pool: %v", err)
	}
	a.down()
	a.boot()
	if p := a.pool(); p.State != "ready" || len(p.Holds) != 1 {
		t.Errorf("after a restart: %+v", p)
	}
	if r, err := a.Release(t.Context(), "h1"); err != nil || !r.Gone || r.Anomaly {
		t.Errorf("release: %+v, %v", r, err)
	}
	if r, err := a.Release(t.Context(), "h1"); err != nil || !r.Anomaly {
		t.Errorf("a second release: %+v, %v", r, err)
	}
}

func TestAnOperatorDetachesWhatHeHasSeen(t *testing.T) {
	a := start(t)
	g, err := a.Acquire(t.Context(), "vault", local.Request{ID: "h1", Holder: "me"})
	if err != nil {
		t.Fatal(err)
	}
	user, err := os.Open(a.pool().Target) // Someone is in it.
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = user.Close() }()
	for _, token := range []string{"", "1-2"} {
		if r, err := a.Detach(t.Context(), "vault", "the server is gone", token); err == nil {
			t.Errorf("the token %q was taken: %+v", token, r)
		}
	}
	if r, err := a.Detach(t.Context(), "vault", "the server is gone", a.pool().Token); err != nil || !r.Gone {
		t.Errorf("detach: %+v, %v", r, err)
	}
	if p := a.pool(); p.State == "ready" || len(p.Holds) != 1 || p.Holds[0].Broken == "" {
		t.Errorf("afterwards: %+v", p)
	}
	if _, err := a.Release(t.Context(), g.ID); err != nil {
		t.Error(err)
	}
}

// holder starts a process that holds the pool, and returns it with what makes it end.
func (a *agent) holder() (p *exec.Cmd, end func()) {
	a.t.Helper()
	p = exec.Command("/proc/self/exe")
	p.Env = append(os.Environ(), holderEnv+"="+a.socket)
	in, err := p.StdinPipe()
	if err != nil {
		a.t.Fatal(err)
	}
	out, err := p.StdoutPipe()
	if err != nil {
		a.t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		a.t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || !strings.HasPrefix(line, "/") {
		a.t.Fatalf("the holder said %q, %v", line, err)
	}
	return p, func() {
		_ = in.Close()
		_ = p.Wait()
	}
}

func TestAHoldOfAProcessGoesWithIt(t *testing.T) {
	a := start(t)
	_, end := a.holder()
	killed, endKilled := a.holder()
	if p := a.pool(); len(p.Holds) != 2 || p.Holds[0].Kind != "job" {
		t.Errorf("held by two: %+v", p)
	}
	end()
	a.await("one is left", func() bool { return len(a.pool().Holds) == 1 })
	if a.pool().State != "ready" {
		t.Error("the pool was taken from under the second")
	}
	_ = killed.Process.Kill()
	endKilled()
	a.await("it goes down", func() bool { return a.pool().State == "absent" })
}

func TestAHoldOfAProcessGoesWithItThoughTheAgentWasRestarted(t *testing.T) {
	a := start(t)
	_, end := a.holder()
	_, endMeanwhile := a.holder()
	a.down()
	endMeanwhile()
	a.boot()
	a.await("that of the dead process is released", func() bool { return len(a.pool().Holds) == 1 })
	end()
	a.await("it goes down", func() bool { return a.pool().State == "absent" })
}

func TestTheSocketIsForRootAlone(t *testing.T) {
	a := start(t)
	info, err := os.Stat(a.socket)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket has the mode %v, %v", info.Mode(), err)
	}
	// Whoever gets at it all the same is asked who he is.
	if err := os.Chmod(filepath.Dir(a.socket), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(filepath.Dir(a.socket)), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(a.socket, 0o666); err != nil {
		t.Fatal(err)
	}
	curl := exec.Command("curl", "-s", "--unix-socket", a.socket, "http://agent/pools")
	curl.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := curl.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "only root") {
		t.Errorf("nobody got %q, %v", out, err)
	}
}

func TestRequestsThatAreNotUnderstoodAreRefused(t *testing.T) {
	a := start(t)
	for path, want := range map[string]int{"/nothing": http.StatusNotFound, "/pools/none": http.StatusNotFound} {
		res, err := a.get(path)
		if err != nil || res != want {
			t.Errorf("%s: %d, %v", path, res, err)
		}
	}
}

func (a *agent) get(path string) (int, error) {
	out, err := exec.Command("curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "--unix-socket", a.socket, "http://agent"+path).Output()
	if err != nil {
		return 0, err
	}
	var code int
	_, err = fmt.Sscan(string(out), &code)
	return code, err
}

func TestAConnectionThatIsNoSocketOfThisHostIsRefused(t *testing.T) {
	s := httptest.NewServer(local.Handler(&local.Server{}))
	defer s.Close()
	res, err := http.Get(s.URL + "/pools")
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusForbidden {
		t.Errorf("status %d", res.StatusCode)
	}
}
