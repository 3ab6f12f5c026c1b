// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/internal/config"
	"github.com/holdfast-storage/holdfast/internal/controller"
	"github.com/holdfast-storage/holdfast/internal/kv/boltkv"
	"github.com/holdfast-storage/holdfast/internal/rest"
	"github.com/holdfast-storage/holdfast/internal/telemetry"
)

// version is what the REST API says of itself: clients compare it with the versions of
// LINSTOR whose features they use.
const version = "1.34.0"

// Set by the linker.
var (
	commit = "unknown" //nolint:gochecknoglobals // the linker sets it
	built  = "unknown" //nolint:gochecknoglobals // the linker sets it
)

// settings is what the commands that serve have in common.
type settings struct {
	file string
	config.Config
}

// flags adds the flags that all of them have.
func (s *settings) flags(c *cobra.Command) {
	c.Flags().StringVar(&s.file, "config", "", "configuration file (TOML)")
	c.Flags().StringVar(&s.Log.Level, "log-level", "", "debug, info, warn or error")
	c.Flags().StringVar(&s.Log.Format, "log-format", "", "text or json")
}

// load reads the file, puts what flags say over it, and returns the logger.
func (s *settings) load() (telemetry.Log, error) {
	said := s.Config
	s.Config = config.Default()
	if s.file != "" {
		c, err := config.Load(s.file)
		if err != nil {
			return telemetry.Log{}, err
		}
		s.Config = c
	}
	over(&s.Log.Level, said.Log.Level)
	over(&s.Log.Format, said.Log.Format)
	over(&s.Controller.Data, said.Controller.Data)
	over(&s.Controller.Listen, said.Controller.Listen)
	over(&s.Controller.AgentListen, said.Controller.AgentListen)
	over(&s.Agent.Node, said.Agent.Node)
	over(&s.Agent.State, said.Agent.State)
	over(&s.Agent.Run, said.Agent.Run)
	over(&s.Agent.JoinFile, said.Agent.JoinFile)
	over(&s.Controller.Name, said.Controller.Name)
	over(&s.Controller.Advertise, said.Controller.Advertise)
	over(&s.Controller.Etcd.Prefix, said.Controller.Etcd.Prefix)
	if len(said.Controller.Etcd.Endpoints) > 0 {
		s.Controller.Etcd.Endpoints = said.Controller.Etcd.Endpoints
	}
	s.Controller.Plaintext = s.Controller.Plaintext || said.Controller.Plaintext
	s.Agent.Plaintext = s.Agent.Plaintext || said.Agent.Plaintext
	if len(said.Agent.Controllers) > 0 {
		s.Agent.Controllers = said.Agent.Controllers
	}
	if err := s.Validate(); err != nil {
		return telemetry.Log{}, err
	}
	return telemetry.Logger(os.Stderr, s.Log.Level, s.Log.Format)
}

func over(value *string, said string) {
	if said != "" {
		*value = said
	}
}

// serveController makes the command that groups LINSTOR's controller commands run a
// controller when it is called without one of them.
func serveController(c *cobra.Command) {
	var s settings
	c.Args = cobra.NoArgs
	c.RunE = func(c *cobra.Command, _ []string) error {
		log, err := s.load()
		if err != nil {
			return err
		}
		return runController(c.Context(), s.Controller, log)
	}
	s.flags(c)
	controllerFlags(c, &s.Controller)
}

func controllerFlags(c *cobra.Command, k *config.Controller) {
	c.Flags().StringVar(&k.Data, "data", "", "folder of the embedded database")
	c.Flags().StringVar(&k.Listen, "listen", "", "address of the REST API (default 127.0.0.1:3370)")
	c.Flags().StringVar(&k.AgentListen, "agent-listen", "", "address that agents dial (default 127.0.0.1:3366)")
	c.Flags().BoolVar(&k.Plaintext, "plaintext", false, "serve agents without TLS, and believe everybody; for tests alone")
	c.Flags().StringVar(&k.Name, "name", "", "name of this controller among several (default: the host's name)")
	c.Flags().StringVar(&k.Advertise, "advertise", "", "URL of the REST API for the other controllers (default: http:// and the address of --listen)")
	etcdFlags(c, k)
}

// etcdFlags adds the flags that say which etcd holds the database.
func etcdFlags(c *cobra.Command, k *config.Controller) {
	c.Flags().StringSliceVar(&k.Etcd.Endpoints, "etcd", nil, "URL of a member of the etcd that holds the database; may be given several times")
	c.Flags().StringVar(&k.Etcd.Prefix, "etcd-prefix", "", "begins all keys in etcd (default /holdfast/)")
}

// running is a controller with its listeners.
type running struct {
	*controller.Controller
	agents, clients net.Listener
}

// open opens the database and the listeners. Nothing is served yet.
func open(ctx context.Context, c config.Controller, log telemetry.Log) (*running, error) {
	if err := os.MkdirAll(c.Data, 0o700); err != nil {
		return nil, fmt.Errorf("make the data folder: %w", err)
	}
	clients, err := listen(ctx, "the REST API", c.Listen)
	if err != nil {
		return nil, err
	}
	agents, err := listen(ctx, "the agents", c.AgentListen)
	if err != nil {
		return nil, errors.Join(err, clients.Close())
	}
	file := filepath.Join(c.Data, databaseFile)
	engine := boltkv.New(file)
	k, err := controller.New(ctx, controller.Config{
		Engine: engine, Backups: backups(c, engine, log.Logger), Log: log.Logger, Plaintext: c.Plaintext,
		Setup: rest.Setup{Database: "bolt:" + file, Listen: clients.Addr().String(), LogLevel: log.Level},
		Build: rest.Build{Version: version, Commit: commit, Time: built}, Metrics: telemetry.Registry(),
	})
	if err != nil {
		return nil, errors.Join(err, clients.Close(), agents.Close())
	}
	return &running{Controller: k, agents: agents, clients: clients}, nil
}

func listen(ctx context.Context, what, address string) (net.Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for %s on %s: %w", what, address, err)
	}
	return l, nil
}

// serve serves until ctx ends, and closes the database.
func (r *running) serve(ctx context.Context) error {
	err := r.Serve(ctx, r.agents, r.clients)
	return errors.Join(err, r.Close())
}

// tell tells systemd, when it has started this process.
func tell(log *slog.Logger, state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.Warn("systemd could not be told", "state", state, "error", err)
	}
}
