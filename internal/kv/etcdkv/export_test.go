// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package etcdkv

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-storage/holdfast/internal/kv"
	"github.com/holdfast-storage/holdfast/internal/kv/kvtest"
)

// LoseAnswers makes all attempts of the term end without an answer; the first one is applied or not.
func LoseAnswers(engine kv.Engine, written bool) {
	e := engine.(*Engine)
	enough := e.enough
	e.commit = func(ctx context.Context, t transaction) (*clientv3.TxnResponse, error) {
		if written {
			_, _ = e.once(ctx, t)
		}
		e.enough = func(time.Time) bool {
			e.commit, e.enough = e.once, enough
			return true
		}
		return nil, errors.New("the answer was lost")
	}
}

// LoseOneAnswer makes the next attempt end without an answer.
func LoseOneAnswer(engine kv.Engine, written bool) { LoseOneAnswerTo(engine, written, func() {}) }

// LoseOneAnswerTo does so, and lets something happen before the next attempt.
func LoseOneAnswerTo(engine kv.Engine, written bool, then func()) {
	failOneAttempt(engine, written, then, errors.New("the answer was lost"))
}

// FillUp makes the next attempt be answered that there is no room, and lets something happen before the engine has that answer.
func FillUp(engine kv.Engine, written bool, then func()) {
	failOneAttempt(engine, written, then, rpctypes.ErrGRPCNoSpace)
}

func failOneAttempt(engine kv.Engine, written bool, then func(), err error) {
	e := engine.(*Engine)
	e.commit = func(ctx context.Context, t transaction) (*clientv3.TxnResponse, error) {
		e.commit = e.once
		if written {
			_, _ = e.once(ctx, t)
		}
		then()
		return nil, err
	}
}

// Hold makes the next attempt stop at a gate.
func Hold(engine kv.Engine, s kvtest.Step) *kvtest.Gate {
	e, g := engine.(*Engine), kvtest.NewGate()
	e.commit = func(ctx context.Context, t transaction) (*clientv3.TxnResponse, error) {
		e.commit = e.once
		if s == kvtest.BeforeAppend {
			if err := g.Wait(ctx); err != nil {
				return nil, err
			}
			return e.once(ctx, t)
		}
		r, err := e.once(ctx, t)
		if waited := g.Wait(ctx); waited != nil {
			return nil, waited
		}
		return r, err
	}
	return g
}

// Compact makes etcd forget everything before now.
func Compact(engine kv.Engine) {
	e := engine.(*Engine)
	_, now, err := e.read(context.Background(), 0)
	if err == nil {
		client, _, _ := e.members.Use()
		_, err = client.Compact(context.Background(), now)
	}
	if err != nil {
		panic(err)
	}
}
