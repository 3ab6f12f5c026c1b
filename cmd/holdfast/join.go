// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/holdfast-storage/holdfast/internal/agent"
	"github.com/holdfast-storage/holdfast/internal/config"
	"github.com/holdfast-storage/holdfast/internal/identity"
	"github.com/holdfast-storage/holdfast/internal/identity/authority"
	"github.com/holdfast-storage/holdfast/internal/identity/keeper"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/telemetry"
)

// dialer makes a connection to a controller, with all its credentials.
type dialer func(address string) (agent.Conn, error)

// alive gives up a peer that is silent for long.
func alive() grpc.DialOption {
	return grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 10 * time.Second})
}

// by dials with credentials of one kind.
func by(option grpc.DialOption) dialer {
	return func(address string) (agent.Conn, error) { return grpc.NewClient(address, option, alive()) }
}

// plainly dials without any.
func plainly(log *slog.Logger) dialer {
	log.Warn("controllers are dialled in plain text, and whoever answers is believed: this is for tests alone")
	return by(grpc.WithTransportCredentials(insecure.NewCredentials()))
}

// issued dials as a node with certificates that the authority in this process makes for each
// connection.
func issued(a *authority.Authority, node string) dialer {
	return by(grpc.WithTransportCredentials(identity.Transport(func() (identity.Credential, error) {
		return a.Issue(model.NodeName(node))
	}, time.Now)))
}

// runMember is the agent of this host, which joins with a token or has joined already, until
// ctx ends.
func runMember(ctx context.Context, c config.Agent, token string, log telemetry.Log) error {
	var err error
	if c.Node, err = nodeName(c.Node); err != nil {
		return err
	}
	if err := os.MkdirAll(c.State, 0o700); err != nil {
		return fmt.Errorf("make the state folder: %w", err)
	}
	if c.Plaintext {
		return runAgent(ctx, c, plainly(log.Logger), log)
	}
	k := keeper.New(keeper.Config{
		Node: c.Node, Dir: c.State, Addresses: c.Controllers, Token: token, TokenFile: c.JoinFile,
		Options: []grpc.DialOption{alive()}, Log: log.Logger,
	})
	ctx, stop := context.WithCancel(ctx)
	var keeping sync.WaitGroup
	keeping.Go(func() { k.Run(ctx) })
	defer keeping.Wait()
	defer stop()
	return runAgent(ctx, c, func(address string) (agent.Conn, error) {
		conn, err := k.Dial(address)
		if err != nil {
			return nil, err
		}
		return conn, nil
	}, log)
}
