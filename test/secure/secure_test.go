// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package secure_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/agent"
	"github.com/holdfast-storage/holdfast/internal/agent/fakeagent"
	"github.com/holdfast-storage/holdfast/internal/identity/authority"
	"github.com/holdfast-storage/holdfast/internal/identity/keeper"
	"github.com/holdfast-storage/holdfast/internal/kv/kvtest"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/test/cluster"
)

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

func (j *journal) has(text string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Contains(j.text.String(), text)
}

// member is a host whose agent keeps its identity as the real one does.
type member struct {
	*fakeagent.Agent
	*keeper.Keeper
	t     *testing.T
	c     *cluster.Cluster
	log   journal
	state string // folder
	token string // file
}

// newMember registers a node and starts the agent of its host, which has no token yet.
func newMember(t *testing.T, c *cluster.Cluster, node string) *member {
	t.Helper()
	return newMemberWith(t, c, node, agent.Limits{RedialMost: 200 * time.Millisecond})
}

func newMemberWith(t *testing.T, c *cluster.Cluster, node string, limits agent.Limits) *member {
	t.Helper()
	m := &member{Agent: c.Register(node), t: t, c: c, state: t.TempDir()}
	m.token = filepath.Join(m.state, "token")
	log := slog.New(slog.NewTextHandler(&m.log, nil))
	m.Keeper = keeper.New(keeper.Config{
		Node: node, Dir: m.state, Addresses: []string{c.AgentAddress}, TokenFile: m.token, Log: log,
	})
	m.Agent.Dial, m.Addresses, m.Log, m.Limits = m.Keeper.Dial, []string{c.AgentAddress}, log, limits
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { m.Keeper.Run(ctx) })
	running.Go(func() {
		if err := m.Agent.Run(ctx); err != nil {
			t.Errorf("the agent of %s ended with %v", node, err)
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
		if t.Failed() {
			t.Logf("the log of %s:\n%s", node, m.log.text.String())
		}
	})
	return m
}

// give gives the host a new token.
func (m *member) give() {
	m.t.Helper()
	token, _, err := m.c.Identity.NewToken(m.t.Context(), m.Node, 0)
	if err != nil {
		m.t.Fatal(err)
	}
	m.replace(m.token, []byte(token.Text()))
}

// replace replaces a file as a whole.
func (m *member) replace(path string, text []byte) {
	m.t.Helper()
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		m.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		m.t.Fatal(err)
	}
}

func (m *member) identity() string { return filepath.Join(m.state, keeper.Name) }

func (m *member) is(connection observed.Connection) bool {
	return m.c.Observed.Node(model.NodeName(m.Node).Key()).Connection == connection
}

func (m *member) awaits(connection observed.Connection) {
	m.t.Helper()
	m.c.Until(func() bool { return m.is(connection) })
}

// expires is when the certificate expires that the agent called with last.
func expires(a *authority.Authority, node string) time.Time {
	for _, e := range a.Expiries() {
		if e.Node == model.NodeName(node).Key() {
			return e.At
		}
	}
	return time.Time{}
}

func call(t *testing.T, c *cluster.Cluster, method, path, body string) (int, string) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), method, c.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Body.Close(); err != nil {
		t.Fatal(err)
	}
	return a.StatusCode, string(text)
}

// spawn makes volumes with a replica each, and deletes them.
func spawn(t *testing.T, c *cluster.Cluster, n int) {
	t.Helper()
	group := `{"name":"group","select_filter":{"place_count":1,"layer_stack":["STORAGE"]}}`
	if code, text := call(t, c, "POST", "/v1/resource-groups", group); code != http.StatusCreated {
		t.Fatalf("create a group: %d %s", code, text)
	}
	for i := range n {
		body := fmt.Sprintf(`{"resource_definition_name":"vol-%d","volume_sizes":[1024]}`, i)
		if code, text := call(t, c, "POST", "/v1/resource-groups/group/spawn", body); code != http.StatusCreated {
			t.Fatalf("spawn: %d %s", code, text)
		}
	}
	for i := range n {
		if code, text := call(t, c, "DELETE", fmt.Sprintf("/v1/resource-definitions/vol-%d", i), ""); code != http.StatusOK {
			t.Fatalf("delete: %d %s", code, text)
		}
	}
}

func TestAClusterWorksOverTLS(t *testing.T) {
	c := cluster.Start(t, cluster.Options{TLS: true, Nodes: 3})
	spawn(t, c, 20)
	c.StopAgent("n2")
	c.StartAgent("n2")
	c.Check()
}

func TestAHostJoinsTheControllerAndIsTakenInAgain(t *testing.T) {
	c := cluster.Start(t, cluster.Options{TLS: true})
	m := newMember(t, c, "n1")
	c.Until(func() bool { return m.log.has("this host has not joined yet") })
	m.give()
	m.awaits(observed.Online)
	c.AddPool("n1", cluster.Pool)
	spawn(t, c, 3)

	// The node is deleted while its agent is there, and comes back by a new token.
	for _, path := range []string{"/v1/resource-groups/group", "/v1/nodes/n1/storage-pools/" + cluster.Pool, "/v1/nodes/n1"} {
		if code, text := call(t, c, "DELETE", path, ""); code != http.StatusOK {
			t.Fatalf("delete %s: %d %s", path, code, text)
		}
	}
	c.Until(func() bool { return m.log.has("node n1 is not registered any more") })
	body := `{"name":"n1","net_interfaces":[{"name":"default","address":"127.0.0.1"}]}`
	if code, text := call(t, c, "POST", "/v1/nodes", body); code != http.StatusCreated {
		t.Fatalf("create the node again: %d %s", code, text)
	}
	c.Until(func() bool { return m.log.has("earlier node of the name n1") })
	if m.is(observed.Online) {
		t.Error("the node is online by the certificate of the one before")
	}
	m.give()
	m.awaits(observed.Online)
	c.Check()
}

func TestAnAgentCannotActAsAnotherNode(t *testing.T) {
	c := cluster.Start(t, cluster.Options{TLS: true})
	m := newMember(t, c, "n1")
	m.give()
	m.awaits(observed.Online)
	other := newMember(t, c, "n2")
	other.give()
	other.awaits(observed.Online)
	conn, err := m.Keeper.Dial(c.AgentAddress)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	agents := agentpb.NewAgentClient(conn)
	stream, err := agents.Session(t.Context(), &agentpb.Hello{Node: "n2", Protocol: 1})
	if err == nil {
		_, err = stream.Recv()
	}
	_, reported := agents.Report(t.Context(), &agentpb.ReportRequest{Node: "n2", Session: "any"})
	_, answered := agents.Answer(t.Context(), &agentpb.AnswerRequest{Node: "n2", Session: "any"})
	for what, err := range map[string]error{"session": err, "report": reported, "answer": answered} {
		if status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "certificate of node n1") {
			t.Errorf("%s: got %v", what, err)
		}
	}
	if st := c.Dispatch.Sessions(); st.Superseded != 0 || !other.is(observed.Online) {
		t.Errorf("the session of n2 was touched: %+v", st)
	}
}

func TestConnectionsAreMadeAnewWithoutAnEndOfTheSession(t *testing.T) {
	c := cluster.Start(t, cluster.Options{TLS: true, Renewed: 100 * time.Millisecond})
	m := newMember(t, c, "n1")
	m.give()
	m.awaits(observed.Online)
	c.AddPool("n1", cluster.Pool)
	began := m.Sessions()
	before := expires(c.Identity, "n1")
	spawn(t, c, 10)

	// Another certificate is taken up while the session goes on.
	c.Until(func() bool { return time.Since(before.Add(-90*24*time.Hour)) > 2*time.Second }) // times in certificates are in seconds
	m.replace(m.identity(), renewed(t, m))
	c.Until(func() bool {
		code, text := call(t, c, "GET", "/v1/nodes/n1", "")
		if code != http.StatusOK || !strings.Contains(text, `"ONLINE"`) {
			t.Errorf("the node is not online: %s", text)
		}
		return expires(c.Identity, "n1").After(before)
	})
	if st := c.Dispatch.Sessions(); m.Sessions() != began || st.Superseded != 0 {
		t.Errorf("the session has ended: %d were begun, %d before; %+v", m.Sessions(), began, st)
	}
}

// renewed is the file of a host's identity with another certificate.
func renewed(t *testing.T, m *member) []byte {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(m.state)); err != nil {
		t.Fatal(err)
	}
	// To a clock that is ahead the certificate is due.
	k := keeper.New(keeper.Config{
		Node: m.Node, Dir: dir, Addresses: []string{m.c.AgentAddress}, Now: func() time.Time { return time.Now().Add(70 * 24 * time.Hour) },
	})
	before, err := k.Expires()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { k.Run(ctx) })
	m.c.Until(func() bool {
		now, err := k.Expires()
		return err == nil && now.After(before)
	})
	cancel()
	running.Wait()
	text, err := os.ReadFile(filepath.Join(dir, keeper.Name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestANodeWhoseTLSIsBrokenComesBackByItselfWhenItIsMended(t *testing.T) {
	c, strange := cluster.Start(t, cluster.Options{TLS: true}), cluster.Start(t, cluster.Options{TLS: true})
	m := newMemberWith(t, c, "n1", agent.Limits{}) // the pauses that operators see
	m.give()
	m.awaits(observed.Online)
	good, err := os.ReadFile(m.identity())
	if err != nil {
		t.Fatal(err)
	}
	other := newMember(t, strange, "n1")
	other.give()
	other.awaits(observed.Online)
	foreign, err := os.ReadFile(other.identity())
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		text []byte
		said string
	}{
		"of another cluster": {foreign, "it is not a controller of this cluster"},
		"spoiled":            {good[:100], "cannot be used"},
	} {
		t.Run(name, func(t *testing.T) {
			m.replace(m.identity(), tt.text)
			m.DropSession()
			m.awaits(observed.Offline)
			c.Until(func() bool { return m.log.has(tt.said) })
			m.replace(m.identity(), good)
			mended := time.Now()
			m.awaits(observed.Online)
			if took := time.Since(mended); took > 10*time.Second {
				t.Errorf("the node was OFFLINE for %s after it was mended", took)
			}
		})
	}
}

func TestAControllerThatStartsAgainIsTheSameToItsAgents(t *testing.T) {
	disk := kvtest.NewMemory()
	first := cluster.Start(t, cluster.Options{TLS: true, Engine: disk})
	first.Register("n1")
	want := first.Identity.Fingerprint()
	token, _, err := first.Identity.NewToken(t.Context(), "n1", 0)
	if err != nil {
		t.Fatal(err)
	}
	disk.Crash()
	second := cluster.Start(t, cluster.Options{TLS: true, Engine: disk.Peer()})
	if got := second.Identity.Fingerprint(); got != want {
		t.Errorf("the authority was %s and is %s", want, got)
	}
	k := keeper.New(keeper.Config{Node: "n1", Dir: t.TempDir(), Addresses: []string{second.AgentAddress}, Token: token.Text()})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { k.Run(ctx) })
	second.Until(func() bool {
		_, err := k.Credential()
		return err == nil
	})
	cancel()
	running.Wait()
}
