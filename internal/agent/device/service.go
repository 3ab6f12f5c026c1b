// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"context"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/errs"
)

// Service answers what the controller asks of the devices of this host.
type Service struct{ Finder }

// List returns the free devices.
func (s *Service) List(ctx context.Context) ([]*agentpb.Device, error) {
	free, err := s.Free(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]*agentpb.Device, len(free))
	for i, d := range free {
		list[i] = &agentpb.Device{
			Path: d.Path, Size: d.Size, Rotational: d.Rotational, Model: d.Model, Serial: d.Serial, Wwn: d.WWN,
		}
	}
	return list, nil
}

// CreateBackend makes nothing: this version uses volume groups and zpools, and does not make them.
func (s *Service) CreateBackend(_ context.Context, b *agentpb.CreateBackend) error {
	return errs.New(errs.Unsupported, errs.Node, "%s cannot be made on this host", b.GetName()).
		Because("this version of the agent makes nothing for the provider %s on devices", b.GetProvider()).
		Fix("make it with the tools of the host, such as vgcreate or zpool create, and create a storage pool on it")
}
