// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/agent"
	"github.com/holdfast-storage/holdfast/internal/agent/fakeagent"
	"github.com/holdfast-storage/holdfast/internal/agent/fakecontroller"
)

const (
	node = "n1"
	mib  = 1 << 20
)

// bench is a controller and a host, and the agent that runs between them. It lives in a
// synctest bubble: its waits take no real time, and a goroutine left over fails the test.
type bench struct {
	t    *testing.T
	ctx  context.Context
	ctrl *fakecontroller.Controller
	host *fakeagent.Host
	log  *logBuffer

	*fakeagent.Agent
	stop func() // ends the agent and waits for it
}

// inBubble runs fn with a bench on which no agent runs yet.
func inBubble(t *testing.T, fn func(*bench)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		b := &bench{t: t, ctx: ctx, ctrl: fakecontroller.Start(), log: &logBuffer{}, stop: func() {}}
		defer b.ctrl.Stop()
		b.Agent = newAgent(b)
		b.StateDir, b.host = dir, &b.Host
		defer func() { b.stop() }()
		fn(b)
	})
}

func newAgent(b *bench) *fakeagent.Agent {
	return &fakeagent.Agent{Node: node, Dial: b.ctrl.Dial, Log: slog.New(slog.NewTextHandler(b.log, nil))}
}

// start runs the agent.
func (b *bench) start() {
	b.t.Helper()
	b.run(func(ctx context.Context) error { return b.Run(ctx) })
}

// startOn runs an agent on another host than the simulated one.
func (b *bench) startOn(h agent.Host, limits agent.Limits) {
	b.t.Helper()
	c := agent.Config{
		Node: node, Dial: func(a string) (agent.Conn, error) { return b.ctrl.Dial(a) }, Host: h, StateDir: b.StateDir,
		Uname: node, Providers: providers(), Layers: layers(), Limits: limits, Log: b.Log,
	}
	b.run(func(ctx context.Context) error { return agent.Run(ctx, c) })
}

func (b *bench) run(fn func(context.Context) error) {
	ctx, cancel := context.WithCancel(b.ctx)
	ended := make(chan error, 1)
	go func() { ended <- fn(ctx) }()
	b.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			b.t.Errorf("agent ended: %v", err)
		}
		b.stop = func() {}
	}
}

// accept returns the next session that the agent opens.
func (b *bench) accept() *fakecontroller.Session {
	b.t.Helper()
	s, err := b.ctrl.Accept(b.ctx)
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

func (b *bench) send(s *fakecontroller.Session, m *agentpb.Assignments) {
	b.t.Helper()
	if err := s.Send(b.ctx, m); err != nil {
		b.t.Fatal(err)
	}
}

// serve starts the agent and sends it a full set, called "1".
func (b *bench) serve(resources ...*agentpb.Resource) *fakecontroller.Session {
	b.t.Helper()
	b.start()
	s := b.accept()
	b.send(s, full("1", resources...))
	return s
}

// await waits for a report.
func (b *bench) await(what string, ok func(fakecontroller.Node) bool) fakecontroller.Node {
	b.t.Helper()
	n, err := b.ctrl.Await(b.ctx, node, ok)
	if err != nil {
		b.t.Fatalf("%s: %v; reported %.2000v; log:\n%.4000s", what, err, n, b.log)
	}
	return n
}

// awaitState waits until a resource has a state and returns its status.
func (b *bench) awaitState(resource string, state agentpb.ResourceStatus_State) *agentpb.ResourceStatus {
	b.t.Helper()
	n := b.await(fmt.Sprintf("%s to be %s", resource, state), func(n fakecontroller.Node) bool {
		return n.Resources[resource].GetState() == state
	})
	return n.Resources[resource]
}

func (b *bench) awaitReady(resource string, generation uint64) *agentpb.ResourceStatus {
	b.t.Helper()
	n := b.await(fmt.Sprintf("%s to be ready at %d", resource, generation), func(n fakecontroller.Node) bool {
		s := n.Resources[resource]
		return s.GetState() == agentpb.ResourceStatus_READY && s.GetGeneration() == generation
	})
	return n.Resources[resource]
}

// volumes lists the host's volumes as "pool/resource/number".
func (b *bench) volumes() string {
	var list []string
	for _, v := range b.Volumes() {
		list = append(list, fmt.Sprintf("%s/%s/%d", v.Pool, v.Resource, v.Number))
	}
	return strings.Join(list, " ")
}

func (b *bench) wantVolumes(want string) {
	b.t.Helper()
	if got := b.volumes(); got != want {
		b.t.Errorf("volumes on the host: %q, want %q", got, want)
	}
}

// full is a full set with the pools pool1 and pool2.
func full(resultsIn string, resources ...*agentpb.Resource) *agentpb.Assignments {
	return &agentpb.Assignments{
		Full: true, ResultsIn: resultsIn, Resources: resources,
		Pools: []*agentpb.Pool{{Name: "pool1", Provider: "FILE"}, {Name: "pool2", Provider: "FILE_THIN"}},
	}
}

// increment is a change of the set from to the set to.
func increment(from, to string, resources ...*agentpb.Resource) *agentpb.Assignments {
	return &agentpb.Assignments{AppliesTo: from, ResultsIn: to, Resources: resources}
}

// resource is a resource of one volume of 1 MiB.
func resource(name, pool string, generation uint64) *agentpb.Resource {
	return &agentpb.Resource{
		Name: name, Generation: generation, Layers: []string{"STORAGE"},
		Volumes: []*agentpb.Volume{{Pool: pool, Size: mib}},
	}
}

// destroyed is r to be destroyed.
func destroyed(r *agentpb.Resource) *agentpb.Resource {
	r.Destroy = true
	return r
}

// sortedWords returns the words of s in order.
func sortedWords(s string) string {
	words := strings.Fields(s)
	slices.Sort(words)
	return strings.Join(words, " ")
}

// elapse lets the bubble's clock go on.
func elapse(d time.Duration) { <-time.After(d) }

// logBuffer is a log that tests look into.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
