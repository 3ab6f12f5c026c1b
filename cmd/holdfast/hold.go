// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/holdfast-storage/holdfast/internal/agent"
	"github.com/holdfast-storage/holdfast/internal/agent/hold"
	"github.com/holdfast-storage/holdfast/internal/agent/holding"
	"github.com/holdfast-storage/holdfast/internal/agent/job"
	"github.com/holdfast-storage/holdfast/internal/agent/libvirt"
	"github.com/holdfast-storage/holdfast/internal/agent/local"
	"github.com/holdfast-storage/holdfast/internal/agent/mount"
	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/freeze"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/held"
	"github.com/holdfast-storage/holdfast/internal/agent/worker"
	"github.com/holdfast-storage/holdfast/internal/command"
	"github.com/holdfast-storage/holdfast/internal/config"
	"github.com/holdfast-storage/holdfast/internal/model"
)

// help is this program in the part of a process of the agent that may hang, when it was started as one.
func help(args []string) {
	if len(args) < 2 {
		return
	}
	switch args[1] {
	case mount.HelperName:
		os.Exit(mount.HelperMain(args[2:]))
	case freeze.HelperName:
		os.Exit(freeze.HelperMain(args[2:]))
	case worker.Name:
		os.Exit(worker.Main(args[2:], map[string]worker.Kind{held.KindName: held.Kind(), job.KindName: job.Kind()}))
	}
}

// mounts is what an agent has for pools on mounts. Without it, all but those works.
type mounts struct {
	*holding.Holding

	why     error // there is none
	log     *slog.Logger
	stop    context.CancelFunc
	serving sync.WaitGroup
}

// openMounts opens what this host holds, and serves its users.
func openMounts(ctx context.Context, c config.Agent, runner command.Runner, log *slog.Logger) *mounts {
	m := &mounts{log: log, stop: func() {}}
	run := runFolder(c)
	m.Holding, m.why = holding.Open(ctx, holding.Config{
		Node: c.Node, State: c.State, Run: run, Runner: runner, Log: log, Finders: []hold.Finder{&libvirt.Finder{}},
		// Who asks whether a pool works waits for half a minute: until then he is to know why not.
		Limits: hold.Limits{Mount: 20 * time.Second},
	})
	if m.why != nil {
		log.Warn("pools on mounts do not work on this host", "error", m.why)
		return m
	}
	figures := prometheus.NewRegistry()
	figures.MustRegister(m.Collector())
	server := &local.Server{Holding: m.Holding, Log: log, Metrics: promhttp.HandlerFor(figures, promhttp.HandlerOpts{})}
	ctx, m.stop = context.WithCancel(ctx)
	m.serving.Go(func() {
		if err := server.Serve(ctx, filepath.Join(run, filepath.Base(local.DefaultSocket))); err != nil {
			log.Warn("users of this host cannot ask the agent", "error", err)
		}
	})
	return m
}

// runFolder is where the agent keeps what is void after a reboot.
func runFolder(c config.Agent) string {
	own := filepath.Join(c.State, "run")
	if c.State == config.Default().Agent.State {
		own = filepath.Dir(local.DefaultSocket)
	}
	return cmp.Or(c.Run, own)
}

// close ends the work on mounts. What is held stays mounted.
func (m *mounts) close() {
	const patience = 10 * time.Second
	m.stop()
	m.serving.Wait()
	if m.Holding == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := m.Close(ctx); err != nil {
		m.log.Warn("the work on mounts did not end well", "error", err)
	}
}

// holds is what the agent asks about holds.
func (m *mounts) holds() agent.Holds {
	if m.Holding == nil {
		return nil
	}
	return m.Holding
}

// driver makes the driver of a pool that lies on a mount. It is false for any other pool.
func (m *mounts) driver(p agent.Pool) (pool.Driver, bool, error) {
	if p.Provider != model.File && p.Provider != model.FileThin {
		return nil, false, nil
	}
	if m.Holding == nil {
		_, on, err := held.Parse(p.Name, "", p.Props.Get)
		if on && err == nil {
			err = errors.Join(fmt.Errorf("pool %s lies on a mount, and pools on mounts do not work on this host", p.Name), m.why)
		}
		return nil, on, err
	}
	d, on, err := m.Open(p.Name, p.Provider.Thin(), p.Identity, p.Props.Get)
	if err != nil || !on {
		return nil, on, err
	}
	return d, true, nil
}
