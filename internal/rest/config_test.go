// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest_test

import (
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/agent/fakeagent"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

// levels are the log levels that agents were given, by node.
type levels struct {
	mu  sync.Mutex
	all []string
}

func (l *levels) set(node string) func(*fakeagent.Agent) {
	return func(a *fakeagent.Agent) {
		a.SetLogLevel = func(level string) error {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.all = append(l.all, node+" "+level)
			return nil
		}
	}
}

func (l *levels) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.all
	l.all = nil
	slices.Sort(all)
	return all
}

func TestTheLogLevelOfOneAgentCanBeChanged(t *testing.T) {
	c := newCluster(t)
	var given levels
	c.nodeWith("Alpha", given.set("Alpha"))
	c.nodeWith("beta", given.set("beta"))

	conf := read[wire.SatelliteConfig](c, "/v1/nodes/alpha/config")
	if conf.OverrideNodeName != "Alpha" || conf.Log == nil || conf.Debug == nil {
		t.Errorf("the configuration is %+v", conf)
	}
	c.do("GET", "/v1/nodes/nobody/config", "").code(404, wire.FailNotFoundNode)

	c.do("PUT", "/v1/nodes/alpha/config", `{"log":{"level_linstor":"debug"}}`).code(200, wire.Modified)
	c.do("PUT", "/v1/nodes/beta/config", `{"log":{"level":"TRACE"}}`).code(200, wire.Modified)
	if got := given.take(); !slices.Equal(got, []string{"Alpha DEBUG", "beta TRACE"}) {
		t.Errorf("the agents were given %q", got)
	}
	c.do("PUT", "/v1/nodes/alpha/config", `{"log":{"level":"loud"}}`).code(400, wire.APICallParseError)
	c.do("PUT", "/v1/nodes/alpha/config", `{"config":{"dir":"/etc"}}`).code(500, wire.FailInvldRequest)
	c.do("PUT", "/v1/nodes/nobody/config", `{"log":{"level":"INFO"}}`).code(404, wire.FailNotFoundNode)
	c.halt(c.agents["Alpha"])
	c.do("PUT", "/v1/nodes/alpha/config", `{"log":{"level":"INFO"}}`).code(500, wire.FailNotConnected)
	if got := given.take(); got != nil {
		t.Errorf("the agents were given %q", got)
	}
}

func TestAGlobalLogLevelIsThatOfAllAgents(t *testing.T) {
	c := newCluster(t)
	var given levels
	c.nodeWith("alpha", given.set("alpha"))
	c.nodeWith("beta", given.set("beta"))
	c.nodeWith("deaf", func(a *fakeagent.Agent) { a.SetLogLevel = func(string) error { return errors.New("it is fixed") } })
	c.halt(c.node("away"))

	l := c.must(200, "PUT", "/v1/controller/config", `{"log":{"level_linstor_global":"WARN"}}`).entries()
	if got := given.take(); !slices.Equal(got, []string{"alpha WARN", "beta WARN"}) {
		t.Errorf("the agents were given %q", got)
	}
	if c.server.Setup.LogLevel.Level() != slog.LevelWarn {
		t.Errorf("the controller logs from %s on", c.server.Setup.LogLevel.Level())
	}
	if len(l) != 4 || !l[0].RetCode.Is(wire.Modified) || !l[1].RetCode.Is(wire.Modified) ||
		l[2].ObjRefs[wire.RefNode] != "away" || l[3].ObjRefs[wire.RefNode] != "deaf" || !l[3].RetCode.Is(wire.WarnNoEffect) {
		t.Errorf("the answer is %+v", l)
	}
	if conf := read[wire.ControllerConfig](c, "/v1/controller/config"); conf.Log.Level != "WARN" {
		t.Errorf("the configuration is %+v", conf.Log)
	}
	c.must(200, "PUT", "/v1/controller/config", `{"log":{"level":"INFO"}}`)
	if got := given.take(); got != nil {
		t.Errorf("a level of the controller alone was given to agents: %q", got)
	}
}
