// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/agent/luks"
	"github.com/holdfast-storage/holdfast/internal/agent/pool"
)

// notKept is why an agent has no key of what it knows from before it was started.
const notKept = "keys are not kept on hosts, and no controller has sent it since the agent was started"

// keys are what opens the encrypted volumes of this host, as the wishes say that were looked at
// last. They are in memory alone. The zero value is ready for use.
type keys struct {
	mu  sync.Mutex
	all map[pool.ID]*agentpb.Luks
}

// note keeps what a wish says of the volumes of a resource, and forgets it of those that are to go.
func (k *keys) note(w Want) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, v := range w.Volumes {
		id := pool.ID{Resource: w.Resource, Volume: int(v.Number)}.Fold()
		if v.Luks == nil || w.Destroy || v.Destroy {
			delete(k.all, id)
			continue
		}
		if k.all == nil {
			k.all = map[pool.ID]*agentpb.Luks{}
		}
		k.all[id] = v.Luks
	}
}

// of returns the key of a volume.
func (k *keys) of(_ context.Context, id pool.ID) ([]byte, error) {
	k.mu.Lock()
	l := k.all[id.Fold()]
	k.mu.Unlock()
	switch {
	case len(l.GetKey()) > 0:
		return l.GetKey(), nil
	case l.GetLacks() == notKept:
		return nil, &luks.LockedError{ID: id, Why: notKept}
	case l.GetLacks() != "":
		return nil, fmt.Errorf("volume %s is encrypted, and cannot be opened: %w", id, errors.New(l.GetLacks()))
	}
	return nil, &luks.LockedError{ID: id}
}

// withoutKeys returns a resource as it may be written down.
func withoutKeys(r *agentpb.Resource) *agentpb.Resource {
	bare := r
	for i, v := range r.GetVolumes() {
		if v.GetLuks() == nil {
			continue
		}
		if bare == r {
			bare = proto.CloneOf(r)
		}
		bare.Volumes[i].Luks = &agentpb.Luks{Lacks: notKept}
	}
	return bare
}
