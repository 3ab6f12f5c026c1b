// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package ha_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-storage/holdfast/internal/controller"
	"github.com/holdfast-storage/holdfast/internal/database"
	"github.com/holdfast-storage/holdfast/internal/kv"
	"github.com/holdfast-storage/holdfast/internal/kv/etcdkv"
	"github.com/holdfast-storage/holdfast/internal/leader"
	"github.com/holdfast-storage/holdfast/internal/rest"
)

// settings make this test binary a controller.
type settings struct {
	Name      string
	Dir       string
	Listen    string
	Agents    string
	Endpoints []string // of etcd; without them the database is embedded
	Lease     time.Duration
}

const variable = "HOLDFAST_HA_CONTROLLER"

func TestMain(m *testing.M) {
	text := os.Getenv(variable)
	if text == "" {
		os.Exit(m.Run())
	}
	var s settings
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		panic(err)
	}
	if err := serve(s); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serve is a controller until it is killed.
func serve(s settings) error {
	ctx := context.Background()
	clients, err := net.Listen("tcp", s.Listen)
	if err != nil {
		return err
	}
	agents, err := net.Listen("tcp", s.Agents)
	if err != nil {
		return err
	}
	at := database.Place{File: filepath.Join(s.Dir, "holdfast.db")}
	if len(s.Endpoints) > 0 {
		at = database.Place{Etcd: etcdkv.Settings{Endpoints: s.Endpoints}}
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo}))
	m := &controller.Member{
		Config: controller.Config{
			Log: log, Plaintext: true, Build: rest.Build{Version: "1.34.0", Commit: "test"}, Setup: rest.Setup{Database: at.String()},
		},
		Map: at.Engine, Reader: at.Reader,
		BackupsOf: func(e kv.Engine) controller.Backups {
			return &database.Backups{Engine: e, Folder: filepath.Join(s.Dir, "backups")}
		},
		Self: leader.Candidate{Name: s.Name, API: "http://" + clients.Addr().String()},
	}
	if len(s.Endpoints) > 0 {
		if m.Election, err = leader.New(leader.Settings{Etcd: at.Etcd, Self: m.Self, Lease: s.Lease, Log: log}); err != nil {
			return err
		}
	}
	return m.Serve(ctx, agents, clients)
}

// process is a controller in a process of its own.
type process struct {
	settings
	t   testing.TB
	url string
	cmd *exec.Cmd
	log string
}

func newProcess(tb testing.TB, s settings) *process {
	tb.Helper()
	s.Dir = filepath.Join(tb.TempDir(), s.Name)
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		tb.Fatal(err)
	}
	s.Listen, s.Agents = free(tb), free(tb)
	p := &process{settings: s, t: tb, url: "http://" + s.Listen, log: filepath.Join(s.Dir, "log")}
	tb.Cleanup(func() {
		p.kill()
		if tb.Failed() {
			text, _ := os.ReadFile(p.log)
			tb.Logf("%s said:\n%s", s.Name, text[max(0, len(text)-4000):])
		}
	})
	return p
}

func free(tb testing.TB) string {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

func (p *process) start() {
	p.t.Helper()
	text, err := json.Marshal(p.settings)
	if err != nil {
		p.t.Fatal(err)
	}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	p.cmd = exec.Command(os.Args[0])
	p.cmd.Env = append(os.Environ(), variable+"="+string(text))
	p.cmd.Stderr = log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
}

func (p *process) kill() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	p.cmd = nil
}

func (p *process) signal(s syscall.Signal) {
	if p.cmd != nil {
		_ = p.cmd.Process.Signal(s)
	}
}

// healthy reports whether the controller answers that it is well.
func (p *process) healthy() bool {
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/health", nil)
	if err != nil {
		return false
	}
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		return false
	}
	_ = a.Body.Close()
	return a.StatusCode == http.StatusOK
}

// leading returns the controller that says that it is well, within a time.
func leading(tb testing.TB, all []*process, within time.Duration) (*process, time.Duration) {
	tb.Helper()
	began := time.Now()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for time.Since(began) < within {
		for _, p := range all {
			if p.cmd != nil && p.healthy() {
				return p, time.Since(began)
			}
		}
		<-tick.C
	}
	tb.Fatalf("no controller was well within %s", within)
	return nil, 0
}
