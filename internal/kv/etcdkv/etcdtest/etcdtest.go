// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package etcdtest runs real etcd clusters on loopback for tests, each member a process that can be paused, killed, started again
// and cut off. Everything ends with the test, and members end with the process that started them.
package etcdtest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec" //nolint:depguard // Only the search path is looked at.
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// Options say what a cluster is like. The zero value is one member without TLS.
type Options struct {
	Members int
	Dir     string   // of the data; a folder in memory when empty: the tests end processes, not machines
	Flags   []string // more flags of each member
	Scheme  string   // of clients; http when empty
}

// Cluster is a running cluster.
type Cluster struct {
	Endpoints []string // URLs for clients

	t       testing.TB
	members []*member
}

type member struct {
	args    []string
	log     string
	process *os.Process
}

// Program returns the path of etcd, or ends the test: as a failure where the machine is to have it (HOLDFAST_ETCD is set),
// otherwise as a skip that says what is needed.
func Program(tb testing.TB) string {
	tb.Helper()
	path, err := exec.LookPath("etcd")
	switch {
	case err == nil:
	case os.Getenv("HOLDFAST_ETCD") != "":
		tb.Fatal("etcd is missing: install Debian's etcd-server")
	default:
		tb.Skip("etcd is missing: this test needs Debian's etcd-server")
	}
	return path
}

// Start starts a cluster and waits until it can be written.
func Start(tb testing.TB, o Options) *Cluster {
	tb.Helper()
	program := Program(tb)
	if o.Members == 0 {
		o.Members = 1
	}
	if o.Scheme == "" {
		o.Scheme = "http"
	}
	if o.Dir == "" {
		o.Dir = memoryDir(tb)
	}
	c := &Cluster{t: tb}
	ports := free(tb, 2*o.Members)
	var initial []string
	for i := range o.Members {
		initial = append(initial, fmt.Sprintf("m%d=http://%s", i, ports[2*i+1]))
	}
	for i := range o.Members {
		client, peer := o.Scheme+"://"+ports[2*i], "http://"+ports[2*i+1]
		dir := filepath.Join(o.Dir, fmt.Sprintf("m%d", i))
		c.Endpoints = append(c.Endpoints, client)
		c.members = append(c.members, &member{log: dir + ".log", args: append([]string{
			program, "--name", fmt.Sprintf("m%d", i), "--data-dir", dir, "--log-level", "warn",
			"--listen-client-urls", client, "--advertise-client-urls", client,
			"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
			"--initial-cluster", strings.Join(initial, ","), "--initial-cluster-state", "new",
		}, o.Flags...)})
	}
	tb.Cleanup(c.stop)
	for i := range c.members {
		c.Restart(i)
	}
	if o.Scheme == "http" {
		c.WaitWritable()
	}
	return c
}

// memoryDir is a directory in memory, where there is one.
func memoryDir(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "etcd-test-*") //nolint:usetesting // It is about another place.
	if err != nil {
		return tb.TempDir()
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// free finds addresses on loopback that nobody listens on.
func free(tb testing.TB, n int) []string {
	tb.Helper()
	var list []string
	for range n {
		l, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			tb.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		list = append(list, l.Addr().String())
	}
	return list
}

// Client makes a client of the cluster, which ends with the test.
func (c *Cluster) Client() *clientv3.Client {
	c.t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: c.Endpoints, Logger: zap.NewNop()})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = client.Close() })
	return client
}

// WaitWritable waits until a majority takes writes.
func (c *Cluster) WaitWritable() {
	c.t.Helper()
	const long = 60 * time.Second
	client := c.Client()
	deadline := time.Now().Add(long)
	for {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		_, err := client.Put(ctx, "etcdtest", "writable")
		cancel()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			for _, m := range c.members {
				text, _ := os.ReadFile(m.log)
				c.t.Logf("%s", text)
			}
			c.t.Fatalf("etcd takes no writes: %v", err)
		}
	}
}

// Leader returns which member leads the cluster.
func (c *Cluster) Leader() int {
	c.t.Helper()
	client := c.Client()
	for i, endpoint := range c.Endpoints {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		st, err := client.Status(ctx, endpoint)
		cancel()
		if err == nil && st.Leader == st.Header.GetMemberId() {
			return i
		}
	}
	c.t.Fatal("no member of etcd says that it leads")
	return 0
}

// Pause stops a member without ending it, as a host that hangs.
func (c *Cluster) Pause(i int) { c.signal(i, syscall.SIGSTOP) }

// Resume lets a paused member go on.
func (c *Cluster) Resume(i int) { c.signal(i, syscall.SIGCONT) }

func (c *Cluster) signal(i int, s syscall.Signal) {
	c.t.Helper()
	if err := c.members[i].process.Signal(s); err != nil {
		c.t.Fatal(err)
	}
}

// Kill ends a member at once.
func (c *Cluster) Kill(i int) {
	m := c.members[i]
	if m.process == nil {
		return
	}
	_ = m.process.Kill()
	_, _ = m.process.Wait()
	m.process = nil
}

// Restart starts a member that was killed, on its data.
func (c *Cluster) Restart(i int) {
	c.t.Helper()
	m := c.members[i]
	log, err := os.OpenFile(m.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	p, err := os.StartProcess(m.args[0], m.args, &os.ProcAttr{
		Env: []string{"PATH=" + os.Getenv("PATH")}, Files: []*os.File{nil, log, log}, Sys: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	m.process = p
}

func (c *Cluster) stop() {
	for i := range c.members {
		c.Kill(i)
	}
}
