// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package drbd

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/internal/agent/drbd/config"
	"github.com/holdfast-storage/holdfast/internal/agent/drbd/kernel"
	"github.com/holdfast-storage/holdfast/internal/agent/stack"
)

// Plan implements stack.Layer. It is pure.
func (d *DRBD) Plan(w Want, h Have) ([]stack.Step, error) {
	if w.down() {
		return d.planDown(&w, &h), nil
	}
	if s := h.State; s != nil && s.NodeID != w.NodeID {
		return d.planDown(&w, &h), nil // It is set up anew, under its other number. In use, it stays, and that is an error.
	}
	if h.State != nil {
		if err := known(&w, h.State); err != nil {
			return nil, err
		}
	}
	var steps []stack.Step
	if !h.Current {
		steps = append(steps, stack.Step{
			What: "write the configuration of resource " + w.Name,
			Do:   func(ctx context.Context) error { return d.write(ctx, &w) },
		})
	}
	steps = append(steps, d.planRemovals(&w, &h)...)
	if len(steps) > 0 {
		return steps, nil // What is left to adjust is seen when these are done.
	}
	adjust := due(&h)
	if len(adjust) > 0 {
		if err := review(&w, adjust); err != nil {
			return nil, err
		}
		return []stack.Step{{
			What: fmt.Sprintf("adjust resource %s: %s", w.Name, summary(adjust)),
			Do:   func(ctx context.Context) error { return d.adjust(ctx, &w) },
		}}, nil
	}
	return append(d.planStart(&w, &h), d.planGrowth(&w, &h)...), nil
}

func (d *DRBD) planDown(w *Want, h *Have) []stack.Step {
	var steps []stack.Step
	if h.State != nil {
		steps = append(steps, stack.Step{
			What: "take resource " + w.Name + " down",
			Do:   func(ctx context.Context) error { return d.down(ctx, w) },
		})
	}
	if h.File && w.down() {
		steps = append(steps, stack.Step{
			What: "remove the configuration of resource " + w.Name,
			Do:   func(context.Context) error { return d.folder.Remove(w.Name) },
		})
	}
	return steps
}

// known refuses a resource that runs with what the wish does not name: its file would make drbdadm remove that.
func known(w *Want, s *kernel.Resource) error {
	for _, v := range s.Devices {
		wanted, ok := w.volume(v.Volume)
		if !ok {
			return &UnwantedError{Resource: w.Name, Command: fmt.Sprintf("drbdsetup del-minor %d", v.Minor)}
		}
		if !wanted.Destroy && wanted.Minor != v.Minor {
			return &config.InvalidError{Resource: w.Name, Why: fmt.Sprintf("volume %d runs as minor %d and cannot become minor %d while it does", v.Volume, v.Minor, wanted.Minor)}
		}
	}
	for _, c := range s.Connections {
		if !w.hasPeer(c.PeerID) && !slices.Contains(w.Retired, c.PeerID) {
			return &UnwantedError{Resource: w.Name, Command: fmt.Sprintf("drbdsetup del-peer %s %d", w.Name, c.PeerID)}
		}
	}
	return nil
}

// planRemovals are steps for what is to go and is said to.
func (d *DRBD) planRemovals(w *Want, h *Have) []stack.Step {
	if h.State == nil {
		return nil
	}
	var steps []stack.Step
	for _, v := range w.Volumes {
		device, ok := h.State.Device(v.Number)
		switch {
		case !ok:
		case v.Destroy:
			steps = append(steps, stack.Step{
				What: fmt.Sprintf("remove volume %d of resource %s", v.Number, w.Name),
				Do:   func(ctx context.Context) error { return d.removeVolume(ctx, w, device) },
			})
		case v.Disk == "" && (device.Disk != kernel.Diskless || !device.Client):
			steps = append(steps, stack.Step{
				What: fmt.Sprintf("detach volume %d of resource %s from its disk", v.Number, w.Name),
				Do:   func(ctx context.Context) error { return d.detach(ctx, w, v.Number) },
			})
		}
	}
	for _, id := range w.Retired {
		if w.hasPeer(id) || h.Forgotten[id] {
			continue
		}
		steps = append(steps, stack.Step{
			What: fmt.Sprintf("forget peer %d of resource %s", id, w.Name),
			Do:   func(ctx context.Context) error { return d.forget(ctx, w, id) },
		})
	}
	return steps
}

// due is what drbdadm would do and is not to rest: a refused connection and a failed disk are tried again only after some time.
func due(h *Have) []Command {
	if h.State == nil {
		return h.Adjust
	}
	rest := slices.Clone(h.Adjust)
	rest = slices.DeleteFunc(rest, func(c Command) bool {
		switch c.Verb {
		case "connect":
			connection, ok := h.State.Connection(c.number(1))
			return ok && connection.State == kernel.StandAlone && h.Resting[connectTo(connection.PeerID)]
		case "apply-al", "attach":
			i := slices.IndexFunc(h.State.Devices, func(v kernel.Device) bool { return v.Minor == c.number(0) })
			return i >= 0 && h.Resting[attachOf(h.State.Devices[i].Volume)]
		}
		return false
	})
	return rest
}

// The names of attempts that may have no effect.
func connectTo(peer int) string  { return fmt.Sprint("connect ", peer) }
func attachOf(volume int) string { return fmt.Sprint("attach ", volume) }
func growthOf(volume int) string { return fmt.Sprint("resize ", volume) }

// summary names what an adjustment does, without options.
func summary(commands []Command) string {
	var verbs []string
	for _, c := range commands {
		if !slices.Contains(verbs, c.Verb) {
			verbs = append(verbs, c.Verb)
		}
	}
	return strings.Join(verbs, ", ")
}

// planStart gives new volumes their first content.
func (d *DRBD) planStart(w *Want, h *Have) []stack.Step {
	var steps []stack.Step
	for _, v := range w.Volumes {
		if v.Destroy || v.Start == StartNone || !h.Untouched[v.Number] || !startable(w, h.State, v) {
			continue
		}
		what := fmt.Sprintf("declare the disks of volume %d of resource %s equal", v.Number, w.Name)
		if v.Start == StartHere {
			what = fmt.Sprintf("begin volume %d of resource %s with the content of this host", v.Number, w.Name)
		}
		steps = append(steps, stack.Step{What: what, Do: func(ctx context.Context) error { return d.start(ctx, w, v) }})
	}
	return steps
}

// startable tells whether the start can be made now. Equal disks must all be there, be connected, and never have had content: the one that comes
// later is synced. Content that is sent needs no peers: they get it when they come.
func startable(w *Want, s *kernel.Resource, v Volume) bool {
	device, ok := s.Device(v.Number)
	if !ok || device.Disk != kernel.Inconsistent {
		return false
	}
	for _, p := range w.diskful() {
		c, _ := s.Connection(p.NodeID)
		peer, _ := c.PeerDevice(v.Number)
		switch {
		case v.Start == StartEqual && (c.State != kernel.Connected || peer.Replication != kernel.Established || peer.Disk != kernel.Inconsistent):
			return false
		case peer.Disk == kernel.UpToDate || peer.Disk == "Consistent" || peer.Disk == "Outdated":
			return false // It has content.
		}
	}
	return true
}

// planGrowth lets a volume grow into backing devices that have grown. The kernel decides whether those of all peers have, and does nothing until then.
func (d *DRBD) planGrowth(w *Want, h *Have) []stack.Step {
	var steps []stack.Step
	for _, v := range w.Volumes {
		device, ok := h.State.Device(v.Number)
		if !ok || v.Destroy || v.Disk == "" || device.Disk != kernel.UpToDate || device.Size >= v.Size || h.Resting[growthOf(v.Number)] {
			continue
		}
		steps = append(steps, stack.Step{
			What: fmt.Sprintf("grow volume %d of resource %s to %d bytes", v.Number, w.Name, v.Size),
			Do:   func(ctx context.Context) error { return d.grow(ctx, w, v) },
		})
	}
	return steps
}
