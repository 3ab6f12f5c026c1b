// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-storage/holdfast/internal/kv/etcdkv"
)

// Reign is the time in which one controller leads.
type Reign struct {
	e       *Election
	lease   clientv3.LeaseID
	created int64
	until   atomic.Int64 // by the clock: surely alive before

	stop  context.CancelFunc
	lost  chan struct{}
	ended chan struct{} // keep has ended
	over  atomic.Bool
}

// Proof is what the engine compares in each commit.
func (g *Reign) Proof() etcdkv.Reign { return etcdkv.Reign{Key: g.e.key, Created: g.created} }

// Holds reports whether nobody else can lead at this moment. It asks no one and costs next to nothing.
func (g *Reign) Holds() bool {
	return !g.over.Load() && g.e.s.Clock() < time.Duration(g.until.Load())
}

// Lost is closed when the reign has ended without Resign, or might have.
func (g *Reign) Lost() <-chan struct{} { return g.lost }

// margin is the part of a lease that is not counted on: clocks of two hosts may differ in speed by it.
const margin = 5

// renewed notes that the lease was renewed, by a request that was sent at a time.
func (g *Reign) renewed(sent, ttl time.Duration) {
	g.until.Store(int64(sent + ttl - ttl/margin))
}

// keep renews the lease until it cannot be renewed any more.
func (g *Reign) keep(ctx context.Context) {
	defer close(g.ended)
	for g.Holds() {
		wait := time.NewTimer(g.e.lease / 5)
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return
		}
		if err := g.renew(ctx); err != nil {
			if ctx.Err() != nil {
				return
			}
			g.e.s.Log.Warn("the lease of the leader was not renewed", "error", err)
			if errors.Is(err, errOver) {
				break
			}
		}
	}
	g.over.Store(true)
	close(g.lost)
}

// errOver says that the lease or the key is gone.
var errOver = errors.New("the reign is over")

// renew renews the lease, and makes sure that the key is still there: someone may have removed it by hand.
func (g *Reign) renew(ctx context.Context) error {
	trying, cancel := g.e.try(ctx)
	defer cancel()
	c, turn, err := g.e.members.Use()
	if err != nil {
		return err
	}
	sent := g.e.s.Clock()
	kept, err := c.KeepAliveOnce(trying, g.lease)
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return fmt.Errorf("%w: the lease has expired", errOver)
	}
	if err != nil {
		turn()
		return err
	}
	r, err := g.e.look(ctx)
	if err != nil {
		return err
	}
	if len(r.Kvs) == 0 || r.Kvs[0].GetCreateRevision() != g.created {
		return fmt.Errorf("%w: the key %s was taken away", errOver, g.e.key)
	}
	g.renewed(sent, time.Duration(kept.TTL)*time.Second)
	return nil
}

// Resign ends the reign, so that another candidate need not wait for the end of the lease. The caller writes nothing any more.
func (g *Reign) Resign(ctx context.Context) {
	g.over.Store(true)
	g.stop()
	<-g.ended
	g.e.revoke(ctx, g.lease)
}
