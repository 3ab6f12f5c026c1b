// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"fmt"
	"strings"

	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/schema"
)

// state is one of LINSTOR's names for a state with its number.
type state struct {
	number int64
	name   string
}

// legend lists states the way in which LINSTOR's clients read them from the help text.
func legend(states []state) string {
	parts := make([]string, len(states))
	for i, s := range states {
		parts[i] = fmt.Sprintf("%d=%q", s.number, s.name)
	}
	return strings.Join(parts, ", ")
}

// The connections of nodes.
const (
	nodeOffline   = 0
	nodeConnected = 1
	nodeOnline    = 2
	nodeUnknown   = 6
)

func nodeStates() []state {
	return []state{
		{nodeOffline, "OFFLINE"},
		{nodeConnected, "CONNECTED"},
		{nodeOnline, "ONLINE"},
		{3, "VERSION_MISMATCH"},
		{4, "FULL_SYNC_FAILED"},
		{5, "AUTHENTICATION_ERROR"},
		{nodeUnknown, "UNKNOWN"},
		{7, "HOSTNAME_MISMATCH"},
		{8, "OTHER_CONTROLLER"},
		{9, "AUTHENTICATED"},
		{10, "NO_STLT_CONN"},
	}
}

// connection is the number of a node's connection. Nothing is known of a node on which no
// agent is expected.
func connection(n *schema.Node, c observed.Connection) int64 {
	switch {
	case c == observed.Online:
		return nodeOnline
	case c == observed.Connected:
		return nodeConnected
	case !n.Type.RunsAgent():
		return nodeUnknown
	default:
		return nodeOffline
	}
}

// The use of replicas.
const (
	useUnknown = -1
	unused     = 0
	inUse      = 1
)

func useStates() []state {
	return []state{{useUnknown, "unknown state"}, {unused, "secondary"}, {inUse, "primary"}}
}

func use(r observed.ResourceStatus) int64 {
	is, known := r.InUse()
	switch {
	case !known:
		return useUnknown
	case is:
		return inUse
	default:
		return unused
	}
}

// The disks of volumes.
const (
	diskUnknown  = -1
	diskCreated  = 2
	diskDiskless = 4
	diskFailed   = 6
	diskDetached = 90
)

func diskStates() []state {
	return []state{
		{1, "UpToDate"},
		{diskCreated, "Created"},
		{3, "Attached"},
		{diskDiskless, "Diskless"},
		{5, "Inconsistent"},
		{diskFailed, "Failed"},
		{7, "To: Creating"},
		{8, "To: Attachable"},
		{9, "To: Attaching"},
		{diskDetached, "Diskless(Detached)"},
		{diskUnknown, "DUnknown"},
	}
}

// disk is the number of what a node says of a volume now. The words of DRBD stand for
// themselves; a stack without DRBD has a device or has failed.
func disk(r *schema.Resource, layers []model.Layer, said observed.ResourceStatus, v observed.VolumeStatus) int64 {
	switch {
	case !said.Current:
		return diskUnknown
	case v.DiskState != "" || model.Replicates(layers):
		return drbdDisk(v.DiskState, r.Kind == schema.Diskful)
	case v.DevicePath != "":
		return diskCreated
	case said.Phase == observed.Failed:
		return diskFailed
	default:
		return diskUnknown
	}
}

// drbdDisk is the number of a word of DRBD. A replica that shall have a disk and has none has
// lost it.
func drbdDisk(word string, diskful bool) int64 {
	for _, s := range diskStates() {
		if !strings.EqualFold(s.name, word) {
			continue
		}
		if s.number == diskDiskless && diskful {
			return diskDetached
		}
		return s.number
	}
	return diskUnknown
}

// reasons lists the classes of failing steps, by [observed.Reason].
func reasons() []string {
	return []string{
		observed.Other: "other", observed.InUse: "in_use", observed.NoSpace: "no_space", observed.PoolFaulty: "pool_faulty",
		observed.Unsupported: "unsupported", observed.Invalid: "invalid", observed.Locked: "locked",
	}
}
