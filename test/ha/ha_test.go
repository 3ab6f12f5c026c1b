// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package ha_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-storage/holdfast/internal/database"
	"github.com/holdfast-storage/holdfast/internal/kv/etcdkv"
	"github.com/holdfast-storage/holdfast/internal/kv/etcdkv/etcdtest"
)

// length is how long a test goes on: short in CI, as long as HOLDFAST_SOAK says otherwise.
func length(t *testing.T, short time.Duration) time.Duration {
	t.Helper()
	text := os.Getenv("HOLDFAST_SOAK")
	if text == "" {
		return short
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("HOLDFAST_SOAK: %v", err)
	}
	return d
}

// load lets clients work until it is stopped.
type load struct {
	h    *history
	stop func()
}

func begin(t *testing.T, all []*process, clients, definitions int) *load {
	t.Helper()
	l := &load{h: &history{began: time.Now()}}
	var urls, names []string
	for _, p := range all {
		urls = append(urls, p.url)
	}
	for i := range definitions {
		names = append(names, fmt.Sprintf("vol-%d", i))
	}
	setUp := newClient(-1, l.h, names, urls)
	for i := range 3 {
		for try := 0; ; try++ {
			status, text, err := setUp.do(t.Context(), "POST", "/v1/resource-groups", fmt.Sprintf(`{"name":"group-%d"}`, i))
			if err == nil && (status < 300 || try > 0) {
				break
			}
			if try > 5 {
				t.Fatal(status, string(text), err)
			}
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var working sync.WaitGroup
	for id := range clients {
		c := newClient(id, l.h, names, urls)
		c.at = id
		working.Go(func() {
			pause := time.NewTicker(2 * time.Millisecond) // histories that can be judged
			defer pause.Stop()
			for ctx.Err() == nil {
				c.step(context.Background())
				<-pause.C
			}
			c.http.CloseIdleConnections()
		})
	}
	l.stop = sync.OnceFunc(func() {
		cancel()
		working.Wait()
	})
	t.Cleanup(l.stop)
	return l
}

// sound checks a database that no controller uses any more.
func sound(t *testing.T, p database.Place) {
	t.Helper()
	r, err := database.CheckPlace(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range r.Aside {
		t.Errorf("set aside: %s %s: %s", a.Collection, a.Key, a.Reason)
	}
	for _, p := range r.Problems {
		t.Errorf("problem: %s", p)
	}
}

func TestTheEmbeddedEngineShowsALinearHistoryThroughKills(t *testing.T) {
	p := newProcess(t, settings{Name: "one"})
	all := []*process{p}
	p.start()
	leading(t, all, 10*time.Second)
	l := begin(t, all, 6, 12)
	kills, slowest := 0, time.Duration(0)
	r := rand.New(rand.NewPCG(1, 2))
	for ; kills < killings(t, 15); kills++ {
		pass(t, time.Duration(300+r.IntN(700))*time.Millisecond)
		p.kill()
		p.start()
		_, took := leading(t, all, 10*time.Second)
		slowest = max(slowest, took)
	}
	l.stop()
	p.kill()
	t.Logf("%d kills, ready again after at most %s", kills, slowest.Round(time.Millisecond))
	l.h.judge(t)
	sound(t, database.Place{File: p.Dir + "/holdfast.db"})
}

// killings is how many kills a test makes: few in CI, as many as HOLDFAST_KILLS says otherwise.
func killings(t *testing.T, few int) int {
	t.Helper()
	text := os.Getenv("HOLDFAST_KILLS")
	if text == "" {
		return few
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("HOLDFAST_KILLS: %v", err)
	}
	return n
}

// pass lets time pass.
func pass(t *testing.T, d time.Duration) {
	t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
	}
}

// cluster is three controllers on three members of etcd, each controller by wires of its own.
type cluster struct {
	t     *testing.T
	etcd  *etcdtest.Cluster
	all   []*process
	wires map[*process][]*etcdtest.Wire
}

func startCluster(t *testing.T, members int, lease time.Duration) *cluster {
	t.Helper()
	c := &cluster{t: t, etcd: etcdtest.Start(t, etcdtest.Options{Members: members}), wires: map[*process][]*etcdtest.Wire{}}
	for i := range 3 {
		var endpoints []string
		var wires []*etcdtest.Wire
		for m := range members {
			w := c.etcd.NewWire(m)
			wires, endpoints = append(wires, w), append(endpoints, w.Endpoint)
		}
		p := newProcess(t, settings{Name: fmt.Sprintf("c%d", i+1), Endpoints: endpoints, Lease: lease})
		c.all, c.wires[p] = append(c.all, p), wires
		p.start()
	}
	leading(t, c.all, 20*time.Second)
	return c
}

func (c *cluster) place() database.Place {
	return database.Place{Etcd: etcdkv.Settings{Endpoints: c.etcd.Endpoints}}
}

// others are the controllers but one.
func (c *cluster) others(not *process) []*process {
	var list []*process
	for _, p := range c.all {
		if p != not {
			list = append(list, p)
		}
	}
	return list
}

// failOver is the longest time until another controller leads.
const failOver = 15 * time.Second

// The faults of a cluster, each with its end.
func (c *cluster) faults() map[string]func() {
	return map[string]func(){
		"the leader is killed": func() {
			p, _ := leading(c.t, c.all, failOver)
			p.kill()
			_, took := leading(c.t, c.others(p), failOver)
			c.t.Logf("the leader was killed: the next one after %s", took.Round(time.Millisecond))
			p.start()
		},
		"the leader is paused": func() {
			p, _ := leading(c.t, c.all, failOver)
			p.signal(syscall.SIGSTOP)
			_, took := leading(c.t, c.others(p), failOver)
			c.t.Logf("the leader was paused: the next one after %s", took.Round(time.Millisecond))
			pass(c.t, time.Second)
			p.signal(syscall.SIGCONT)
		},
		"the leader is cut off": func() {
			p, _ := leading(c.t, c.all, failOver)
			for _, w := range c.wires[p] {
				w.Cut()
			}
			_, took := leading(c.t, c.others(p), failOver)
			c.t.Logf("the leader was cut off from etcd: the next one after %s", took.Round(time.Millisecond))
			pass(c.t, time.Second)
			for _, w := range c.wires[p] {
				w.Mend()
			}
		},
		"a member of etcd is killed": func() {
			i := c.etcd.Leader()
			c.etcd.Kill(i)
			pass(c.t, 2*time.Second)
			leading(c.t, c.all, failOver)
			c.etcd.Restart(i)
		},
		"a member of etcd is paused": func() {
			i := c.etcd.Leader()
			c.etcd.Pause(i)
			pass(c.t, 2*time.Second)
			leading(c.t, c.all, failOver)
			c.etcd.Resume(i)
		},
	}
}

func TestControllersOnEtcdShowALinearHistoryThroughFaults(t *testing.T) {
	c := startCluster(t, 3, 3*time.Second)
	l := begin(t, c.all, 6, 16)
	faults := c.faults()
	for end, round := time.Now().Add(length(t, 0)), 0; round == 0 || time.Now().Before(end); round++ {
		for name, fault := range faults { // in an order that differs from run to run
			pass(t, 700*time.Millisecond)
			if fault(); t.Failed() {
				t.Fatalf("while %s", name)
			}
		}
	}
	leading(t, c.all, failOver)
	l.stop()
	for _, p := range c.all {
		p.kill()
	}
	l.h.judge(t)
	sound(t, c.place())
}

func TestFailOverWithTheDefaultLease(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1, 0)
	for range 2 {
		p, _ := leading(t, c.all, failOver)
		p.kill()
		_, took := leading(t, c.others(p), failOver)
		t.Logf("the next leader answers after %s", took.Round(time.Millisecond))
		p.start()
	}
}

func TestKilledLeadersOnEtcdLoseNothing(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1, 2*time.Second)
	l := begin(t, c.all, 6, 16)
	kills, slowest := 0, time.Duration(0)
	for ; kills < killings(t, 4); kills++ {
		pass(t, 300*time.Millisecond)
		p, _ := leading(t, c.all, failOver)
		p.kill()
		_, took := leading(t, c.others(p), 10*time.Second)
		slowest = max(slowest, took)
		p.start()
	}
	l.stop()
	for _, p := range c.all {
		p.kill()
	}
	t.Logf("%d kills, the next leader answers after at most %s", kills, slowest.Round(time.Millisecond))
	l.h.judge(t)
	sound(t, c.place())
}
