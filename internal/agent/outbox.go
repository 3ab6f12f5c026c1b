// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/model"
)

// outbox holds the latest status of each resource, pool and job, and of the host, and knows
// which of them the controller has not got yet. A status in it is never changed, only replaced.
//
// All methods may be called at once.
type outbox struct {
	mu        sync.Mutex
	resources map[model.DefinitionKey]*agentpb.ResourceStatus
	pools     map[model.PoolKey]*agentpb.PoolStatus
	jobs      map[string]*agentpb.JobStatus
	host      *agentpb.HostStatus // nil when nothing is known of it

	unsentResources map[model.DefinitionKey]struct{}
	unsentPools     map[model.PoolKey]struct{}
	unsentJobs      map[string]struct{}
	unsentHost      bool

	kick chan struct{} // holds one: something is unsent
}

func newOutbox() *outbox {
	return &outbox{
		resources:       map[model.DefinitionKey]*agentpb.ResourceStatus{},
		pools:           map[model.PoolKey]*agentpb.PoolStatus{},
		jobs:            map[string]*agentpb.JobStatus{},
		unsentResources: map[model.DefinitionKey]struct{}{},
		unsentPools:     map[model.PoolKey]struct{}{},
		unsentJobs:      map[string]struct{}{},
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

// putJob makes s the latest status of its job. One that says nothing new is not sent.
func (o *outbox) putJob(s *agentpb.JobStatus) {
	o.mu.Lock()
	defer o.mu.Unlock()
	id := s.GetJob().GetId()
	if proto.Equal(o.jobs[id], s) {
		return
	}
	o.jobs[id] = s
	o.unsentJobs[id] = struct{}{}
	o.kickOff()
}

// changeHost makes what change makes of a copy of the host's status the latest one. One that
// says nothing new is not sent.
func (o *outbox) changeHost(change func(*agentpb.HostStatus)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := &agentpb.HostStatus{}
	if o.host != nil {
		s = proto.CloneOf(o.host)
	}
	change(s)
	if o.host != nil && proto.Equal(o.host, s) {
		return
	}
	o.host, o.unsentHost = s, true
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
	for id := range o.jobs {
		o.unsentJobs[id] = struct{}{}
	}
	o.unsentHost = o.host != nil
	o.kickOff()
}

func (o *outbox) kickOff() {
	select {
	case o.kick <- struct{}{}:
	default:
	}
}
