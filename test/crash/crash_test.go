// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package crash_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-storage/holdfast/internal/controller"
	"github.com/holdfast-storage/holdfast/internal/kv/boltkv"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// The variables that make this test binary the controller that is killed.
const (
	dirVariable  = "HOLDFAST_CRASH_DIR"
	addrVariable = "HOLDFAST_CRASH_ADDR"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(dirVariable); dir != "" {
		if err := serve(dir, os.Getenv(addrVariable)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// serve is a controller until it is killed.
func serve(dir, addr string) error {
	ctx := context.Background()
	k, err := controller.New(ctx, controller.Config{Engine: boltkv.New(filepath.Join(dir, "holdfast.db"))})
	if err != nil {
		return err
	}
	clients, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	agents, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	return k.Serve(ctx, agents, clients)
}

// server is a controller in a process of its own.
type server struct {
	t   *testing.T
	dir string
	url string
	cmd *exec.Cmd
}

func (s *server) start() {
	s.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		s.t.Fatal(err)
	}
	s.url = "http://" + addr
	s.cmd = exec.Command(os.Args[0])
	s.cmd.Env = append(os.Environ(), dirVariable+"="+s.dir, addrVariable+"="+addr)
	s.cmd.Stderr = os.Stderr
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	ready, cancel := context.WithTimeout(s.t.Context(), 10*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if code, _, err := s.call(ready, "GET", "/health", ""); err == nil && code == http.StatusOK {
			return
		}
		select {
		case <-tick.C:
		case <-ready.Done():
			s.t.Fatal("the controller was not ready in 10 s")
		}
	}
}

func (s *server) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

func (s *server) call(ctx context.Context, method, path, body string) (int, string, error) {
	q, err := http.NewRequestWithContext(ctx, method, s.url+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		return 0, "", err
	}
	text, err := io.ReadAll(a.Body)
	return a.StatusCode, string(text), errors.Join(err, a.Body.Close())
}

// object is a definition that one client alone works on, so that what was acknowledged of it
// is known. When a call was not answered, either state may be found.
type object struct {
	name   string
	exists bool
	value  int // of its property
	group  string

	pending bool // the last call was not answered
	was     *object
}

// step makes one call about the object, and notes what it was answered.
func (o *object) step(ctx context.Context, s *server, r *rand.Rand) error {
	before := *o
	before.was = nil
	o.was, o.pending = &before, true
	var method, path, body string
	switch {
	case !o.exists:
		o.exists, o.value, o.group = true, 0, "DfltRscGrp"
		method, path = "POST", "/v1/resource-groups/DfltRscGrp/spawn"
		body = fmt.Sprintf(`{"resource_definition_name":%q,"volume_sizes":[1024,2048],"definitions_only":true}`, o.name)
	case r.IntN(4) == 0:
		o.exists = false
		method, path = "DELETE", "/v1/resource-definitions/"+o.name
	case r.IntN(3) == 0:
		o.group = fmt.Sprintf("other-%d", r.IntN(3))
		method, path = "PUT", "/v1/resource-definitions/"+o.name
		body = fmt.Sprintf(`{"resource_group":%q}`, o.group)
	default:
		o.value = r.IntN(1000) + 1
		method, path = "PUT", "/v1/resource-definitions/"+o.name
		body = fmt.Sprintf(`{"override_props":{"Aux/value":"%d"}}`, o.value)
	}
	code, text, err := s.call(ctx, method, path, body)
	if err != nil {
		return err
	}
	o.pending, o.was = false, nil
	if code >= 300 {
		return fmt.Errorf("%s %s: %w: %d %s", method, path, errRefused, code, text)
	}
	return nil
}

var errRefused = errors.New("refused")

// verify looks at the object after a kill, and takes over which of two possible states it has.
func (o *object) verify(ctx context.Context, s *server) error {
	code, text, err := s.call(ctx, "GET", "/v1/resource-definitions/"+o.name, "")
	if err != nil {
		return err
	}
	if o.matches(code, text) {
		o.pending, o.was = false, nil
		return nil
	}
	if o.pending && o.was.matches(code, text) {
		*o = *o.was
		return nil
	}
	return fmt.Errorf("%s: found %d %s, want %+v (or %+v)", o.name, code, text, *o, o.was)
}

func (o *object) matches(code int, text string) bool {
	if !o.exists {
		return code == http.StatusNotFound
	}
	value := fmt.Sprintf(`"Aux/value":"%d"`, o.value)
	if o.value == 0 {
		value = `"name":`
	}
	return code == http.StatusOK && strings.Contains(text, value) && strings.Contains(text, fmt.Sprintf(`"resource_group_name":%q`, o.group))
}

func TestAKilledControllerLosesNoAcknowledgedWrite(t *testing.T) {
	const kills, clients, objects = 12, 6, 10
	s := &server{t: t, dir: t.TempDir()}
	s.start()
	defer func() { s.kill() }()
	for i := range 3 {
		if code, text, err := s.call(t.Context(), "POST", "/v1/resource-groups", fmt.Sprintf(`{"name":"other-%d"}`, i)); err != nil || code != http.StatusCreated {
			t.Fatal(code, text, err)
		}
	}
	owned := make([][]*object, clients)
	for c := range owned {
		for i := range objects {
			owned[c] = append(owned[c], &object{name: fmt.Sprintf("vol-%d-%d", c, i)})
		}
	}
	acknowledged := 0
	for round := range kills {
		acknowledged += work(t, s, owned, uint64(round))
		s.start()
		for _, list := range owned {
			for _, o := range list {
				if err := o.verify(t.Context(), s); err != nil {
					t.Errorf("after kill %d: %v", round+1, err)
				}
			}
		}
	}
	s.kill()
	t.Logf("%d kills, %d acknowledged writes", kills, acknowledged)
	check(t, s.dir)
}

// work lets the clients work until the controller is killed, after some hundred answers.
func work(t *testing.T, s *server, owned [][]*object, round uint64) int {
	t.Helper()
	var answered atomic.Int64
	enough := make(chan struct{})
	limit := 150 + rand.New(rand.NewPCG(round, 1)).Int64N(300)
	var calls sync.WaitGroup
	for c, list := range owned {
		calls.Go(func() {
			r := rand.New(rand.NewPCG(round, uint64(c)+2))
			for {
				err := list[r.IntN(len(list))].step(t.Context(), s, r)
				if errors.Is(err, errRefused) {
					t.Error(err)
				}
				if err != nil {
					return
				}
				if answered.Add(1) == limit {
					close(enough)
				}
			}
		})
	}
	select {
	case <-enough:
	case <-time.After(time.Minute):
		t.Error("the clients got no answers")
	}
	s.kill()
	calls.Wait()
	return int(answered.Load())
}

// check opens the database that the kills have left.
func check(t *testing.T, dir string) {
	t.Helper()
	st, err := store.Open(t.Context(), boltkv.New(filepath.Join(dir, "holdfast.db")), schema.Collections())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}()
	if aside := st.SetAside(); len(aside) > 0 {
		t.Errorf("rows were set aside: %v", aside)
	}
	for _, p := range schema.Check(st.Snapshot()) {
		t.Errorf("schema check: %s", p)
	}
}
