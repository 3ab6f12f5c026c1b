// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package pool_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
)

func TestWhoOnlyHasADeviceOpenIsWaitedForAWhile(t *testing.T) {
	opened, mounted := pool.Holder{Kind: pool.Opened, Name: "blkid"}, pool.Holder{Kind: pool.Mounted, Name: "/mnt"}
	failed := errors.New("it cannot be seen")
	for _, x := range []struct {
		name  string
		seen  [][]pool.Holder // by look; the last one stays
		err   error
		users int
		looks int
	}{
		{name: "nobody", seen: [][]pool.Holder{nil}, looks: 1},
		{name: "a passer-by", seen: [][]pool.Holder{{opened}, {opened}, nil}, looks: 3},
		{name: "one who stays open", seen: [][]pool.Holder{{opened}}, users: 1, looks: 10},
		{name: "a mount", seen: [][]pool.Holder{{mounted, opened}}, users: 2, looks: 1},
		{name: "a mount that comes", seen: [][]pool.Holder{{opened}, {mounted}}, users: 1, looks: 2},
		{name: "no sight", seen: [][]pool.Holder{nil}, err: failed, looks: 1},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				looks := 0
				holders, err := pool.Lasting(t.Context(), func(context.Context) ([]pool.Holder, error) {
					looks++
					return x.seen[min(looks, len(x.seen))-1], x.err
				})
				if !errors.Is(err, x.err) || len(holders) != x.users || looks != x.looks {
					t.Errorf("got %v, %v after %d looks", holders, err, looks)
				}
			})
		})
	}
}

func TestNobodyIsWaitedForLongerThanTheCallerWants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 70*time.Millisecond)
		defer cancel()
		_, err := pool.Lasting(ctx, func(context.Context) ([]pool.Holder, error) { return []pool.Holder{{Kind: pool.Opened}}, nil })
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}
