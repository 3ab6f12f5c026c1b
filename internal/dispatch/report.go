// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"context"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// Report implements [agentpb.AgentServer].
func (s *Server) Report(ctx context.Context, req *agentpb.ReportRequest) (*agentpb.ReportReply, error) {
	node := model.NodeName(req.GetNode()).Key()
	if err := s.admit(ctx, node); err != nil {
		return nil, err
	}
	x := s.session(node, req.GetSession())
	if x == nil {
		return &agentpb.ReportReply{UnknownSession: true}, nil
	}
	x.touch()
	in := s.read(x.host, req)
	if err := s.confirmSnapshots(ctx, node, in.snapshots); err != nil {
		return nil, err
	}
	if !s.observe(x, in.now, in.at, req.GetApplied()) {
		return &agentpb.ReportReply{UnknownSession: true}, nil
	}
	for _, g := range in.snapshots {
		s.cfg.Observed.ForgetSnapshot(g.Snapshot)
	}
	s.count.statuses.Add(int64(len(req.GetResources())))
	if len(in.strangers) > 0 {
		s.count.strangers.Add(int64(len(in.strangers)))
		x.host.mark(func(t *todo) {
			for _, name := range in.strangers {
				t.stranger(name)
			}
		})
	}
	if len(in.gone) > 0 {
		if err := s.confirm(ctx, x, in); err != nil {
			s.count.refused.Add(1)
			s.cfg.Log.Warn("what is gone from a host could not be recorded", "node", node, "err", err)
			return nil, status.Errorf(codes.Unavailable, "what is gone from node %s could not be recorded, say it again: %v", node, err)
		}
	}
	s.count.reports.Add(1)
	return &agentpb.ReportReply{}, nil
}

// session returns the current session of a node if it has that id.
func (s *Server) session(node model.NodeKey, id string) *session {
	h := s.host(node)
	if h == nil {
		return nil
	}
	if x := h.current(); x != nil && x.id == id {
		return x
	}
	return nil
}

// reading is a report, sorted by what becomes of its parts.
type reading struct {
	at        store.Revision // by which it was read
	now       observed.Report
	gone      []Gone
	then      map[model.DefinitionKey]observed.ResourceStatus // of what is gone, once that is durable
	snapshots []SnapshotGone
	strangers []string // resources without a row
}

// read sorts the parts of a report by the newest durable state.
func (s *Server) read(h *host, req *agentpb.ReportRequest) reading {
	view := s.cfg.Store.Snapshot()
	in := reading{
		at: view.Revision(),
		now: observed.Report{
			Resources: make(map[model.DefinitionKey]observed.ResourceStatus, len(req.GetResources())),
			Pools:     make(map[model.PoolKey]observed.PoolStatus, len(req.GetPools())),
			Snapshots: make(map[model.DefinitionKey]map[model.SnapshotKey]observed.SnapshotStatus),
			Host:      hostOf(req.GetHost()),
		},
		then: make(map[model.DefinitionKey]observed.ResourceStatus),
	}
	for _, m := range req.GetResources() {
		s.readResource(&in, view, h, m)
	}
	for _, m := range req.GetPools() {
		k := model.PoolName(m.GetName()).Key()
		st := poolOf(m)
		// A pool that was never assigned here may hold volumes of ours all the same: the
		// database may be newer than they are. People must see that.
		_, registered := schema.Pools.Get(view, model.PoolID{Node: h.node, Pool: k})
		if registered || len(st.Unknown) > 0 && !h.sent.hasPool(k) {
			in.now.Pools[k] = st
		}
	}
	for _, m := range req.GetJobs() {
		in.now.Jobs = append(in.now.Jobs, jobOf(m))
	}
	return in
}

func (s *Server) readResource(in *reading, view *store.View, h *host, m *agentpb.ResourceStatus) {
	k := model.DefinitionName(m.GetName()).Key()
	row, ok := schema.Resources.Get(view, model.ResourceID{Definition: k, Node: h.node})
	snapshots := readSnapshots(in, view, h, k, m)
	if !ok {
		if !snapshots {
			in.strangers = append(in.strangers, m.GetName())
		}
		return
	}
	st := resourceOf(m)
	if g, gone := goneBy(view, h, &row, st); gone {
		in.gone = append(in.gone, g)
		in.then[k] = st
		return
	}
	if st.Phase == observed.Destroyed {
		// Said of an older assignment than the newest, which is on its way and will be answered
		// by the agent as well. It is no news of what the replica is now.
		s.cfg.Log.Info("a replica was destroyed for an older assignment", "resource", row.ID(), "generation", st.Generation)
		return
	}
	in.now.Resources[k] = st
}

// readSnapshots takes what is said of the snapshots of a definition. It returns false when the
// node has none.
func readSnapshots(in *reading, view *store.View, h *host, k model.DefinitionKey, m *agentpb.ResourceStatus) (any bool) {
	said := snapshotsOf(m)
	for s := range schema.SnapshotsOf(view, k) {
		id := model.SnapshotReplicaID{Definition: k, Snapshot: s.Name.Key(), Node: h.node}
		part, ok := schema.SnapshotReplicas.Get(view, id)
		if !ok {
			continue
		}
		any = true
		st, told := said[id.Snapshot]
		if !told || !part.Deleting || st.Phase != observed.Destroyed {
			continue
		}
		if a, sent := h.sent.resource(k); sent && st.Generation <= a.msg.GetGeneration() &&
			st.Generation >= uint64(schema.SnapshotReplicas.Revision(view, id)) {
			in.snapshots = append(in.snapshots, SnapshotGone{Snapshot: id, Generation: st.Generation})
		}
	}
	for name := range said {
		id := model.SnapshotReplicaID{Definition: k, Snapshot: name, Node: h.node}
		if _, ok := schema.SnapshotReplicas.Get(view, id); !ok {
			delete(said, name)
		}
	}
	if any {
		in.now.Snapshots[k] = said
	}
	return any
}

// goneBy tells what of a replica is gone by the word of its host. The word counts if it is
// about an assignment that was made of the row as it is now: its generation is then not below
// the revision of the row, as that is part of the generation, and not above what was sent.
func goneBy(view *store.View, h *host, row *schema.Resource, st observed.ResourceStatus) (Gone, bool) {
	g := Gone{Resource: row.ID(), Generation: st.Generation}
	switch {
	case row.Deleting && st.Phase == observed.Destroyed:
	case !row.Deleting && st.Phase == observed.Ready:
		for _, v := range row.Volumes {
			if v.Deleting && !slices.ContainsFunc(st.Volumes, func(x observed.VolumeStatus) bool { return x.Number == v.Number }) {
				g.Volumes = append(g.Volumes, v.Number)
			}
		}
		if len(g.Volumes) == 0 {
			return Gone{}, false
		}
	default:
		return Gone{}, false
	}
	a, ok := h.sent.resource(row.Definition)
	if !ok || st.Generation > a.msg.GetGeneration() || st.Generation < uint64(schema.Resources.Revision(view, row.ID())) {
		return Gone{}, false
	}
	return g, true
}

// observe takes what an agent said in a session, and what it has taken over. It returns false
// when the session is over.
func (s *Server) observe(x *session, said observed.Report, at store.Revision, applied string) bool {
	h := x.host
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.session != x {
		return false
	}
	s.cfg.Observed.Report(h.node, said)
	s.forgetGone(h, said, at)
	if !x.ready && strings.HasPrefix(applied, x.id+"/") {
		x.ready = true
		s.cfg.Observed.Ready(h.node)
		s.cfg.Log.Info("node online", "node", h.node)
	}
	return true
}

// forgetGone drops what was said of rows that went after the report was read, at a revision.
// Whoever removed them may have dropped their statuses before. The caller holds h.mu.
func (s *Server) forgetGone(h *host, said observed.Report, at store.Revision) {
	view := s.cfg.Store.Snapshot()
	if view.Revision() == at {
		return
	}
	for k, st := range said.Resources {
		id := model.ResourceID{Definition: k, Node: h.node}
		if _, is := schema.Resources.Get(view, id); !is && h.confirmed[k] == 0 {
			s.cfg.Observed.Forget(id, st.Generation+1)
		}
	}
	for k, list := range said.Snapshots {
		for name := range list {
			id := model.SnapshotReplicaID{Definition: k, Snapshot: name, Node: h.node}
			if _, is := schema.SnapshotReplicas.Get(view, id); !is {
				s.cfg.Observed.ForgetSnapshot(id)
			}
		}
	}
}

// confirmSnapshots makes durable that snapshots are gone, before anyone sees it.
func (s *Server) confirmSnapshots(ctx context.Context, node model.NodeKey, gone []SnapshotGone) error {
	if len(gone) == 0 || s.cfg.SnapshotsDestroyed == nil {
		return nil
	}
	if err := s.cfg.SnapshotsDestroyed(ctx, node, gone); err != nil {
		s.count.refused.Add(1)
		s.cfg.Log.Warn("snapshots that are gone from a host could not be recorded", "node", node, "err", err)
		return status.Errorf(codes.Unavailable, "the snapshots that are gone from node %s could not be recorded, say it again: %v", node, err)
	}
	s.count.destroyed.Add(int64(len(gone)))
	return nil
}

// confirm makes what is gone durable, and only then lets those see it who wait for it.
func (s *Server) confirm(ctx context.Context, x *session, in reading) error {
	h := x.host
	h.confirming(in.gone, +1)
	defer h.confirming(in.gone, -1)
	err := s.cfg.Destroyed(ctx, h.node, in.gone)
	view := s.cfg.Store.Snapshot()
	for _, g := range in.gone {
		row, is := schema.Resources.Get(view, g.Resource)
		whole := len(g.Volumes) == 0
		if whole && is && row.Deleting || err != nil && (is || !whole) {
			continue // it is not recorded as gone
		}
		k := g.Resource.Definition
		s.observe(x, observed.Report{Resources: map[model.DefinitionKey]observed.ResourceStatus{k: in.then[k]}}, in.at, "")
		if whole {
			s.cfg.Observed.Forget(g.Resource, g.Generation+1)
		}
		s.count.destroyed.Add(1)
	}
	return err
}

// confirming counts the reports on replicas that are being recorded as gone.
func (h *host) confirming(gone []Gone, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, g := range gone {
		k := g.Resource.Definition
		if h.confirmed[k] += n; h.confirmed[k] == 0 {
			delete(h.confirmed, k)
		}
	}
}

// confirms tells whether a replica is being recorded as gone.
func (h *host) confirms(k model.DefinitionKey) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.confirmed[k] > 0
}
