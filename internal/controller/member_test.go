// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/holdfast-storage/holdfast/internal/agent/fakeagent"
	"github.com/holdfast-storage/holdfast/internal/controller"
	"github.com/holdfast-storage/holdfast/internal/inventory"
	"github.com/holdfast-storage/holdfast/internal/kv"
	"github.com/holdfast-storage/holdfast/internal/kv/etcdkv"
	"github.com/holdfast-storage/holdfast/internal/kv/etcdkv/etcdtest"
	"github.com/holdfast-storage/holdfast/internal/kv/kvtest"
	"github.com/holdfast-storage/holdfast/internal/leader"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
)

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// eventually waits until a condition holds, which it must do soon.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline, tick := time.After(30*time.Second), time.NewTicker(10*time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("it does not come: %s", what)
		}
	}
}

// log is a log that tests read.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) says(what string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), what)
}

// serving is a controller that serves until it is stopped.
type serving struct {
	*controller.Controller
	log         *log
	url, agents string
	stop        func()
}

func serve(t *testing.T, e kv.Engine) *serving {
	t.Helper()
	s := &serving{log: &log{}}
	k, err := controller.New(t.Context(), controller.Config{
		Engine: e, Plaintext: true, AlarmEvery: 20 * time.Millisecond, Log: slog.New(slog.NewTextHandler(s.log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	agents, clients := listen(t), listen(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- k.Serve(ctx, agents, clients) }()
	s.Controller, s.url, s.agents = k, "http://"+clients.Addr().String(), agents.Addr().String()
	s.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(s.stop)
	return s
}

// furnish registers a node and a pool on it.
func furnish(t *testing.T, s *inventory.Inventory, seen *observed.State) {
	t.Helper()
	_, err := s.CreateNode(t.Context(), inventory.NewNode{Name: "n1", Interfaces: []inventory.NewInterface{{Name: "default", Address: "127.0.0.1"}}})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the node is online", func() bool { return seen.Node("n1").Connection == observed.Online })
	_, err = s.CreatePool(t.Context(), "n1", inventory.NewPool{
		Name: "data", Provider: string(model.FileThin), Props: map[string]string{"StorDriver/StorPoolName": "/srv/data"},
	})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the space is known", func() bool {
		p, ok := seen.Pool(model.PoolID{Node: "n1", Pool: "data"})
		return ok && p.Total != nil
	})
}

func post(t *testing.T, url, body string) (int, string) {
	t.Helper()
	a, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	text, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	_ = a.Body.Close()
	return a.StatusCode, string(text)
}

func run(t *testing.T, a *fakeagent.Agent) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func dial(address string) (*grpc.ClientConn, error) {
	return grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
}

// An empty database in front of a host that holds volumes: the log says so and names them, and nothing is removed, neither before nor
// after the node is registered again.
func TestALostDatabaseIsToldAndRemovesNothing(t *testing.T) {
	first := serve(t, kvtest.NewMemory())
	var mu sync.Mutex
	to := first.agents
	a := &fakeagent.Agent{Node: "n1", StateDir: t.TempDir(), Dial: func(string) (*grpc.ClientConn, error) {
		mu.Lock()
		defer mu.Unlock()
		return dial(to)
	}}
	run(t, a)
	furnish(t, first.Inventory, first.Observed)
	if status, text := post(t, first.url+"/v1/resource-groups/DfltRscGrp/spawn",
		`{"resource_definition_name":"precious","volume_sizes":[4096],"select_filter":{"place_count":1}}`); status != 201 {
		t.Fatal(status, text)
	}
	want := a.Volumes()
	if len(want) != 1 {
		t.Fatalf("the host holds %v", want)
	}
	first.stop()

	second := serve(t, kvtest.NewMemory())
	mu.Lock()
	to = second.agents
	mu.Unlock()
	eventually(t, "the alarm of an agent that is not known", func() bool { return second.log.says("an agent that has worked for a database before is not known") })
	furnish(t, second.Inventory, second.Observed)
	eventually(t, "the alarm that names the volumes", func() bool {
		return second.log.says("hosts hold volumes that the database knows nothing of") && second.log.says("n1/data/precious")
	})
	if have := a.Volumes(); !slices.Equal(have, want) {
		t.Errorf("the host holds %v, it held %v", have, want)
	}
}

// member is one of several controllers in this process.
func member(t *testing.T, c *etcdtest.Cluster, name string, clock func() time.Duration) (m *controller.Member, agents, url string, stop func()) {
	t.Helper()
	a, l := listen(t), listen(t)
	self := leader.Candidate{Name: name, API: "http://" + l.Addr().String()}
	settings := etcdkv.Settings{Endpoints: c.Endpoints}
	e, err := leader.New(leader.Settings{Etcd: settings, Self: self, Lease: 2 * time.Second, Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	m = &controller.Member{
		Config: controller.Config{Plaintext: true}, Map: func() (kv.Engine, error) { return etcdkv.New(settings) },
		Election: e, Self: self, Retry: 50 * time.Millisecond,
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Serve(ctx, a, l) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		_ = e.Close()
	})
	t.Cleanup(stop)
	return m, a.Addr().String(), self.API, stop
}

// Agents find the leader among several addresses, at first and after each change, and its answers come through the standby.
func TestAgentsAndClientsFollowTheLeader(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{})
	one, agents1, url1, stop1 := member(t, c, "one", nil)
	eventually(t, "one leads", one.Leads)
	two, agents2, url2, _ := member(t, c, "two", nil)
	a := &fakeagent.Agent{Node: "n1", Addresses: []string{agents2, agents1}, Dial: dial}
	run(t, a)
	if status, text := post(t, url2+"/v1/nodes", `{"name":"n1","type":"SATELLITE","net_interfaces":[{"name":"default","address":"127.0.0.1"}]}`); status != 201 {
		t.Fatal(status, text)
	}
	online := func(url string) bool {
		r, err := http.Get(url + "/v1/nodes/n1")
		if err != nil {
			return false
		}
		defer func() { _ = r.Body.Close() }()
		var n struct {
			Status string `json:"connection_status"`
		}
		return json.NewDecoder(r.Body).Decode(&n) == nil && n.Status == "ONLINE"
	}
	eventually(t, "the node is online by the leader", func() bool { return online(url1) })
	if !online(url2) {
		t.Error("the standby does not show what the leader shows")
	}
	for url, want := range map[string]string{url1: "200 ", url2: "503 this controller stands by; one leads, at " + url1 + "\n"} {
		r, err := http.Get(url + "/health")
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(r.Body)
		_ = r.Body.Close()
		if got := fmt.Sprintf("%d %s", r.StatusCode, text); got != want {
			t.Errorf("%s/health answers %q, want %q", url, got, want)
		}
	}
	began := time.Now()
	stop1()
	eventually(t, "two leads", two.Leads)
	eventually(t, "the node is online by the next leader", func() bool { return online(url2) })
	t.Logf("a leader that stops is followed, with its agents, after %s", time.Since(began).Round(time.Millisecond))
	if status, text := post(t, url2+"/v1/resource-groups", `{"name":"group"}`); status != 201 {
		t.Error(status, text)
	}
}

// A request that one standby has passed on is not passed on again.
func TestRequestsDoNotGoInCircles(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{})
	one, _, _, _ := member(t, c, "one", nil)
	eventually(t, "one leads", one.Leads)
	_, _, url, _ := member(t, c, "two", nil)
	eventually(t, "two stands by", func() bool {
		r, err := http.Get(url + "/v1/nodes")
		if err != nil {
			return false
		}
		_ = r.Body.Close()
		return r.StatusCode == 200
	})
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/resource-groups", strings.NewReader(`{"name":"group"}`))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Holdfast-Forwarded-By", "three")
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	var entries []struct {
		Cause string `json:"cause"`
	}
	if err := json.NewDecoder(r.Body).Decode(&entries); err != nil || r.StatusCode != 503 || len(entries) != 1 || !strings.Contains(entries[0].Cause, "one leads") {
		t.Errorf("it is answered %d %+v, %v", r.StatusCode, entries, err)
	}
}

// A leader whose lease may have ended while it hung serves nothing as the newest state, from the first request on. The clock of the
// test stands for that of the host, which goes on while a process hangs.
func TestALeaderThatHungServesNoOldState(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{})
	begin := time.Now()
	var ahead atomic.Int64
	one, _, url, _ := member(t, c, "one", func() time.Duration { return time.Since(begin) + time.Duration(ahead.Load()) })
	eventually(t, "one leads", one.Leads)
	read := func() (int, string) {
		q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/v1/resource-groups", nil)
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Holdfast-Forwarded-By", "the test: it does not wait for a leader")
		r, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Body.Close()
		return r.StatusCode, r.Header.Get("Warning")
	}
	if status, warning := read(); status != 200 || warning != "" {
		t.Fatalf("the leader answers %d, %q", status, warning)
	}
	for range 3 {
		ahead.Add(int64(time.Hour))
		if status, warning := read(); status == 200 && warning == "" {
			t.Fatal("a leader that hung answers as if nothing had happened")
		}
		eventually(t, "one leads again", one.Leads)
	}
}
