// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-storage/holdfast/client"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

const timeLayout = "2006-01-02 15:04:05"

// when returns a time of the API, in milliseconds, or "" when there is none.
func (a *app) when(milliseconds *int64) string {
	if milliseconds == nil {
		return ""
	}
	return time.UnixMilli(*milliseconds).In(a.env.Location).Format(timeLayout)
}

// nodeState returns the state of a node. What is being done to it comes before how it is connected.
func (a *app) nodeState(n client.Node) cell {
	for _, flag := range []string{wire.FlagDelete, wire.FlagEvicted, wire.FlagEvacuate} {
		if slices.Contains(n.Flags, flag) {
			return cell{flag, red}
		}
	}
	switch n.ConnectionStatus {
	case wire.ConnOnline:
		return cell{"Online", green}
	case wire.ConnConnected:
		return cell{"Connected", yellow}
	case wire.ConnUnknown, "":
		return cell{"Unknown", yellow}
	case wire.ConnOffline:
		if at := a.when(n.EvictionTimestamp); at != "" {
			return cell{"OFFLINE (Auto-eviction at " + at + ")", red}
		}
		return cell{"OFFLINE", red}
	default:
		return cell{"OFFLINE (" + strings.ReplaceAll(string(n.ConnectionStatus), "_", " ") + ")", red}
	}
}

// resourceState returns the state of a replica: that of its worst volume, with what is being done to the replica.
func resourceState(r client.ResourceWithVolumes) cell {
	if state := wholeState(r.Resource); state.text != "" {
		return state
	}
	if len(r.Volumes) == 0 {
		return cell{"Created", green}
	}
	worst := volumeState(r.Resource, r.Volumes[0])
	for _, v := range r.Volumes[1:] {
		if state := volumeState(r.Resource, v); state.color.worse(worst.color) {
			worst = state
		}
	}
	if slices.Contains(r.Flags, wire.FlagEvacuate) {
		worst.text += ", Evacuating"
		if yellow.worse(worst.color) {
			worst.color = yellow
		}
	}
	return worst
}

// wholeState returns the state of a replica that hides the states of its volumes, if it has one.
func wholeState(r client.Resource) cell {
	switch {
	case slices.Contains(r.Flags, wire.FlagDelete):
		return cell{"DELETING", red}
	case slices.Contains(r.Flags, wire.FlagInactive):
		return cell{"INACTIVE", yellow}
	case r.State == nil:
		return cell{"Unknown", yellow}
	default:
		return cell{}
	}
}

// volumeState returns the state of one volume of a replica.
func volumeState(r client.Resource, v client.Volume) cell {
	state := wholeState(r)
	if state.text != "" {
		return state
	}
	state = diskState(r, v)
	if slices.Contains(v.Flags, wire.FlagResize) {
		state.text = "Resizing, " + state.text
		if yellow.worse(state.color) {
			state.color = yellow
		}
	}
	return state
}

func diskState(r client.Resource, v client.Volume) cell {
	if _, failed := v.Reports.FirstError(); failed {
		return cell{"Error", red}
	}
	if r.LayerObject != nil && r.LayerObject.Type != wire.LayerDRBD {
		return cell{"Created", green}
	}
	if progress := syncing(v); progress != "" {
		return cell{progress, yellow}
	}
	disk := ""
	if v.State != nil {
		disk = v.State.DiskState
	}
	switch disk {
	case "", wire.DiskDUnknown:
		return cell{"Unknown", yellow}
	case wire.DiskUpToDate:
		return cell{disk, green}
	case wire.DiskDiskless:
		return disklessState(r)
	case wire.DiskInconsistent, wire.DiskFailed:
		return cell{disk, red}
	default:
		return cell{disk, yellow}
	}
}

// disklessState tells a replica that has no disk by design from one that has lost it.
func disklessState(r client.Resource) cell {
	switch {
	case slices.Contains(r.Flags, wire.FlagTieBreaker):
		return cell{"TieBreaker", green}
	case slices.Contains(r.Flags, wire.FlagDiskless):
		return cell{wire.DiskDiskless, green}
	default:
		return cell{wire.DiskDiskless, red}
	}
}

// syncing returns what a volume receives from a peer and how far it is, or "".
func syncing(v client.Volume) string {
	if v.State == nil {
		return ""
	}
	for _, peer := range slices.Sorted(maps.Keys(v.State.ReplicationStates)) {
		state := v.State.ReplicationStates[peer]
		if strings.Contains(state.ReplicationState, "SyncT") { // SyncTarget, PausedSyncT.
			return replication(state)
		}
	}
	return ""
}

func replication(state client.ReplicationState) string {
	if state.DonePercentage == nil || state.ReplicationState == "Established" {
		return state.ReplicationState
	}
	return fmt.Sprintf("%s(%.2f%%)", state.ReplicationState, *state.DonePercentage)
}

// replications returns what goes on with each peer of a volume, a line for each.
func replications(v client.Volume) string {
	if v.State == nil {
		return ""
	}
	var lines []string
	for _, peer := range slices.Sorted(maps.Keys(v.State.ReplicationStates)) {
		lines = append(lines, peer+": "+replication(v.State.ReplicationStates[peer]))
	}
	return strings.Join(lines, "\n")
}

// usage returns whether a replica is in use.
func usage(r client.Resource) cell {
	switch {
	case r.State == nil || r.State.InUse == nil:
		return cell{}
	case *r.State.InUse:
		return cell{"InUse", green}
	default:
		return cell{text: "Unused"}
	}
}

// connections returns the peers that a replica is not connected to, by what DRBD says about them.
func connections(r client.Resource) cell {
	if r.State == nil {
		return cell{}
	}
	if r.LayerObject == nil || r.LayerObject.DRBD == nil {
		return cell{"Ok", green}
	}
	lost := map[string][]string{}
	for peer, c := range r.LayerObject.DRBD.Connections {
		if !c.Connected {
			lost[c.Message] = append(lost[c.Message], peer)
		}
	}
	if len(lost) == 0 {
		return cell{"Ok", green}
	}
	var parts []string
	for _, message := range slices.Sorted(maps.Keys(lost)) {
		slices.Sort(lost[message])
		parts = append(parts, message+"("+strings.Join(lost[message], ",")+")")
	}
	return cell{strings.Join(parts, ","), red}
}

// layers returns the stack of a replica.
func layers(r client.Resource) string {
	return joined(r.LayerObject.Types())
}

func joined[T ~string](elements []T) string {
	out := make([]string, len(elements))
	for i, e := range elements {
		out[i] = string(e)
	}
	return strings.Join(out, ",")
}

// minor returns the number of a volume's DRBD device, or "".
func minor(v client.Volume) string {
	for _, l := range v.LayerDataList {
		if drbd, ok := l.Data.(client.DRBDVolume); ok {
			return fmt.Sprint(drbd.VolumeDefinition.MinorNumber)
		}
	}
	return ""
}

// usable returns the size of a volume as its users see it, or nil when it is not known.
func usable(v client.Volume) *client.SizeKiB {
	if v.UsableSize != nil {
		return v.UsableSize
	}
	for _, l := range v.LayerDataList {
		if storage, ok := l.Data.(client.StorageVolume); ok {
			return storage.UsableSize
		}
	}
	return nil
}
