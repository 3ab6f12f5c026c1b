// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/agent/fakeagent"
	"github.com/holdfast-storage/holdfast/internal/catalog"
	"github.com/holdfast-storage/holdfast/internal/converge"
	"github.com/holdfast-storage/holdfast/internal/dispatch"
	"github.com/holdfast-storage/holdfast/internal/inventory"
	"github.com/holdfast-storage/holdfast/internal/kv/kvtest"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/passphrase"
	"github.com/holdfast-storage/holdfast/internal/resources"
	"github.com/holdfast-storage/holdfast/internal/rest"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/snapshots"
	"github.com/holdfast-storage/holdfast/internal/store"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

// cluster is a controller on the memory engine, reached over HTTP, with agents in memory.
type cluster struct {
	*testing.T
	engine *kvtest.Memory
	store  *store.Store
	seen   *observed.State
	server *rest.Server
	http   *httptest.Server
	dial   func(string) (*grpc.ClientConn, error)
	agents map[string]*agent

	measured chan rest.Measurement // one for each answered request
	mu       sync.Mutex
	logged   bytes.Buffer
}

// agent is a simulated agent that can be stopped and started again.
type agent struct {
	*fakeagent.Agent
	stop func()
}

// newCluster starts a controller without nodes. It ends with the test.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	return newClusterAt(t, time.Now)
}

func newClusterAt(t *testing.T, now func() time.Time) *cluster {
	t.Helper()
	c := &cluster{T: t, engine: kvtest.NewMemory(), seen: observed.New(time.Now), agents: make(map[string]*agent)}
	c.measured = make(chan rest.Measurement, 10_000)
	st, err := store.Open(t.Context(), c.engine, schema.Collections(), store.Paranoid(), store.Retry(time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	c.store = st
	ids := newIDs()
	if err := schema.Bootstrap(t.Context(), st, ids()); err != nil {
		t.Fatal(err)
	}
	var use *resources.Resources
	var snaps *snapshots.Snapshots
	hosts := dispatch.New(dispatch.Config{
		Store: st, Observed: c.seen,
		Destroyed: func(ctx context.Context, _ model.NodeKey, gone []dispatch.Gone) error {
			list := make([]resources.Gone, len(gone))
			for i, g := range gone {
				list[i] = resources.Gone(g)
			}
			return use.Destroyed(ctx, list)
		},
		SnapshotsDestroyed: func(ctx context.Context, _ model.NodeKey, gone []dispatch.SnapshotGone) error {
			list := make([]snapshots.Gone, len(gone))
			for i, g := range gone {
				list[i] = snapshots.Gone(g)
			}
			return snaps.Destroyed(ctx, list)
		},
	})
	cat := &catalog.Catalog{Store: st, NewID: ids, Now: now}
	use = &resources.Resources{
		Store: st, Observed: c.seen, Hosts: hosts, Catalog: cat, NewID: ids, Now: now, Patience: 20 * time.Second,
	}
	snaps = &snapshots.Snapshots{Store: st, Observed: c.seen, Hosts: hosts, Resources: use, NewID: ids, Now: now, Patience: 20 * time.Second}
	c.server = &rest.Server{
		Store: st, Observed: c.seen, Catalog: cat, Resources: use, Snapshots: snaps, Keys: &passphrase.Keyring{Store: st, Rounds: 1},
		Inventory: &inventory.Inventory{Store: st, Observed: c.seen, Hosts: hosts, NewID: ids},
		Setup:     rest.Setup{Database: "memory:", Listen: "[::]:3370", LogLevel: new(slog.LevelVar)},
		Build:     rest.Build{Version: "1.34.0", Commit: "abc", Time: "2026-01-02T03:04:05Z"},
		Measure:   func(m rest.Measurement) { c.measured <- m },
		Now:       now,
		Log:       slog.New(slog.NewTextHandler(&locked{mu: &c.mu, w: &c.logged}, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	c.serve(hosts, converge.New(converge.Config{
		Store: st, Observed: c.seen, Worker: worker{use, snaps}, Beside: []func(context.Context){snaps.Run}, RetryFirst: time.Millisecond,
	}))
	return c
}

// worker gives each job to the use cases that it belongs to.
type worker struct {
	*resources.Resources
	snapshots *snapshots.Snapshots
}

func (w worker) Work(ctx context.Context, j schema.Job, progress resources.Progress) schema.JobTry {
	if j.Kind == schema.CloneDefinition {
		return w.snapshots.Work(ctx, j, progress)
	}
	return w.Resources.Work(ctx, j, progress)
}

// serve listens for agents and clients until the test ends.
func (c *cluster) serve(hosts *dispatch.Server, loops *converge.Loops) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(c.Context()))
	var running sync.WaitGroup
	running.Go(func() { _ = hosts.Run(ctx) })
	running.Go(func() { _ = loops.Run(ctx) })
	listener := bufconn.Listen(1 << 16)
	transport := grpc.NewServer()
	agentpb.RegisterAgentServer(transport, hosts)
	go func() { _ = transport.Serve(listener) }()
	c.dial = func(string) (*grpc.ClientConn, error) {
		return grpc.NewClient("passthrough:///cluster", grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	}
	c.http = httptest.NewServer(c.server.Handler())
	c.Cleanup(func() {
		c.http.Close()
		for _, a := range c.agents {
			a.stop()
		}
		cancel()
		running.Wait()
		transport.Stop()
		_ = c.store.Close()
	})
}

// newIDs makes UUIDs that are the same in each run.
func newIDs() func() string {
	var n atomic.Int64
	return func() string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n.Add(1)) }
}

// log returns what was logged so far.
func (c *cluster) log() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.logged.String()
}

// locked is a writer for several goroutines.
type locked struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// node registers a node and starts its agent, which is ONLINE when node returns.
func (c *cluster) node(name string) *agent {
	c.Helper()
	octet := len(c.agents) + 1
	c.must(http.StatusCreated, "POST", "/v1/nodes", fmt.Sprintf(
		`{"name":%q,"type":"Satellite","net_interfaces":[{"name":"default","address":"10.0.0.%d"}]}`, name, octet))
	a := &agent{Agent: &fakeagent.Agent{Node: name, Dial: c.dial}}
	c.agents[name] = a
	c.start(a)
	return a
}

// start runs an agent until it is ONLINE.
func (c *cluster) start(a *agent) {
	c.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(c.Context()))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = a.Run(ctx)
	}()
	a.stop = func() {
		cancel()
		<-ended
	}
	c.connection(a.Node, observed.Online)
}

// halt stops an agent, which is OFFLINE when halt returns.
func (c *cluster) halt(a *agent) {
	c.Helper()
	a.stop()
	c.connection(a.Node, observed.Offline)
}

// connection waits until a node has a connection.
func (c *cluster) connection(name string, want observed.Connection) {
	c.Helper()
	key := model.NodeName(name).Key()
	c.until(func() bool { return c.seen.Node(key).Connection == want })
}

// until waits until something that is observed of the hosts holds.
func (c *cluster) until(holds func() bool) {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), time.Minute)
	defer cancel()
	changes := c.seen.Subscribe(ctx)
	if holds() {
		return
	}
	for range changes {
		if holds() {
			return
		}
	}
	c.Fatal("it did not come to hold within a minute")
}

// pool makes a pool on a node and waits until its space is known.
func (c *cluster) pool(node, name, provider string) {
	c.Helper()
	c.must(http.StatusCreated, "POST", "/v1/nodes/"+node+"/storage-pools", fmt.Sprintf(
		`{"storage_pool_name":%q,"provider_kind":%q,"props":{"StorDriver/StorPoolName":"/data/%s"}}`, name, provider, name))
	id := model.PoolID{Node: model.NodeName(node).Key(), Pool: model.PoolName(name).Key()}
	c.until(func() bool {
		p, _ := c.seen.Pool(id)
		return p.Free != nil
	})
}

// answer is what came back from a request.
type answer struct {
	*testing.T
	status int
	header http.Header
	body   []byte
}

// do sends a request. An empty body is none.
func (c *cluster) do(method, path, body string, header ...string) answer {
	c.Helper()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	return c.send(method, path, r, header...)
}

func (c *cluster) send(method, path string, body io.Reader, header ...string) answer {
	c.Helper()
	req, err := http.NewRequestWithContext(c.Context(), method, c.http.URL+path, body)
	if err != nil {
		c.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		c.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		c.Fatal(err)
	}
	return answer{T: c.T, status: resp.StatusCode, header: resp.Header, body: b}
}

// must sends a request whose status is known.
func (c *cluster) must(status int, method, path, body string) answer {
	c.Helper()
	a := c.do(method, path, body)
	if a.status != status {
		c.Fatalf("%s %s: status %d, want %d: %s", method, path, a.status, status, a.body)
	}
	return a
}

// entries reads an answer that is a list of entries, and checks what every such list keeps to.
func (a answer) entries() wire.RcList {
	a.Helper()
	var l wire.RcList
	a.into(&l)
	if len(l) == 0 {
		a.Fatal("the list of entries is empty")
	}
	for _, e := range l {
		if e.Message == "" || e.CreatedAt == "" {
			a.Errorf("the entry %+v has no message or no time", e)
		}
	}
	return l
}

// into reads a JSON answer.
func (a answer) into(v any) {
	a.Helper()
	if kind := a.header.Get("Content-Type"); kind != "application/json" {
		a.Fatalf("the answer is %q: %s", kind, a.body)
	}
	if bytes.Contains(a.body, []byte("null")) && strings.Contains(noStrings(a.body), "null") {
		a.Errorf("the answer has a null: %s", a.body)
	}
	if err := json.Unmarshal(a.body, v); err != nil {
		a.Fatalf("%v: %s", err, a.body)
	}
}

// noStrings is JSON without the content of its strings.
func noStrings(b []byte) string {
	var out strings.Builder
	in := false
	for i := 0; i < len(b); i++ {
		switch {
		case in && b[i] == '\\':
			i++
		case b[i] == '"':
			in = !in
		case !in:
			out.WriteByte(b[i])
		}
	}
	return out.String()
}

// code fails the test unless the first error, or else the first entry, has a code.
func (a answer) code(status int, want wire.RetCode) wire.Rc {
	a.Helper()
	l := a.entries()
	e, failed := l.FirstError()
	if !failed {
		e = l[0]
	}
	if a.status != status || !e.RetCode.Is(want) {
		a.Errorf("status %d, %s; want %d, %s: %s", a.status, e.RetCode, status, want, a.body)
	}
	return e
}

// read gets an object.
func read[T any](c *cluster, path string) T {
	c.Helper()
	var v T
	c.must(http.StatusOK, "GET", path, "").into(&v)
	return v
}
