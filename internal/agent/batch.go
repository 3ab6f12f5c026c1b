// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/model"
)

// batch is what one report carries.
type batch struct {
	resources    []*agentpb.ResourceStatus
	resourceKeys []model.DefinitionKey
	pools        []*agentpb.PoolStatus
	poolKeys     []model.PoolKey
	jobs         []*agentpb.JobStatus
	host         *agentpb.HostStatus
}

func (b *batch) empty() bool {
	return len(b.resources) == 0 && len(b.pools) == 0 && len(b.jobs) == 0 && b.host == nil
}

// take returns unsent statuses of about most bytes together, at least one if there is any,
// and counts them as sent. The host and pools come first: they are few, and placement waits for
// them.
func (o *outbox) take(most int) *batch {
	o.mu.Lock()
	defer o.mu.Unlock()
	b, size := &batch{}, 0
	fits := func(m proto.Message) bool {
		n := proto.Size(m)
		if size > 0 && size+n > most {
			return false
		}
		size += n
		return true
	}
	if o.unsentHost && fits(o.host) {
		b.host, o.unsentHost = o.host, false
	}
	for k := range o.unsentPools {
		if !fits(o.pools[k]) {
			return b
		}
		b.pools = append(b.pools, o.pools[k])
		b.poolKeys = append(b.poolKeys, k)
		delete(o.unsentPools, k)
	}
	for id := range o.unsentJobs {
		if !fits(o.jobs[id]) {
			return b
		}
		b.jobs = append(b.jobs, o.jobs[id])
		delete(o.unsentJobs, id)
	}
	for k := range o.unsentResources {
		if !fits(o.resources[k]) {
			return b
		}
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
	for _, s := range b.jobs {
		o.unsentJobs[s.GetJob().GetId()] = struct{}{}
	}
	o.unsentHost = o.unsentHost || b.host != nil
	o.kickOff()
}

// sent drops what needs to be told once alone, after an answer came for b.
func (o *outbox) sent(b *batch) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range b.jobs {
		if id := s.GetJob().GetId(); s.GetForgotten() && o.jobs[id] == s {
			delete(o.jobs, id)
			delete(o.unsentJobs, id)
		}
	}
}
