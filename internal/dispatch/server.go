// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// The protocols that this package speaks. It serves agents of the newest one and of the one
// before, so that controllers can be updated first.
const (
	Protocol       = 1
	OldestProtocol = 1
)

// Gone is a replica, or some of its volumes, of which an agent has said that nothing is left
// on its host.
type Gone struct {
	Resource   model.ResourceID
	Generation uint64               // of the assignment that said destroy
	Volumes    []model.VolumeNumber // empty for the replica as a whole
}

// SnapshotGone is a snapshot of which an agent has said that nothing is left on its host.
type SnapshotGone struct {
	Snapshot   model.SnapshotReplicaID
	Generation uint64 // of the assignment that said destroy
}

// Config is what a Server needs to know. Store, Observed and Destroyed are required.
type Config struct {
	Store    *store.Store
	Observed *observed.State

	// Destroyed makes durable that gone is gone, before it returns nil. It is told of a replica
	// or volume whose row is Deleting, not newer than the generation, and must look at both
	// again in its transactions: rows may have changed meanwhile. It may be told the same
	// thing several times, also at once. After an error the agent says it again.
	Destroyed func(ctx context.Context, node model.NodeKey, gone []Gone) error

	// SnapshotsDestroyed is Destroyed for snapshots whose rows are Deleting. Nil: their rows are
	// removed by others.
	SnapshotsDestroyed func(ctx context.Context, node model.NodeKey, gone []SnapshotGone) error

	// Keys opens the sealed keys of encrypted volumes; it returns passphrase.ErrLocked until it
	// can, and then KeysOpened is to be called. Nil: it never can.
	Keys Keys

	// Admit refuses a caller that is not the agent of node, by what ctx knows of it. Without
	// it, everyone is who he says.
	Admit func(ctx context.Context, node model.NodeKey) error

	Heartbeat    time.Duration // how often agents report at least; 5 s when zero
	OfflineAfter time.Duration // of silence; 15 s when zero
	AskTimeout   time.Duration // for an agent to answer; 30 s when zero
	WorkTimeout  time.Duration // for an agent to answer what makes it work for longer; 5 min when zero

	Log *slog.Logger // nothing is logged when nil
}

// Server is the service of the protocol. It implements [agentpb.AgentServer].
type Server struct {
	agentpb.UnimplementedAgentServer
	cfg Config

	mu       sync.RWMutex  // taken before the locks of a host
	stopping chan struct{} // closed when Run ends; nil while it does not run
	hosts    map[model.NodeKey]*host
	live     sync.WaitGroup // sessions with all that they started

	count counters
}

var _ agentpb.AgentServer = (*Server)(nil)

// New returns a Server, which takes sessions once Run runs.
func New(cfg Config) *Server {
	cfg.Heartbeat = cmp.Or(cfg.Heartbeat, 5*time.Second)
	cfg.OfflineAfter = cmp.Or(cfg.OfflineAfter, 15*time.Second)
	cfg.AskTimeout = cmp.Or(cfg.AskTimeout, 30*time.Second)
	cfg.WorkTimeout = cmp.Or(cfg.WorkTimeout, 5*time.Minute)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Server{cfg: cfg, hosts: make(map[model.NodeKey]*host)}
}

// Stats is what a Server has done since it was made, and its sessions now.
type Stats struct {
	Sessions    int   // now
	Full        int64 // sessions begun with a full set
	Resumed     int64 // sessions begun with an increment
	Superseded  int64 // sessions ended by a newer one of the same node
	Silent      int64 // sessions ended because nothing was heard
	Messages    int64 // sent
	Assigned    int64 // resources in them
	Reports     int64 // answered, heartbeats included
	Statuses    int64 // of resources in them
	Strangers   int64 // of these, statuses without a row
	Destroyed   int64 // replicas and volumes confirmed gone
	Refused     int64 // reports answered with an error, as Destroyed had failed
	Resyncs     int64 // times that all assignments were compared, as commits were missed
	AsksRefused int64 // asks that got no answer
}

type counters struct {
	full, resumed, superseded, silent, messages, assigned, reports, statuses, strangers,
	destroyed, refused, resyncs, asksRefused atomic.Int64
}

// Sessions returns the figures, for metrics.
func (s *Server) Sessions() Stats {
	st := Stats{
		Full: s.count.full.Load(), Resumed: s.count.resumed.Load(),
		Superseded: s.count.superseded.Load(), Silent: s.count.silent.Load(),
		Messages: s.count.messages.Load(), Assigned: s.count.assigned.Load(),
		Reports: s.count.reports.Load(), Statuses: s.count.statuses.Load(),
		Strangers: s.count.strangers.Load(), Destroyed: s.count.destroyed.Load(),
		Refused: s.count.refused.Load(),
		Resyncs: s.count.resyncs.Load(), AsksRefused: s.count.asksRefused.Load(),
	}
	for _, h := range s.all() {
		if h.current() != nil {
			st.Sessions++
		}
	}
	return st
}

// host returns the record of a node, or nil when it never had a session.
func (s *Server) host(node model.NodeKey) *host {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.hosts[node]
}

// all returns all records.
func (s *Server) all() []*host {
	s.mu.RLock()
	defer s.mu.RUnlock()
	list := make([]*host, 0, len(s.hosts))
	for _, h := range s.hosts {
		list = append(list, h)
	}
	return list
}
