// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package zfs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent/pool/turn"
	"github.com/holdfast-storage/holdfast/internal/command"
)

const (
	// maxCommands is how many programs run at once for one zpool. One that is suspended holds up no other.
	maxCommands = 4
	// defaultLimit is how long one of them may take. One that takes longer waits for disks.
	defaultLimit = 60 * time.Second
)

// Host runs the programs of ZFS for all pools of a host. There is one for each host, so that its limits hold.
type Host struct {
	// Limit is how long one program may take. Zero: 60 seconds. It must not change after the first call.
	Limit time.Duration

	runner command.Runner

	mu       sync.Mutex
	zpools   map[string]chan struct{}
	datasets map[string]*turn.Look[Report]
}

// NewHost returns the host that runner runs programs on.
func NewHost(runner command.Runner) *Host {
	return &Host{runner: runner, zpools: map[string]chan struct{}{}, datasets: map[string]*turn.Look[Report]{}}
}

// report returns what ZFS says of a dataset and all below it, after the call began. It is asked once for all who wait.
func (h *Host) report(ctx context.Context, dataset string) (Report, error) {
	h.mu.Lock()
	look := h.datasets[dataset]
	if look == nil {
		look = &turn.Look[Report]{Do: func(ctx context.Context) (Report, error) {
			res, err := h.run(ctx, dataset, "zfs", reportArgs(dataset)...)
			if err != nil {
				return Report{}, err
			}
			return ParseReport(dataset, string(res.Stdout))
		}}
		h.datasets[dataset] = look
	}
	h.mu.Unlock()
	return look.Get(ctx)
}

// change runs a program that changes something, to its end, also when ctx is over before.
func (h *Host) change(ctx context.Context, dataset string, args ...string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	_, err := h.run(context.WithoutCancel(ctx), dataset, "zfs", args...)
	return err
}

// Run runs a program of ZFS that is about a zpool, for who makes and removes zpools: with the host's limits, and to its end once
// it has begun. The zpool need not exist.
func (h *Host) Run(ctx context.Context, zpool, program string, args ...string) (command.Result, error) {
	if err := ctx.Err(); err != nil {
		return command.Result{}, err
	}
	return h.run(context.WithoutCancel(ctx), zpool, program, args...)
}

func (h *Host) run(ctx context.Context, dataset, program string, args ...string) (command.Result, error) {
	zpool, _, _ := strings.Cut(dataset, "/")
	h.mu.Lock()
	slots := h.zpools[zpool]
	if slots == nil {
		slots = make(chan struct{}, maxCommands)
		h.zpools[zpool] = slots
	}
	h.mu.Unlock()
	select {
	case slots <- struct{}{}:
	case <-ctx.Done():
		return command.Result{}, ctx.Err()
	}
	defer func() { <-slots }()
	res, err := h.runner.Run(ctx, command.Command{Program: program, Args: args, Limit: cmp.Or(h.Limit, defaultLimit)})
	if failed, ok := errors.AsType[*command.Error](err); ok && failed.Kind == command.TimedOut {
		return res, fmt.Errorf("zpool %s does not answer: look at zpool status, it is suspended when its disks are gone: %w", zpool, err)
	}
	return res, err
}
