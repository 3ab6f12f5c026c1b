// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/holdfast-storage/holdfast/internal/agent/fakeagent"
	"github.com/holdfast-storage/holdfast/internal/schema"
)

type scriptCommand = func(*testscript.TestScript, bool, []string)

// commands are those that doc.go describes.
func (s *script) commands() map[string]scriptCommand {
	held := map[string][]*fakeagent.Hold{}
	agents := func(ts *testscript.TestScript) []*fakeagent.Agent {
		if s.cluster == nil {
			ts.Fatalf("there are no simulated hosts")
		}
		var all []*fakeagent.Agent
		for _, a := range s.cluster.Agents {
			all = append(all, a)
		}
		return all
	}
	return map[string]scriptCommand{
		"golden":      s.compare,
		"listen":      s.listen,
		"replicas":    s.replicas,
		"definitions": s.definitions,
		"stop-agent": func(ts *testscript.TestScript, _ bool, args []string) {
			need(ts, args, 1)
			s.cluster.StopAgent(args[0])
		},
		"start-agent": func(ts *testscript.TestScript, _ bool, args []string) {
			need(ts, args, 1)
			s.cluster.StartAgent(args[0])
		},
		"fail": func(ts *testscript.TestScript, _ bool, args []string) {
			need(ts, args, 2)
			for _, a := range agents(ts) {
				a.FailApplies(args[0], -1, errors.New(args[1]))
			}
		},
		"pass": func(ts *testscript.TestScript, _ bool, args []string) {
			need(ts, args, 1)
			for _, a := range agents(ts) {
				a.FailApplies(args[0], 0, nil)
			}
		},
		"hold": func(ts *testscript.TestScript, _ bool, args []string) {
			need(ts, args, 1)
			for _, a := range agents(ts) {
				held[args[0]] = append(held[args[0]], a.HoldApplies(args[0]))
			}
			ts.Defer(func() { releaseAll(held[args[0]]) })
		},
		"await": func(ts *testscript.TestScript, _ bool, args []string) {
			need(ts, args, 1)
			ts.Check(awaitAny(held[args[0]]))
		},
		"terminal": s.onTerminal,
		"controller-file": func(ts *testscript.TestScript, _ bool, args []string) {
			need(ts, args, 1)
			path := ts.MkAbs(args[0])
			ts.Check(os.MkdirAll(filepath.Dir(path), 0o755))
			ts.Check(os.WriteFile(path, []byte("[global]\ncontrollers = "+s.controller+"\n"), 0o600))
		},
		"release": func(ts *testscript.TestScript, _ bool, args []string) {
			need(ts, args, 1)
			releaseAll(held[args[0]])
		},
	}
}

// awaitAny waits until a host has come to one of the holds.
func awaitAny(holds []*fakeagent.Hold) error {
	const patience = 20 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	came := make(chan error, len(holds))
	for _, h := range holds {
		go func() { came <- h.Wait(ctx) }()
	}
	return <-came
}

func releaseAll(holds []*fakeagent.Hold) {
	for _, h := range holds {
		h.Release()
	}
}

func need(ts *testscript.TestScript, args []string, n int) {
	if len(args) != n {
		ts.Fatalf("want %d arguments, got %q", n, args)
	}
}

// replicas waits until there are so many.
func (s *script) replicas(ts *testscript.TestScript, _ bool, args []string) {
	need(ts, args, 1)
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	s.cluster.Until(func() bool { return schema.Resources.Len(s.cluster.Store.Snapshot()) == n })
}

// definitions waits until there are so many.
func (s *script) definitions(ts *testscript.TestScript, _ bool, args []string) {
	need(ts, args, 1)
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	s.cluster.Until(func() bool { return schema.Definitions.Len(s.cluster.Store.Snapshot()) == n })
}

// listen starts something that is no controller, or not one that is well.
func (s *script) listen(ts *testscript.TestScript, _ bool, args []string) {
	need(ts, args, 1)
	quiet := log.New(io.Discard, "", 0)
	var address string
	switch args[0] {
	case "nobody":
		l := listener(ts)
		address = l.Addr().String()
		ts.Check(l.Close())
	case "silent", "ssh", "closing":
		l := listener(ts)
		address = l.Addr().String()
		accepting := make(chan struct{})
		ts.Defer(func() { // It is waited for: what it has accepted is closed by then.
			_ = l.Close()
			<-accepting
		})
		go func() {
			defer close(accepting)
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				if args[0] == "silent" {
					defer func() { _ = conn.Close() }()
					continue
				}
				// The whole request is read first: what comes before it, or leaves a part of it, is met in one state or another.
				_, _ = http.ReadRequest(bufio.NewReader(conn))
				if args[0] == "ssh" {
					_, _ = io.WriteString(conn, "SSH-2.0-OpenSSH_9.2\r\n")
				}
				_ = conn.Close()
			}
		}()
	case "website", "tls", "old":
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if args[0] == "old" && r.URL.Path == "/v1/controller/version" {
				_, _ = io.WriteString(w, `{"version":"1.4.0","git_hash":"x","build_time":"x","rest_api_version":"1.0.13"}`)
				return
			}
			if args[0] == "website" {
				_, _ = io.WriteString(w, "<html>It works!</html>")
				return
			}
			http.NotFound(w, r)
		}))
		server.Config.ErrorLog = quiet
		server.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
		if args[0] == "tls" {
			server.StartTLS()
		} else {
			server.Start()
		}
		ts.Defer(server.Close)
		address = server.Listener.Addr().String()
	default:
		ts.Fatalf("%q is nothing to listen as", args[0])
	}
	ts.Setenv(strings.ToUpper(args[0]), address)
}

func listener(ts *testscript.TestScript) net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() {
		if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			_, _ = io.WriteString(os.Stderr, err.Error())
		}
	})
	return l
}
