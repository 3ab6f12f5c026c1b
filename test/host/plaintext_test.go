// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package host_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// logs returns what a process has logged so far.
func (s *system) logs(name string) string {
	s.t.Helper()
	text, err := os.ReadFile(s.procs[name].log.Name())
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

func TestPlainTextWorksByItsFlagOnBothSidesAloneAndWarns(t *testing.T) {
	s := start(t)
	s.must("POST", "/v1/nodes", `{"name":"n1","net_interfaces":[{"name":"default","address":"127.0.0.1"}]}`)
	agent := []string{"agent", "--node", "n1", "--controller", s.agents, "--state", filepath.Join(s.dir, "state-n1")}
	said := func(name, text string) {
		t.Helper()
		s.until(name+" to say "+text, func() bool { return strings.Contains(s.logs(name), text) })
	}

	// The controller speaks TLS, the agent does not.
	s.run("n1", append(agent, "--plaintext")...)
	said("n1", "controllers are dialled in plain text")
	said("n1", "no session with the controller")
	said("controller", "it speaks no TLS; was its agent started with --plaintext?")
	s.end("n1", syscall.SIGTERM)

	// The other way round.
	s.must("POST", "/v1/nodes/n1/join-token", "")
	s.end("controller", syscall.SIGTERM)
	s.run("controller", "controller", "--data", filepath.Join(s.dir, "controller"), "--listen", s.api, "--agent-listen", s.agents, "--plaintext")
	s.until("the controller to be healthy", func() bool { return s.call("GET", "/health", "").status == 200 })
	said("controller", "agents are served in plain text")
	s.refused("POST", "/v1/nodes/n1/join-token", "", "plain text", "--plaintext")
	token := "holdfast1:n1:" + strings.Repeat("A", 26) + ":" + strings.Repeat("0", 64)
	s.run("n1", append(agent, "--join", token)...)
	said("n1", "the other side speaks no TLS")
	if strings.Contains(s.logs("n1")+s.logs("controller"), strings.Repeat("A", 26)) {
		t.Error("the token is in a log")
	}
	s.end("n1", syscall.SIGTERM)

	s.run("n1", append(agent, "--plaintext")...)
	s.until("the node to be online", func() bool { return strings.Contains(s.call("GET", "/v1/nodes/n1", "").text, `"ONLINE"`) })
}
