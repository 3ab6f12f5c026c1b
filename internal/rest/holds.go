// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"strings"

	"github.com/holdfast-storage/holdfast/internal/dispatch"
	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

// heldPool returns the node and the pool that the path names. That the pool lies on a mount its host knows.
func (s *Server) heldPool(q *request) (model.NodeName, model.PoolName, error) {
	n, err := s.hostNode(q)
	if err != nil {
		return "", "", err
	}
	p, err := schema.FindPool(s.Store.Snapshot(), string(n.Name), q.PathValue("storagepool"))
	return n.Name, p.Name, err
}

// listHolds tells what is mounted for a pool and who holds it, as its host has it now.
func (s *Server) listHolds(q *request) (body, error) {
	node, pool, err := s.heldPool(q)
	if err != nil {
		return nil, err
	}
	h, err := s.Work.InspectPool(q.Context(), node.Key(), pool)
	if err != nil {
		return nil, err
	}
	return value{heldPoolOf(node, h)}, nil
}

// listHeldPools tells what a host said last of its pools on mounts.
func (s *Server) listHeldPools(q *request) (body, error) {
	n, err := s.hostNode(q)
	if err != nil {
		return nil, err
	}
	all := []wire.HeldPool{}
	st, _ := s.Observed.Host(n.Name.Key())
	for _, h := range st.Pools {
		all = append(all, heldPoolOf(n.Name, h))
	}
	return value{all}, nil
}

// acquireHold has a host hold a pool until the hold is released.
func (s *Server) acquireHold(q *request) (wire.RcList, error) {
	node, pool, err := s.heldPool(q)
	if err != nil {
		return nil, err
	}
	var b wire.HoldCreate
	if err := q.decode(&b); err != nil {
		return nil, err
	}
	if strings.TrimSpace(b.ID) == "" {
		return nil, errs.New(errs.Invalid, errs.StoragePool, "the hold has no id").Because("by its id it is released").Fix("choose one")
	}
	h, err := s.Work.AcquireHold(q.Context(), node.Key(), dispatch.HoldRequest{Pool: pool, ID: b.ID, Holder: b.Holder, ReadOnly: b.ReadOnly != nil && *b.ReadOnly})
	if err != nil {
		return nil, err
	}
	return wire.RcList{done(wire.Created, "", "hold %s on storage pool %s on node %s acquired", b.ID, pool, node).WithDetails("Mounted at: " + h.Target)}, nil
}

// releaseHold releases a hold. What becomes of the mount is told, and is no error.
func (s *Server) releaseHold(q *request) (wire.RcList, error) {
	node, pool, err := s.heldPool(q)
	if err != nil {
		return nil, err
	}
	id := q.URL.Query().Get("id")
	if id == "" {
		return nil, errs.New(errs.Invalid, errs.StoragePool, "no hold was named").About(errs.Query).Fix("give it as id=ID")
	}
	_, teardown, err := s.Work.ReleaseHold(q.Context(), node.Key(), dispatch.HoldRequest{Pool: pool, ID: id})
	if err != nil {
		return nil, err
	}
	return wire.RcList{done(wire.Deleted, "", "hold %s on storage pool %s on node %s released", id, pool, node).WithDetails("Mount: " + teardown)}, nil
}

func heldPoolOf(node model.NodeName, h observed.HeldPool) wire.HeldPool {
	out := wire.HeldPool{
		NodeName: string(node), StoragePoolName: string(h.Pool), Source: h.Source, Target: h.Target, State: h.State, Options: h.Options,
		Identity: h.Identity, Blockers: h.Blockers, LastError: h.LastError, NextTryTimestamp: stamp(h.NextTry),
	}
	for _, x := range h.Holds {
		out.Holds = append(out.Holds, wire.Hold{
			ID: x.ID, Kind: x.Kind, Holder: x.Holder, ReadOnly: x.ReadOnly, Subpath: x.Subpath, CreateTimestamp: stamp(x.Created), Waiting: x.Waiting,
			Derived: x.Derived, Broken: x.Broken, OrphanTimestamp: stamp(x.Orphan),
		})
	}
	return out
}
