// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package drbd

import (
	"fmt"

	"github.com/holdfast-storage/holdfast/internal/agent/drbd/kernel"
)

// Waiting returns what the wish still waits for although there is nothing left to do on this host, as people read it. None: the wish is fulfilled, every
// volume can be used here, and those with a disk are, or are becoming, up to date.
func Waiting(w Want, h Have) []string {
	if w.down() {
		return nil
	}
	if h.State == nil {
		return []string{"resource " + w.Name + " does not run"}
	}
	var why []string
	for _, c := range h.State.Connections {
		if h.Connecting && c.State != kernel.Connected && c.State != kernel.StandAlone {
			why = append(why, fmt.Sprintf("resource %s connects to %s", w.Name, c.Name))
		}
	}
	for _, v := range w.Volumes {
		if v.Destroy {
			continue
		}
		device, ok := h.State.Device(v.Number)
		name := fmt.Sprintf("volume %d of resource %s", v.Number, w.Name)
		switch {
		case !ok:
			why = append(why, name+" does not run")
		case v.Disk != "" && device.Disk == kernel.Diskless:
			why = append(why, name+" is not attached to its disk")
		case device.Disk == kernel.Attaching || device.Disk == kernel.Negotiating:
			why = append(why, name+" is taking up its disk")
		case !readable(h.State, device):
			why = append(why, fmt.Sprintf("%s is %s, and no peer with all its data is connected", name, device.Disk))
		case device.Size < v.Size:
			why = append(why, fmt.Sprintf("%s has %d bytes and grows to %d when all its hosts can", name, device.Size, v.Size))
		}
	}
	return why
}

// readable tells whether all data of a volume can be reached from here.
func readable(s *kernel.Resource, device kernel.Device) bool {
	return device.Disk == kernel.UpToDate || copied(s, device.Volume)
}

// Problems returns what an operator should know about a resource that runs, as people read it. They are shown, and never solved without being asked: a split brain
// is solved by giving up the data of one side.
func Problems(s kernel.Resource) []string {
	var problems []string
	for _, c := range s.Connections {
		switch {
		case c.SplitBrain && c.State != kernel.Connected:
			problems = append(problems, fmt.Sprintf("split brain: this host and %s have both changed %s; choose the side whose changes are given up", c.Name, s.Name))
		case c.State == kernel.StandAlone:
			problems = append(problems, fmt.Sprintf("the connection of %s to %s was refused: their data is unrelated or went two ways, the sizes do not fit, or the port is taken", s.Name, c.Name))
		}
	}
	for _, d := range s.Devices {
		if d.Disk == kernel.Diskless && !d.Client || d.Disk == "Failed" {
			problems = append(problems, fmt.Sprintf("volume %d of %s has lost its disk", d.Volume, s.Name))
		}
		if d.Disk == kernel.Negotiating {
			problems = append(problems, fmt.Sprintf("volume %d of %s waits for its peers to take up its disk: when that does not end, take the resource down on this host, unused and its clients first disconnected, and up again", d.Volume, s.Name))
		}
		if !d.Quorum {
			problems = append(problems, fmt.Sprintf("volume %d of %s has no quorum", d.Volume, s.Name))
		}
	}
	for _, why := range s.Suspended {
		problems = append(problems, fmt.Sprintf("I/O of %s is held back: %s", s.Name, why))
	}
	return problems
}
