// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package lvm

import (
	"context"

	"github.com/holdfast-storage/holdfast/internal/command"
)

// Run runs a program of LVM that is about a group, for who makes and removes groups: when the programs that change this group
// have ended, with the host's limits and filter, and to its end once it has begun. The group need not exist.
func (h *Host) Run(ctx context.Context, group, program string, args ...string) (command.Result, error) {
	g := h.group(group)
	select {
	case g.lane <- struct{}{}:
	case <-ctx.Done():
		return command.Result{}, ctx.Err()
	}
	defer func() { <-g.lane }()
	if err := ctx.Err(); err != nil {
		return command.Result{}, err
	}
	return h.run(context.WithoutCancel(ctx), group, program, args...)
}
