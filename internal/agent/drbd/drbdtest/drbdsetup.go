// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package drbdtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

func failure(name string, number int, text string) (string, string, int) {
	return "", fmt.Sprintf("%s: Failure: (%d) %s\n", name, number, text), 10
}

func refused(name string, number int, text string) (string, string, int) {
	return "", fmt.Sprintf("%s: State change failed: (%d) %s\n", name, number, text), 11
}

// positional are the arguments that are no options; options those that are.
func positional(args []string) (words []string, options map[string]string) {
	options = map[string]string{}
	for _, a := range args {
		if name, ok := strings.CutPrefix(a, "--"); ok {
			key, value, _ := strings.Cut(name, "=")
			options[key] = value
			continue
		}
		words = append(words, a)
	}
	return words, options
}

func number(words []string, i int) int {
	if i >= len(words) {
		return -1
	}
	n, err := strconv.Atoi(words[i])
	if err != nil {
		return -1
	}
	return n
}

func (n *Node) drbdsetup(args []string) (string, string, int) {
	verb := args[0]
	words, options := positional(args[1:])
	switch verb {
	case "detach", "attach", "del-minor", "new-current-uuid", "suspend-io", "resume-io", "resize":
		return n.ofMinor(verb, words, options)
	case "new-resource":
		if n.resources[words[0]] == nil { // An existing name is no error, even with another id.
			n.resources[words[0]] = &resource{name: words[0], nodeID: number(words, 1), options: options, devices: map[int]*device{}, peers: map[int]*peer{}}
		}
		return "", "", 0
	case "down":
		return n.down(words[0])
	}
	r := n.resources[words[0]]
	if r == nil {
		if verb == "status" {
			return "[\n]\n", words[0] + ": No such resource\n", 10
		}
		return failure(words[0], 158, "Unknown resource")
	}
	switch verb {
	case "status":
		return n.status(r), "", 0
	case "secondary":
		if text := n.openers(r); text != "" {
			return "", fmt.Sprintf("%s: State change failed: (-12) Device is held open by someone\nadditional info from kernel:\n%s", r.name, text), 11
		}
		r.explicit = false
		return "", "", 0
	case "primary":
		return n.makePrimary(r, options)
	case "resource-options":
		r.set(options)
		return "", "", 0
	case "get-gi":
		if d := n.diskOf(r.name, number(words, 2)); d != nil && r.peers[number(words, 1)] != nil {
			return d.generation + ":0000000000000000:0000000000000000:0000000000000000:0:0:0:0:1:0:0:0:0:0:0:0\n", "", 0
		}
		return failure(r.name, 162, "Invalid configuration request")
	case "new-minor":
		_, client := options["diskless"]
		r.devices[number(words, 2)] = &device{minor: number(words, 1), client: client}
		return "", "", 0
	}
	return n.ofPeer(verb, r, words, options)
}

// set changes options, and sets all others back when it is told to.
func (r *resource) set(options map[string]string) {
	if _, all := options["set-defaults"]; all {
		clear(r.options)
		delete(options, "set-defaults")
	}
	maps.Copy(r.options, options)
}

func (n *Node) ofPeer(verb string, r *resource, words []string, options map[string]string) (string, string, int) {
	id := number(words, 1)
	p := r.peers[id]
	switch {
	case verb == "new-peer":
		r.peers[id] = &peer{id: id, name: options["_name"], net: options, bitmap: map[int]bool{}}
	case verb == "forget-peer" && p != nil:
		return failure(r.name, 125, "Device has a net-config (use disconnect first)")
	case verb == "forget-peer":
		for volume := range r.devices {
			if d := n.diskOf(r.name, volume); d != nil {
				delete(d.slots, id)
			}
		}
	case p == nil:
		return "", fmt.Sprintf("%s: Failure: (162) Invalid configuration request\nadditional info from kernel:\nunknown connection\n", r.name), 10
	case verb == "del-peer":
		delete(r.peers, id)
	case verb == "new-path":
		p.local, p.remote = words[2], words[3]
	case verb == "del-path":
		p.local, p.remote = "", ""
	case verb == "connect" && p.started:
		return failure(r.name, 125, "Device has a net-config (use disconnect first)")
	case verb == "connect":
		p.started = true
	case verb == "disconnect":
		p.started = false
	case verb == "net-options":
		if _, or := n.c.connected(n, p, r.name); or != nil && p.net["allow-two-primaries"] == "yes" && options["allow-two-primaries"] != "yes" && n.primary(r) && or.explicit {
			return failure(r.name, 164, "Can not clear allow_two_primaries as long as\nthere a primaries on both sides")
		}
		delete(options, "set-defaults")
		p.net = options
	case verb == "peer-device-options":
		p.bitmap[number(words, 2)] = options["bitmap"] != "no"
	default:
		return "", "drbdsetup: unknown command " + verb + "\n", 20
	}
	return "", "", 0
}

// byMinor finds a device.
func (n *Node) byMinor(minor int) (*resource, int, *device) {
	for _, r := range n.resources {
		for volume, v := range r.devices {
			if v.minor == minor {
				return r, volume, v
			}
		}
	}
	return nil, 0, nil
}

func (n *Node) ofMinor(verb string, words []string, options map[string]string) (string, string, int) {
	r, volume, v := n.byMinor(number(words, 0))
	if r == nil {
		return failure(words[0], 127, "Device minor not allocated")
	}
	switch verb {
	case "attach":
		return n.attach(r, volume, v, words)
	case "detach":
		v.disk = ""
		_, v.client = options["diskless"]
	case "del-minor":
		if v.disk != "" {
			return failure(words[0], 160, "Minor still configured (down it first)")
		}
		if users := n.users["/dev/drbd"+words[0]]; len(users) > 0 {
			n.c.disaster("%s: del-minor %s, which is %s", n.Name, words[0], users[0])
		}
		delete(r.devices, volume)
	case "new-current-uuid":
		d := n.diskOf(r.name, volume)
		if d == nil {
			return failure(words[0], 138, "No disk")
		}
		if d.generation != untouched {
			return failure(words[0], 151, "Need to be StandAlone")
		}
		n.c.next++
		for _, m := range n.c.reach(n, r) {
			if d := m.diskOf(r.name, volume); d != nil {
				d.generation = fmt.Sprintf("%016X", n.c.next)
			}
		}
	case "suspend-io":
		r.suspended = true
	case "resume-io":
		r.suspended = false
	case "resize":
		if _, ok := options["size"]; ok {
			n.c.disaster("%s: resize with a size", n.Name)
		}
		n.resize(r, volume)
	}
	return "", "", 0
}

func (n *Node) attach(r *resource, volume int, v *device, words []string) (string, string, int) {
	d := n.disks[words[1]]
	switch {
	case d == nil:
		return "", fmt.Sprintf("Can not open device '%s': No such file or directory\n", words[1]), 20
	case d.failed:
		return "", "pread(5,...,4096,67104768) in v09_md_disk_to_cpu failed: Input/output error\n", 10
	case d.generation == "":
		return failure(words[0], 119, "No valid meta-data signature found.")
	}
	for id, p := range r.peers {
		if has, known := p.bitmap[volume]; known && !has {
			continue
		}
		d.slots[id] = true
	}
	if len(d.slots) > d.room {
		return "", fmt.Sprintf("%s: Failure: (162) Invalid configuration request\nadditional info from kernel:\nNot enough free bitmap slots (available=%d, needed=%d)\n", words[0], d.room, len(d.slots)), 10
	}
	if d.device == 0 {
		d.device = d.usable()
	}
	v.disk, v.client = words[1], false
	return "", "", 0
}

// resize lets a volume grow when all disks can be asked.
func (n *Node) resize(r *resource, volume int) {
	own := n.diskOf(r.name, volume)
	if own == nil {
		return
	}
	disks, least := []*disk{own}, own.usable()
	for _, p := range r.peers {
		if has, known := p.bitmap[volume]; known && !has {
			continue
		}
		other, _ := n.c.connected(n, p, r.name)
		if other == nil || other.diskOf(r.name, volume) == nil {
			return // Exit code 0, and nothing was done.
		}
		d := other.diskOf(r.name, volume)
		disks, least = append(disks, d), min(least, d.usable())
	}
	for _, d := range disks {
		d.device = max(d.device, least)
	}
}

func (n *Node) down(name string) (string, string, int) {
	r := n.resources[name]
	if r == nil {
		return "", "", 0 // It says nothing about what it does not know.
	}
	if text := n.openers(r); text != "" {
		return "", fmt.Sprintf("%s: State change failed: (-12) Device is held open by someone\nadditional info from kernel:\n%s", name, text), 11
	}
	delete(n.resources, name)
	return "", "", 0
}

// openers names who has a device of the resource open, as the kernel does.
func (n *Node) openers(r *resource) string {
	var b strings.Builder
	for _, volume := range slices.Sorted(maps.Keys(r.devices)) {
		v := r.devices[volume]
		for _, h := range n.users["/dev/drbd"+strconv.Itoa(v.minor)] {
			fmt.Fprintf(&b, "drbd%d opened by %s (pid %d) at 2026-11-30 11:39:27.624\n", v.minor, h.Name, h.PID)
		}
	}
	return b.String()
}

func (n *Node) makePrimary(r *resource, options map[string]string) (string, string, int) {
	_, force := options["force"]
	for volume := range r.devices {
		d := n.diskOf(r.name, volume)
		if d == nil || d.generation != untouched {
			continue
		}
		if !force {
			return "", r.name + ": State change failed: (-2) Need access to UpToDate data\n", 17
		}
		n.c.next++
		d.generation = fmt.Sprintf("%016X", n.c.next)
	}
	for _, p := range r.peers {
		if other, or := n.c.connected(n, p, r.name); other != nil && other.primary(or) && p.net["allow-two-primaries"] != "yes" {
			return refused(r.name, -1, "Multiple primaries not allowed by config")
		}
	}
	r.explicit = true
	return "", "", 0
}

// status is what "drbdsetup status --json" prints of a resource.
func (n *Node) status(r *resource) string {
	type object = map[string]any
	role := func(primary bool) string {
		if primary {
			return "Primary"
		}
		return "Secondary"
	}
	devices, connections := []object{}, []object{}
	for _, volume := range slices.Sorted(maps.Keys(r.devices)) {
		v := r.devices[volume]
		state, size := n.diskState(r.name, volume), int64(0)
		for _, m := range n.c.reach(n, r) {
			if d := m.diskOf(r.name, volume); d != nil {
				size = d.device
			}
		}
		devices = append(devices, object{"volume": volume, "minor": v.minor, "disk-state": state, "client": v.client, "quorum": true, "size": size})
	}
	for _, id := range slices.Sorted(maps.Keys(r.peers)) {
		p := r.peers[id]
		other, or := n.c.connected(n, p, r.name)
		connection := object{"peer-node-id": id, "name": p.name, "connection-state": "Connecting", "peer-role": "Unknown"}
		if !p.started {
			connection["connection-state"] = "StandAlone"
		}
		peers := []object{}
		for _, volume := range slices.Sorted(maps.Keys(r.devices)) {
			pd := object{"volume": volume, "replication-state": "Off", "peer-disk-state": "DUnknown", "peer-client": false, "resync-suspended": "no", "out-of-sync": 0}
			if other != nil {
				connection["connection-state"], connection["peer-role"] = "Connected", role(other.primary(or))
				if v := or.devices[volume]; v != nil {
					pd["replication-state"], pd["peer-disk-state"], pd["peer-client"] = "Established", other.diskState(r.name, volume), v.client
				}
			}
			peers = append(peers, pd)
		}
		connection["peer_devices"] = peers
		connections = append(connections, connection)
	}
	text, _ := json.Marshal([]object{{
		"name": r.name, "node-id": r.nodeID, "role": role(n.primary(r)), "suspended": r.suspended, "suspended-user": r.suspended,
		"devices": devices, "connections": connections,
	}})
	return string(text)
}

func (n *Node) diskState(resource string, volume int) string {
	switch d := n.diskOf(resource, volume); {
	case d == nil:
		return "Diskless"
	case d.generation == untouched:
		return "Inconsistent"
	}
	return "UpToDate"
}
