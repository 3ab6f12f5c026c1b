// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package held

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent/hold"
	"github.com/holdfast-storage/holdfast/internal/agent/pool"
)

// holdID is the id of the hold of a volume that is open.
func (p *Pool) holdID(id pool.ID) hold.ID {
	id = id.Fold()
	return hold.ID(fmt.Sprintf("volume/%s/%s/%d", p.spec.Pool.ID, id.Resource, id.Volume))
}

// lock makes opening and closing of one volume come one after the other.
func (p *Pool) lock(ctx context.Context, id pool.ID) (release func(), err error) {
	if err := id.Validate(); err != nil {
		return nil, err
	}
	p.mu.Lock()
	slot := p.locks[id.Fold()]
	if slot == nil {
		slot = make(chan struct{}, 1)
		p.locks[id.Fold()] = slot
	}
	p.mu.Unlock()
	select {
	case slot <- struct{}{}:
		return func() { <-slot }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Open implements pool.Driver. The volume holds the pool from before it is open until after it was closed.
func (p *Pool) Open(ctx context.Context, id pool.ID) (pool.Device, error) {
	release, err := p.lock(ctx, id)
	if err != nil {
		return pool.Device{}, err
	}
	defer release()
	if err := p.deploy(ctx, id); err != nil {
		return pool.Device{}, err
	}
	p.changed()
	var d pool.Device
	if err = p.call(ctx, openMethod, arguments{ID: id}, &d, p.host.c.Quick, nil); err == nil {
		return d, nil
	}
	// It may have been opened all the same, and then the hold has to stay.
	if v, found, lookErr := p.Find(ctx, id); lookErr == nil && (!found || v.Device.Path == "") {
		p.undeploy(ctx, id)
	}
	return pool.Device{}, err
}

// Close implements pool.Driver.
func (p *Pool) Close(ctx context.Context, id pool.ID) error { return p.down(ctx, closeMethod, id) }

// Remove implements pool.Driver.
func (p *Pool) Remove(ctx context.Context, id pool.ID) error { return p.down(ctx, removeMethod, id) }

func (p *Pool) down(ctx context.Context, method string, id pool.ID) error {
	release, err := p.lock(ctx, id)
	if err != nil {
		return err
	}
	defer release()
	p.changed()
	if err := p.call(ctx, method, arguments{ID: id}, nil, 0, nil); err != nil {
		return err
	}
	p.undeploy(ctx, id)
	return nil
}

// deploy acquires the hold of a volume. The caller has its lock.
func (p *Pool) deploy(ctx context.Context, id pool.ID) error {
	id = id.Fold()
	p.mu.Lock()
	have := p.deployed[id]
	p.mu.Unlock()
	if have {
		return nil
	}
	_, err := p.host.c.Holds.Acquire(ctx, p.spec.Pool, hold.Request{
		ID: p.holdID(id), Holder: hold.Holder{Kind: hold.Volume, Name: fmt.Sprintf("%s/%d", id.Resource, id.Volume)}, Mode: p.mode(),
	})
	if err != nil {
		return p.refused(err)
	}
	p.mu.Lock()
	p.deployed[id] = true
	p.mu.Unlock()
	return nil
}

// undeploy releases the hold of a volume that is closed. What becomes of the mount is no concern of whoever closes it. The caller has its lock.
func (p *Pool) undeploy(ctx context.Context, id pool.ID) {
	const patience = 10 * time.Second
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	err := p.rebuild(ctx)
	p.mu.Lock()
	have := p.deployed[id.Fold()]
	p.mu.Unlock()
	if err == nil && !have {
		return // It was not open.
	}
	_, err = p.host.c.Holds.Release(ctx, p.holdID(id))
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil { // It is tried again when the volumes are listed next.
		p.deployed[id.Fold()] = true
		p.host.c.Log.Warn("a hold could not be released", "pool", p.spec.Pool.ID, "hold", p.holdID(id), "error", err)
		return
	}
	delete(p.deployed, id.Fold())
}

// reconcile makes the holds of volumes agree with what is open: an earlier process, or a call whose end is not known, may have left them otherwise.
func (p *Pool) reconcile(ctx context.Context, all []pool.Volume) error {
	if p.Trial() {
		return nil
	}
	if err := p.rebuild(ctx); err != nil {
		return err
	}
	open := map[pool.ID]bool{}
	var differ []pool.ID
	p.mu.Lock()
	for _, v := range all {
		if v.Device.Path == "" {
			continue
		}
		open[v.ID.Fold()] = true
		if !p.deployed[v.ID.Fold()] {
			differ = append(differ, v.ID)
		}
	}
	for id := range p.deployed {
		if !open[id] {
			differ = append(differ, id)
		}
	}
	p.mu.Unlock()
	var failed error
	for _, id := range differ {
		failed = errors.Join(failed, p.settle(ctx, id))
	}
	return failed
}

// settle looks at one volume again, while nobody opens or closes it.
func (p *Pool) settle(ctx context.Context, id pool.ID) error {
	release, err := p.lock(ctx, id)
	if err != nil {
		return err
	}
	defer release()
	v, found, err := p.Find(ctx, id)
	if err != nil {
		return err
	}
	if found && v.Device.Path != "" {
		return p.deploy(ctx, id)
	}
	p.undeploy(ctx, id)
	return nil
}

// rebuild learns, once, which volumes hold the pool since an earlier process.
func (p *Pool) rebuild(ctx context.Context) error {
	p.mu.Lock()
	done := p.rebuilt
	p.mu.Unlock()
	if done {
		return nil
	}
	s, err := p.host.c.Holds.Inspect(ctx, p.spec.Pool.ID)
	if err != nil && !hold.IsKind(err, hold.Unknown) {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	prefix := "volume/" + p.spec.Pool.ID + "/"
	for _, h := range s.Holds {
		rest, mine := strings.CutPrefix(string(h.ID), prefix)
		if !mine || h.Waiting {
			continue
		}
		var id pool.ID
		if name, number, ok := strings.Cut(rest, "/"); ok {
			if _, err := fmt.Sscanf(number, "%d", &id.Volume); err == nil {
				id.Resource = name
				p.deployed[id.Fold()] = true
			}
		}
	}
	p.rebuilt = true
	return nil
}
