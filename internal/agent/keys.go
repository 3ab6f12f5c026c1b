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
// last, and which volumes and snapshots are encrypted at all. They are in memory alone. The zero
// value is ready for use.
type keys struct {
	mu        sync.Mutex
	all       map[pool.ID]*agentpb.Luks // nil for a volume that is not encrypted
	snapshots map[pool.SnapshotID]bool  // whether they are of encrypted volumes
}

// note keeps what a wish says of the volumes and snapshots of a resource, and forgets it of those
// that are to go.
func (k *keys) note(w Want) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.all == nil {
		k.all, k.snapshots = map[pool.ID]*agentpb.Luks{}, map[pool.SnapshotID]bool{}
	}
	for _, v := range w.Volumes {
		id := pool.ID{Resource: w.Resource, Volume: int(v.Number)}.Fold()
		if w.Destroy || v.Destroy {
			delete(k.all, id)
		} else {
			k.all[id] = v.Luks
		}
	}
	for _, s := range w.Snapshots {
		for _, p := range s.Parts {
			id := pool.SnapshotID{Resource: w.Resource, Volume: int(p.Number), Snapshot: s.Name}.Fold()
			if s.Destroy {
				delete(k.snapshots, id)
			} else {
				k.snapshots[id] = p.Encrypted
			}
		}
	}
}

// encrypted tells whether a volume, or a snapshot of one, is encrypted, and whether that is known.
func (k *keys) encrypted(id pool.SnapshotID) (encrypted, known bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if id.Snapshot != "" {
		encrypted, known = k.snapshots[id.Fold()]
		return encrypted, known
	}
	l, known := k.all[id.Of().Fold()]
	return l != nil, known
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
