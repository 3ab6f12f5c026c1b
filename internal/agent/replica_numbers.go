// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"net/netip"
	"slices"
)

// numbersOf are the numbers that a replica under DRBD has on this host.
type numbersOf struct {
	ports, minors []uint32
}

// Numbers returns the TCP ports and the minors of replicas under DRBD that were applied: those are
// not taken by others.
func (m *Machine) Numbers() (ports, minors []uint32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, n := range m.numbers {
		ports, minors = append(ports, n.ports...), append(minors, n.minors...)
	}
	return ports, minors
}

// noteNumbers notes what numbers a replica has. One that is to go keeps those that it had.
func (m *Machine) noteNumbers(w Want) {
	if w.Destroy {
		return
	}
	var n numbersOf
	for _, p := range w.DRBD.GetPeers() {
		for _, path := range p.GetPaths() {
			if a, err := netip.ParseAddrPort(path.GetLocal()); err == nil && !slices.Contains(n.ports, uint32(a.Port())) {
				n.ports = append(n.ports, uint32(a.Port()))
			}
		}
	}
	for _, v := range w.Volumes {
		if v.DRBD != nil {
			n.minors = append(n.minors, uint32(v.DRBD.GetMinor()))
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.numbers[resourceKey(w.Resource)] = n
}

func (m *Machine) forgetNumbers(w Want) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.numbers, resourceKey(w.Resource))
}
