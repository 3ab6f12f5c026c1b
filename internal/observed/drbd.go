// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package observed

import (
	"maps"
	"slices"

	"github.com/holdfast-storage/holdfast/internal/model"
)

// DRBDStatus is DRBD's own word of a replica. What is nil is unknown.
type DRBDStatus struct {
	Role           string // Primary, Secondary
	MayPromote     *bool
	PromotionScore *int32
	Quorum         *bool
	Suspended      bool             // I/O is held back
	Connections    []DRBDConnection // each peer once
	Problems       []string         // what an operator should know, as people read it
}

// DRBDConnection is what a replica knows of a peer.
type DRBDConnection struct {
	Node        model.NodeName                // of the peer
	State       string                        // Connected, Connecting, StandAlone, ...
	Role        string                        // of the peer, as far as it is known
	DiskStates  map[model.VolumeNumber]string // of the peer's volumes, as this replica saw them last
	Replication map[model.VolumeNumber]string // Established, SyncSource, SyncTarget, ...
}

// Connected tells whether the connection stands.
func (c DRBDConnection) Connected() bool { return c.State == "Connected" }

func (s *DRBDStatus) equal(o *DRBDStatus) bool {
	if s == nil || o == nil {
		return s == o
	}
	return s.Role == o.Role && same(s.MayPromote, o.MayPromote) && same(s.PromotionScore, o.PromotionScore) &&
		same(s.Quorum, o.Quorum) && s.Suspended == o.Suspended &&
		slices.EqualFunc(s.Connections, o.Connections, DRBDConnection.equal) && slices.Equal(s.Problems, o.Problems)
}

func (c DRBDConnection) equal(o DRBDConnection) bool {
	return c.Node == o.Node && c.State == o.State && c.Role == o.Role &&
		maps.Equal(c.DiskStates, o.DiskStates) && maps.Equal(c.Replication, o.Replication)
}
