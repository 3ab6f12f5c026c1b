// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/internal/config"
	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/inventory"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/telemetry"
)

func upCommand() *cobra.Command {
	var s settings
	var data string
	c := &cobra.Command{
		Use:   "up",
		Short: "Run a controller and the agent of this host in one process",
		Long: "Run a controller and the agent of this host in one process. Everything lies below one folder: the embedded\n" +
			"database, and a pool of files named " + string(schema.DefaultPool) + ". Everything listens on loopback unless told otherwise.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			log, err := s.load()
			if err != nil {
				return err
			}
			return runUp(c.Context(), s.Config, data, log, c.OutOrStdout())
		},
	}
	s.flags(c)
	c.Flags().StringVar(&data, "data", "/var/lib/holdfast", "folder of everything")
	c.Flags().StringVar(&s.Controller.Listen, "listen", "", "address of the REST API (default 127.0.0.1:3370)")
	c.Flags().StringVar(&s.Controller.AgentListen, "agent-listen", "", "address that agents dial (default 127.0.0.1:3366)")
	c.Flags().BoolVar(&s.Controller.Plaintext, "plaintext", false, "serve agents without TLS, and believe everybody; for tests alone")
	c.Flags().StringVar(&s.Agent.Run, "run", "", "folder of what is void after a reboot, with the socket for users of this host (default: below --data, or /run/holdfast)")
	c.Flags().StringVar(&s.Agent.Node, "node", "", "name of this node (default: the host's name)")
	return c
}

// runUp is controller and agent until ctx ends, or one of them fails.
func runUp(ctx context.Context, c config.Config, data string, log telemetry.Log, out io.Writer) error {
	data, err := filepath.Abs(data)
	if err != nil {
		return err
	}
	if c.Agent.Node, err = nodeName(c.Agent.Node); err != nil {
		return err
	}
	c.Controller.Data, c.Agent.State = filepath.Join(data, "controller"), filepath.Join(data, "agent")
	files := filepath.Join(data, "pool")
	if err := os.MkdirAll(files, 0o700); err != nil {
		return fmt.Errorf("make the folder of the pool: %w", err)
	}
	r, err := open(ctx, c.Controller, log)
	if err != nil {
		return err
	}
	c.Agent.Controllers = []string{r.agents.Addr().String()}
	if err := register(ctx, r, c.Agent.Node); err != nil {
		return errors.Join(err, r.agents.Close(), r.clients.Close(), r.Close())
	}
	dial := issued(r.Identity, c.Agent.Node)
	if c.Controller.Plaintext {
		dial = plainly(log.Logger)
	}

	ctx, stop := context.WithCancel(ctx)
	defer stop()
	// The agent ends after the controller: what requests still wait for is made.
	agentCtx, stopAgent := context.WithCancel(context.WithoutCancel(ctx))
	defer stopAgent()
	ended := make(chan error, 3)
	go func() {
		defer stopAgent()
		ended <- r.serve(ctx)
	}()
	go func() {
		defer stop()
		ended <- runAgent(agentCtx, c.Agent, dial, log)
	}()
	go func() {
		err := furnish(ctx, r, c.Agent.Node, files)
		if err != nil && ctx.Err() == nil {
			stop()
			ended <- err
			return
		}
		announce(out, log.Logger, r, c.Agent.Node)
		ended <- nil
	}()
	err = errors.Join(<-ended, <-ended, <-ended)
	tell(log.Logger, daemon.SdNotifyStopping)
	return err
}

// register registers this node where it is missing. What is there stays as it is, so that a
// node that was changed by hand keeps its changes.
func register(ctx context.Context, r *running, node string) error {
	_, err := r.Inventory.CreateNode(ctx, inventory.NewNode{
		Name: node, Type: string(model.CombinedNode),
		Interfaces: []inventory.NewInterface{{Name: "default", Address: "127.0.0.1"}},
	})
	if err != nil && !errs.Is(err, errs.Exists) {
		return err
	}
	return nil
}

// furnish makes the pool of this node known where it is not, once the node is online. A pool
// that is there stays as it is.
func furnish(ctx context.Context, r *running, node, files string) error {
	if err := online(ctx, r.Observed, model.NodeName(node).Key()); err != nil {
		return err
	}
	_, err := r.Inventory.CreatePool(ctx, node, inventory.NewPool{
		Name: string(schema.DefaultPool), Provider: string(model.FileThin),
		Props: map[string]string{"StorDriver/StorPoolName": files},
	})
	if err != nil && !errs.Is(err, errs.Exists) {
		return err
	}
	return nil
}

// online waits until a node is online.
func online(ctx context.Context, seen *observed.State, node model.NodeKey) error {
	const patience = 30 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	changes := seen.Subscribe(ctx)
	if seen.Node(node).Connection == observed.Online {
		return nil
	}
	for range changes {
		if seen.Node(node).Connection == observed.Online {
			return nil
		}
	}
	return fmt.Errorf("the agent of this host did not come online within %s", patience)
}

func announce(out io.Writer, log *slog.Logger, r *running, node string) {
	_, err := fmt.Fprintf(out, "Holdfast is up: node %s, pool %s, API http://%s\nA first volume in another shell: see 'holdfast help first-volume'\n", node, schema.DefaultPool, r.clients.Addr())
	if err != nil {
		log.Warn("the start could not be announced", "error", err)
	}
	tell(log, daemon.SdNotifyReady)
}
