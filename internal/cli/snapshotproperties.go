// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"

	"github.com/holdfast-storage/holdfast/client"
)

func snapshotProperties() owner {
	return owner{
		names: []string{"RESOURCE", "SNAPSHOT"},
		read: func(ctx context.Context, s *session, names []string) (client.Properties, error) {
			snapshot, err := s.Snapshot(ctx, names[0], names[1])
			return snapshot.Props, err
		},
		write: func(ctx context.Context, s *session, names []string, modify client.PropsModify) (client.RcList, error) {
			return s.ModifySnapshot(ctx, names[0], names[1], client.SnapshotModify{PropsModify: modify})
		},
	}
}
