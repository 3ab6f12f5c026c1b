// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package drbd_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/agent/drbd"
	"github.com/holdfast-storage/holdfast/internal/agent/drbd/config"
	"github.com/holdfast-storage/holdfast/internal/agent/drbd/kernel"
	"github.com/holdfast-storage/holdfast/internal/agent/drbd/metadata"
	"github.com/holdfast-storage/holdfast/internal/agent/pool"
)

func TestOptionsChangeWhileTheResourceIsUsed(t *testing.T) {
	r := newRig(t)
	r.up()
	r.cluster.Node("alpha").Use(device, pool.Holder{Kind: pool.Mounted, Name: "/srv"})
	for _, name := range []string{"alpha", "bravo"} {
		r.change(name, func(w *drbd.Want) { w.Net = config.Options{"protocol": "C", "allow-two-primaries": "yes"} })
		r.apply(name)
		if !r.called(name, "drbdadm adjust r0") {
			t.Errorf("%s was not adjusted", name)
		}
	}
	r.cluster.Node("bravo").Use(device, pool.Holder{Kind: pool.Opened, Name: "qemu"})
	if a, b := r.state("alpha"), r.state("bravo"); a.Role != kernel.Primary || b.Role != kernel.Primary {
		t.Errorf("%v, %v", a, b)
	}
}

func TestAddressChangesOnAllHosts(t *testing.T) {
	r := newRig(t)
	r.up()
	move := func(name string) {
		r.change(name, func(w *drbd.Want) {
			for i := range w.Peers {
				w.Peers[i].Paths = slices.Clone(w.Peers[i].Paths)
				for j, p := range w.Peers[i].Paths {
					w.Peers[i].Paths[j].Local = addPort(p.Local)
					w.Peers[i].Paths[j].Remote = addPort(p.Remote)
				}
			}
		})
		r.apply(name)
	}
	for name := range r.ids {
		move(name)
	}
	for name := range r.ids {
		for _, c := range r.state(name).Connections {
			if c.State != kernel.Connected {
				t.Errorf("%s to %s: %s", name, c.Name, c.State)
			}
		}
	}
}

func TestVolumeGrowsWhenAllItsDisksHave(t *testing.T) {
	r := newRig(t)
	r.up()
	r.cluster.Node("alpha").Use(device, pool.Holder{Kind: pool.Mounted, Name: "/srv"})
	grow := func(name string) {
		r.cluster.Node(name).Disk(first, metadata.Backing(128*mib, room))
		r.change(name, func(w *drbd.Want) { w.Volumes[0].Size = 128 * mib })
		r.apply(name)
	}
	grow("alpha")
	if waits := r.waits("alpha"); len(waits) != 1 || !strings.Contains(waits[0], "grows to 134217728") {
		t.Errorf("%v", waits)
	}
	// It is not asked all the time: that has no effect.
	r.cluster.Node("alpha").Calls()
	r.apply("alpha")
	if r.called("alpha", "resize") {
		t.Error("it was asked again at once")
	}
	grow("bravo")
	r.change("charlie", func(w *drbd.Want) { w.Volumes[0].Size = 128 * mib })
	r.apply("charlie")
	for name := range r.ids {
		if got := r.state(name).Devices[0].Size; got != 128*mib {
			t.Errorf("%s: %d bytes", name, got)
		}
		if waits := r.waits(name); len(waits) > 0 {
			t.Errorf("%s: %v", name, waits)
		}
	}
}

func TestGrowthIsTriedAgainWhenAPeerWasAway(t *testing.T) {
	r := newRig(t)
	r.up()
	for _, name := range []string{"alpha", "bravo"} {
		r.cluster.Node(name).Disk(first, metadata.Backing(128*mib, room))
		r.change(name, func(w *drbd.Want) { w.Volumes[0].Size = 128 * mib })
	}
	r.cluster.Cut("alpha", "bravo")
	r.apply("alpha", "bravo")
	r.cluster.Join("alpha", "bravo")
	r.now = r.now.Add(1e12)
	r.apply("alpha")
	if got := r.state("alpha").Devices[0].Size; got != 128*mib {
		t.Errorf("%d bytes", got)
	}
}

func TestSmallerSizeChangesNothing(t *testing.T) {
	r := newRig(t)
	r.up()
	r.change("alpha", func(w *drbd.Want) { w.Volumes[0].Size = 1 * mib })
	r.apply("alpha")
	if calls := r.cluster.Node("alpha").Calls(); len(calls) > 0 {
		t.Errorf("%v", calls)
	}
}
