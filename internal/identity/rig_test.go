// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/identity"
	"github.com/holdfast-storage/holdfast/internal/identity/authority"
	"github.com/holdfast-storage/holdfast/internal/identity/keeper"
	"github.com/holdfast-storage/holdfast/internal/kv/kvtest"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// clock is a clock that a test sets. Its zero value shows the time.
type clock struct{ ahead atomic.Int64 }

func (c *clock) Now() time.Time        { return time.Now().Add(time.Duration(c.ahead.Load())) }
func (c *clock) turn(by time.Duration) { c.ahead.Add(int64(by)) }

// journal is a log that a test can read.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

func (j *journal) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(j, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// controller is as much of a controller as agents see of its identity.
type controller struct {
	t         testing.TB
	engine    *kvtest.Memory
	store     *store.Store
	authority *authority.Authority
	clock     clock
	log       journal
	calls     atomic.Int64 // reports that were admitted
	loseJoin  atomic.Bool  // the next answer to a join gets lost

	mu       sync.Mutex
	listener *bufconn.Listener
	server   *grpc.Server
}

func newController(tb testing.TB) *controller {
	tb.Helper()
	c := &controller{t: tb, engine: kvtest.NewMemory()}
	st, err := store.Open(tb.Context(), c.engine, schema.Collections(), store.Paranoid(), store.Retry(time.Second))
	if err != nil {
		tb.Fatal(err)
	}
	c.store = st
	c.authority = c.open()
	c.start(c.authority.ServerOptions()...)
	tb.Cleanup(func() {
		c.stop()
		_ = st.Close()
	})
	return c
}

func (c *controller) open() *authority.Authority {
	c.t.Helper()
	a, err := authority.Open(c.t.Context(), authority.Config{Store: c.store, Now: c.clock.Now, Log: c.log.logger()})
	if err != nil {
		c.t.Fatal(err)
	}
	return a
}

// start serves agents.
func (c *controller) start(opts ...grpc.ServerOption) {
	l, s := bufconn.Listen(1<<20), grpc.NewServer(append(opts, grpc.WaitForHandlers(true), grpc.UnaryInterceptor(c.lose))...)
	agentpb.RegisterIdentityServer(s, c.authority)
	agentpb.RegisterAgentServer(s, reports{controller: c})
	c.mu.Lock()
	c.listener, c.server = l, s
	c.mu.Unlock()
	go func() { _ = s.Serve(l) }()
}

func (c *controller) stop() { c.server.Stop() }

func (c *controller) lose(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	answer, err := handle(ctx, req)
	if _, join := req.(*agentpb.JoinRequest); join && err == nil && c.loseJoin.CompareAndSwap(true, false) {
		return nil, status.Error(codes.Unavailable, "the answer was lost")
	}
	return answer, err
}

// dialer makes every address lead here.
func (c *controller) dialer() grpc.DialOption {
	return grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		c.mu.Lock()
		l := c.listener
		c.mu.Unlock()
		return l.DialContext(ctx)
	})
}

const address = "passthrough:///controller"

// reports is the service of which calls must be admitted.
type reports struct {
	agentpb.UnimplementedAgentServer
	controller *controller
}

func (r reports) Report(ctx context.Context, req *agentpb.ReportRequest) (*agentpb.ReportReply, error) {
	if err := r.controller.authority.Admit(ctx, model.NodeName(req.GetNode()).Key()); err != nil {
		return nil, status.Error(codes.PermissionDenied, err.Error())
	}
	r.controller.calls.Add(1)
	return &agentpb.ReportReply{}, nil
}

// register registers a node.
func (c *controller) register(name model.NodeName) {
	c.t.Helper()
	c.update(func(tx *store.Tx) error {
		return schema.Nodes.Insert(tx, schema.Node{Name: name, UUID: uuid.NewString(), Type: model.SatelliteNode})
	})
}

// remove deletes a node.
func (c *controller) remove(name model.NodeName) {
	c.t.Helper()
	c.update(func(tx *store.Tx) error { return schema.Nodes.Delete(tx, name.Key()) })
}

func (c *controller) update(fn func(*store.Tx) error) {
	c.t.Helper()
	if _, err := schema.Update(c.t.Context(), c.store, fn); err != nil {
		c.t.Fatal(err)
	}
}

// dialAs makes a connection with a credential that was issued without a token.
func (c *controller) dialAs(tb testing.TB, node model.NodeName) *grpc.ClientConn {
	tb.Helper()
	conn, err := grpc.NewClient(address, c.dialer(), grpc.WithTransportCredentials(identity.Transport(func() (identity.Credential, error) {
		return c.authority.Issue(node)
	}, c.clock.Now)))
	if err != nil {
		tb.Fatal(err)
	}
	return conn
}

// token makes a join token.
func (c *controller) token(node string) identity.Token {
	c.t.Helper()
	token, _, err := c.authority.NewToken(c.t.Context(), node, 0)
	if err != nil {
		c.t.Fatal(err)
	}
	return token
}

// host is a host with a state folder.
type host struct {
	*keeper.Keeper
	t    *testing.T
	dir  string
	log  *journal
	conf keeper.Config
}

// newHost makes a host which is to join as a node with a token; without one when text is empty.
func newHost(t *testing.T, c *controller, node, text string) *host {
	t.Helper()
	h := &host{t: t, dir: t.TempDir(), log: &journal{}}
	h.conf = keeper.Config{
		Node: node, Dir: h.dir, Token: text, Addresses: []string{address}, Options: []grpc.DialOption{c.dialer()},
		Now: c.clock.Now, Log: h.log.logger(),
	}
	h.restart()
	return h
}

// restart makes the keeper anew, as the start of an agent does.
func (h *host) restart() { h.Keeper = keeper.New(h.conf) }

func (h *host) path() string { return filepath.Join(h.dir, keeper.Name) }

// run runs the keeper until ok holds, and fails the test when that takes long.
func (h *host) run(ok func() bool) {
	h.t.Helper()
	defer running(h)()
	until(h.t, h.log, ok)
}

// until waits until ok holds, and fails the test when that takes long.
func until(t *testing.T, log *journal, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("what was waited for did not come; the log is:\n%s", log)
		}
	}
}

func (h *host) joined() bool {
	_, err := h.Credential()
	return err == nil
}

func (h *host) logged(text string) func() bool {
	return func() bool { return strings.Contains(h.log.String(), text) }
}

// join runs the keeper until the host has joined.
func (h *host) join() {
	h.t.Helper()
	h.run(h.joined)
}

// report makes a call as a node, over a new connection.
func (h *host) report(node string) error {
	conn, err := h.Dial(address)
	if err != nil {
		return err
	}
	return errors.Join(report(h.t.Context(), conn, node), conn.Close())
}

func report(ctx context.Context, conn *grpc.ClientConn, node string) error {
	_, err := agentpb.NewAgentClient(conn).Report(ctx, &agentpb.ReportRequest{Node: node})
	return err
}

// joinedHost is a host that has joined as a new node.
func joinedHost(t *testing.T, c *controller, node model.NodeName) *host {
	t.Helper()
	c.register(node)
	h := newHost(t, c, string(node), c.token(string(node)).Text())
	h.join()
	return h
}

// says fails the test unless err has a code and a text with all words.
func says(tb testing.TB, err error, code codes.Code, words ...string) {
	tb.Helper()
	if status.Code(err) != code {
		tb.Errorf("got the code %s of %v, want %s", status.Code(err), err, code)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			tb.Errorf("the error does not say %q: %v", w, err)
		}
	}
}

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func mustWrite(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func containsAll(text string, words ...string) bool {
	for _, w := range words {
		if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}

// counting counts calls.
func counting(n *int) grpc.DialOption {
	return grpc.WithChainUnaryInterceptor(func(
		ctx context.Context, method string, req, answer any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
	) error {
		*n++
		return invoke(ctx, method, req, answer, conn, opts...)
	})
}

func closed(tb testing.TB, c io.Closer) {
	tb.Helper()
	if err := c.Close(); err != nil {
		tb.Error(err)
	}
}
