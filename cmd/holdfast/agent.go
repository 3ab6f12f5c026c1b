// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/internal/agent"
	"github.com/holdfast-storage/holdfast/internal/agent/backend"
	"github.com/holdfast-storage/holdfast/internal/agent/hold"
	"github.com/holdfast-storage/holdfast/internal/agent/numbers"
	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/freeze"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/inuse"
	"github.com/holdfast-storage/holdfast/internal/command"
	"github.com/holdfast-storage/holdfast/internal/config"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/telemetry"
)

func agentCommand() *cobra.Command {
	var (
		s    settings
		join string
	)
	c := &cobra.Command{
		Use:   "agent",
		Short: "Run the agent of this host",
		Long: "Run the agent of this host. At first it joins, with a token that `holdfast node join-token NODE` has printed:\n" +
			"give it with --join, or in a file with --join-file, where other users cannot see it. What the agent gets by the\n" +
			"token is kept in its state folder, and renewed by itself; a token that was used is not looked at again.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			log, err := s.load()
			if err != nil {
				return err
			}
			tell(log.Logger, daemon.SdNotifyReady)
			defer tell(log.Logger, daemon.SdNotifyStopping)
			return runMember(c.Context(), s.Agent, join, log)
		},
	}
	s.flags(c)
	c.Flags().StringVar(&s.Agent.Node, "node", "", "name of this node (default: the host's name)")
	c.Flags().StringSliceVar(&s.Agent.Controllers, "controller", nil, "address of a controller; may be given several times")
	c.Flags().StringVar(&s.Agent.State, "state", "", "folder of what the agent keeps over a restart")
	c.Flags().StringVar(&s.Agent.Run, "run", "", "folder of what is void after a reboot, with the socket for users of this host (default /run/holdfast)")
	c.Flags().StringVar(&join, "join", "", "token to join with")
	c.Flags().StringVar(&s.Agent.JoinFile, "join-file", "", "file with a token to join with")
	c.Flags().BoolVar(&s.Agent.Plaintext, "plaintext", false, "dial controllers without TLS; for tests alone")
	return c
}

// nodeName is the name that this host has in the cluster when nobody gives another.
func nodeName(given string) (string, error) {
	if given != "" {
		return given, nil
	}
	name, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("ask for the name of this host: %w", err)
	}
	return name, nil
}

// runAgent is the agent of this host until ctx ends.
func runAgent(ctx context.Context, c config.Agent, dial dialer, log telemetry.Log) error {
	node := c.Node
	users := &inuse.Scanner{}
	runner := &command.Exec{}
	mounted := openMounts(ctx, c, runner, log.Logger)
	defer mounted.close() //nolint:contextcheck // It comes after the end of ctx, and has a limit of its own.
	freezer := freeze.New(freeze.Config{Runner: runner})
	thaw(ctx, freezer, log.Logger)
	works := &works{mounts: mounted, began: time.Now(), pools: map[string]agent.Pool{}, held: map[string]hold.Hold{}}
	backends := findBackends(ctx, node, users, freezer, runner)
	drivers := func(p agent.Pool) (pool.Driver, error) {
		works.note(p)
		if d, ok, err := mounted.driver(p); ok || err != nil {
			return d, err
		}
		return backends.driver(p)
	}
	machine := agent.NewMachine(drivers, runner)
	defer machine.Close()
	machine.Encryption.Users, machine.Encryption.Freezer = users, freezer
	works.machine = machine
	layers := findLayers(ctx, runner)
	if slices.Contains(layers.supported, model.DRBD) {
		if err := replicate(ctx, machine, users, runner, c.State, log.Logger); err != nil {
			return err
		}
	}
	jobs, err := openJobs(c.State, works, runner, log.Logger) //nolint:contextcheck // Jobs end by Close.
	if err != nil {
		return err
	}
	defer jobs.Close()
	works.releaseEnded(ctx, jobs)
	devices := backends.devices(c.State, runner)
	undo(ctx, devices, log.Logger)
	log.Info("the agent starts", "node", node, "controllers", c.Controllers, "state", c.State, "layers", layers.supported, "layers_left_out", layers.unsupported)
	return agent.Run(ctx, agent.Config{
		Node: node, Addresses: c.Controllers, Dial: dial, StateDir: c.State, Version: version, Log: log.Logger,
		Host:                 machine,
		Holds:                mounted.holds(),
		Jobs:                 jobs,
		Devices:              devices,
		Numbers:              &numbers.Watcher{Ours: machine.Numbers},
		Providers:            backends.supported,
		Layers:               layers.supported,
		UnsupportedProviders: backends.unsupported,
		UnsupportedLayers:    layers.unsupported,
		SetLogLevel:          func(level string) error { return setLevel(log.Level, level) },
	})
}

// thaw lets filesystems be written that an agent left frozen which was killed together with its guard. What cannot be
// thawed now is tried again before anything else is frozen.
func thaw(ctx context.Context, z *freeze.Freezer, log *slog.Logger) {
	const patience = 10 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := z.Recover(ctx); err != nil {
		log.Error("filesystems that an earlier agent may have left frozen could not be thawed", "error", err)
	}
}

// undo removes what is left of backends that an agent was making when it was killed. What cannot be removed now is tried again
// before the next one is made.
func undo(ctx context.Context, devices *backend.Service, log *slog.Logger) {
	const patience = 30 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := devices.Recover(ctx); err != nil {
		log.Error("what an earlier agent was making of devices could not be undone", "error", err)
	}
}

// setLevel changes the level of a log. The API's TRACE is below the levels that the log has names for.
func setLevel(of *slog.LevelVar, level string) error {
	if strings.EqualFold(level, "TRACE") {
		level = "DEBUG-4"
	}
	if err := of.UnmarshalText([]byte(level)); err != nil {
		return fmt.Errorf("the log level %q is not known", level)
	}
	return nil
}
