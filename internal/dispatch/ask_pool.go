// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"context"
	"time"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/schema"
)

// CheckPool asks the agent of a node whether a pool would work there, and what it has.
//
// Errors are *errs.Error: NotConnected when the node has no session or loses it, HostFailed
// when the host says no, TimedOut when it says nothing, Unavailable when too many questions
// are open. Where it is named, Unsupported says that this host cannot do what is asked.
func (s *Server) CheckPool(ctx context.Context, node model.NodeKey, p schema.Pool) (observed.PoolStatus, error) {
	a, err := s.ask(ctx, node, &agentpb.Ask{Question: &agentpb.Ask_CheckPool{CheckPool: assignPool(&p)}})
	if err != nil {
		return observed.PoolStatus{}, err
	}
	if f := a.GetFailure(); f != nil {
		return observed.PoolStatus{}, hostFailed(errs.StoragePool, f, "node %s cannot serve the storage pool %s", node, p.Name)
	}
	st := poolOf(a.GetPool())
	st.At, st.Current = time.Now(), true
	return st, nil
}

// RemoveUnknown asks the agent of a node to destroy volumes that carry our mark and are in no
// assignment, named as the pool's status names them. It returns those that are gone, also
// with an error about others. The errors are those of CheckPool.
func (s *Server) RemoveUnknown(ctx context.Context, node model.NodeKey, pool model.PoolName, volumes []string) ([]string, error) {
	a, err := s.ask(ctx, node, &agentpb.Ask{Question: &agentpb.Ask_RemoveUnknown{
		RemoveUnknown: &agentpb.RemoveUnknown{Pool: string(pool), Volumes: volumes},
	}})
	if err != nil {
		return nil, err
	}
	if f := a.GetFailure(); f != nil {
		return a.GetRemoved(), hostFailed(errs.StoragePool, f, "node %s did not remove all of the volumes from the storage pool %s", node, pool)
	}
	return a.GetRemoved(), nil
}

// Devices asks the agent of a node which block devices nobody uses and have nothing on them.
// The errors are those of CheckPool, and Unsupported.
func (s *Server) Devices(ctx context.Context, node model.NodeKey) ([]observed.Device, error) {
	a, err := s.ask(ctx, node, &agentpb.Ask{Question: &agentpb.Ask_Devices{Devices: &agentpb.Devices{}}})
	if err != nil {
		return nil, err
	}
	if f := a.GetFailure(); f != nil {
		return nil, hostRefused(errs.Node, f, "node %s cannot tell its free devices", node)
	}
	list := make([]observed.Device, len(a.GetDevices()))
	for i, d := range a.GetDevices() {
		list[i] = observed.Device{
			Path: d.GetPath(), Size: d.GetSize(), Rotational: d.GetRotational(), Model: d.GetModel(), Serial: d.GetSerial(), WWN: d.GetWwn(),
		}
	}
	return list, nil
}

// Backend is what a pool is made on.
type Backend struct {
	Provider  model.Provider // LVM, LVM_THIN, ZFS, ZFS_THIN
	Name      string         // of the volume group, of the thin pool as group/pool, of the zpool
	Devices   []string       // paths
	RAIDLevel string
}

// CreateBackend asks the agent of a node to make a volume group, a thin pool or a zpool. The
// errors are those of CheckPool, Unsupported, InUse when a device is not free, and Invalid when
// the host does not admit what is asked, which may be that there is another one of that name.
func (s *Server) CreateBackend(ctx context.Context, node model.NodeKey, b Backend) error {
	a, err := s.askLong(ctx, node, &agentpb.Ask{Question: &agentpb.Ask_CreateBackend{CreateBackend: &agentpb.CreateBackend{
		Provider: string(b.Provider), Name: b.Name, Devices: b.Devices, RaidLevel: b.RAIDLevel,
	}}})
	if err != nil {
		return err
	}
	if f := a.GetFailure(); f != nil {
		kind := errs.HostFailed
		switch f.GetReason() { //nolint:exhaustive // All others are failures of the host.
		case agentpb.Failure_UNSUPPORTED:
			kind = errs.Unsupported
		case agentpb.Failure_IN_USE:
			kind = errs.InUse
		case agentpb.Failure_INVALID:
			kind = errs.Invalid
		}
		return hostSaid(kind, errs.StoragePool, f, "node %s did not make %s for the provider %s", node, b.Name, b.Provider)
	}
	return nil
}

// SetLogLevel asks the agent of a node to log from a level on (TRACE, DEBUG, INFO, WARN or
// ERROR) until it restarts. The errors are those of CheckPool, and Unsupported.
func (s *Server) SetLogLevel(ctx context.Context, node model.NodeKey, level string) error {
	a, err := s.ask(ctx, node, &agentpb.Ask{Question: &agentpb.Ask_LogLevel{LogLevel: &agentpb.LogLevel{Level: level}}})
	if err != nil {
		return err
	}
	if f := a.GetFailure(); f != nil {
		return hostRefused(errs.Node, f, "node %s did not take the log level %s", node, level)
	}
	return nil
}
