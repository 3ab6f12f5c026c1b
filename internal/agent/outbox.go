// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/model"
)

// outbox holds the latest status of each resource and pool, and knows which of them the
// controller has not got yet. A status in it is never changed, only replaced.
//
// All methods may be called at once.
type outbox struct {
	mu        sync.Mutex
	resources map[model.DefinitionKey]*agentpb.ResourceStatus
	pools     map[model.PoolKey]*agentpb.PoolStatus

	unsentResources map[model.DefinitionKey]struct{}
	unsentPools     map[model.PoolKey]struct{}

	kick chan struct{} // holds one: something is unsent
}

func newOutbox() *outbox {
	return &outbox{
		resources:       map[model.DefinitionKey]*agentpb.ResourceStatus{},
		pools:           map[model.PoolKey]*agentpb.PoolStatus{},
		unsentResources: map[model.DefinitionKey]struct{}{},
		unsentPools:     map[model.PoolKey]struct{}{},
		kick:            make(chan struct{}, 1),
	}
}

// putResource makes s the latest status of k. One that says nothing new is not sent.
func (o *outbox) putResource(k model.DefinitionKey, s *agentpb.ResourceStatus) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if proto.Equal(o.resources[k], s) {
		return
	}
	o.resources[k] = s
	o.unsentResources[k] = struct{}{}
	o.kickOff()
}

// putPool makes s the latest status of k. One that says nothing new is not sent.
func (o *outbox) putPool(k model.PoolKey, s *agentpb.PoolStatus) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if proto.Equal(o.pools[k], s) {
		return
	}
	o.pools[k] = s
	o.unsentPools[k] = struct{}{}
	o.kickOff()
}

// resource returns the latest status of k, or nil.
func (o *outbox) resource(k model.DefinitionKey) *agentpb.ResourceStatus {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.resources[k]
}

// pool returns the latest status of k, or nil.
func (o *outbox) pool(k model.PoolKey) *agentpb.PoolStatus {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.pools[k]
}

func (o *outbox) forgetResource(k model.DefinitionKey) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.resources, k)
	delete(o.unsentResources, k)
}

func (o *outbox) forgetPool(k model.PoolKey) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.pools, k)
	delete(o.unsentPools, k)
}

// resend makes every status unsent again, for a controller that knows nothing of us.
func (o *outbox) resend() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for k := range o.resources {
		o.unsentResources[k] = struct{}{}
	}
	for k := range o.pools {
		o.unsentPools[k] = struct{}{}
	}
	o.kickOff()
}

// batch is what one report carries.
type batch struct {
	resources    []*agentpb.ResourceStatus
	resourceKeys []model.DefinitionKey
	pools        []*agentpb.PoolStatus
	poolKeys     []model.PoolKey
}

func (b *batch) empty() bool { return len(b.resources) == 0 && len(b.pools) == 0 }

// take returns unsent statuses of about most bytes together, at least one if there is any,
// and counts them as sent. Pools come first: they are few, and placement waits for them.
func (o *outbox) take(most int) *batch {
	o.mu.Lock()
	defer o.mu.Unlock()
	b, size := &batch{}, 0
	for k := range o.unsentPools {
		if size > 0 && size+proto.Size(o.pools[k]) > most {
			return b
		}
		size += proto.Size(o.pools[k])
		b.pools = append(b.pools, o.pools[k])
		b.poolKeys = append(b.poolKeys, k)
		delete(o.unsentPools, k)
	}
	for k := range o.unsentResources {
		if size > 0 && size+proto.Size(o.resources[k]) > most {
			return b
		}
		size += proto.Size(o.resources[k])
		b.resources = append(b.resources, o.resources[k])
		b.resourceKeys = append(b.resourceKeys, k)
		delete(o.unsentResources, k)
	}
	return b
}

// putBack counts what b carried as unsent, after no answer came for it. The next batch has
// the latest of each.
func (o *outbox) putBack(b *batch) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, k := range b.resourceKeys {
		if o.resources[k] != nil {
			o.unsentResources[k] = struct{}{}
		}
	}
	for _, k := range b.poolKeys {
		if o.pools[k] != nil {
			o.unsentPools[k] = struct{}{}
		}
	}
	o.kickOff()
}

func (o *outbox) kickOff() {
	select {
	case o.kick <- struct{}{}:
	default:
	}
}
