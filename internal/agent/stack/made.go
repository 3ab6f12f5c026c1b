// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"context"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
)

// made is the volumes that one call of Apply has finished. Nobody was told of them yet, so nobody uses them: to look for users costs as much as to make a volume.
type made map[pool.ID]bool

type madeKey struct{}

// withMade returns a context for one call of Apply, whose steps are done one after the other.
func withMade(ctx context.Context) context.Context {
	return context.WithValue(ctx, madeKey{}, made{})
}

func noteMade(ctx context.Context, id pool.ID) {
	if m, ok := ctx.Value(madeKey{}).(made); ok {
		m[id.Fold()] = true
	}
}

func isMade(ctx context.Context, id pool.ID) bool {
	m, _ := ctx.Value(madeKey{}).(made)
	return m[id.Fold()]
}
