// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"context"
	"fmt"

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

// CreateBackend makes nothing: this version drives no pools on volume groups and zpools.
func (s *Service) CreateBackend(_ context.Context, b *agentpb.CreateBackend) error {
	return errs.New(errs.Unsupported, errs.Node, "%s cannot be made on this host", b.GetName()).
		Because("%s", fmt.Sprintf("this version of the agent does not drive the provider %s", b.GetProvider())).
		Fix("use a pool of the provider FILE or FILE_THIN in a folder of the host")
}
