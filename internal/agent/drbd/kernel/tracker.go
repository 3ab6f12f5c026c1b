// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Tracker keeps the state that a stream of events tells. Its zero value knows of nothing. It is not safe for concurrent use.
type Tracker struct {
	resources map[string]*Resource
	complete  bool
}

// Complete tells whether the state at the beginning of the stream is known whole.
func (t *Tracker) Complete() bool { return t.complete }

// Apply takes an event and returns the name of the resource that it changed, empty when it changed none. An event about something that was never told of is an error: a
// part of the stream is missing, and only a new one helps.
func (t *Tracker) Apply(e Event) (string, error) {
	if e.Kind == DumpEnd {
		t.complete = true
		return "", nil
	}
	name := e.Fields["name"]
	if e.Kind == ResourceKind {
		t.resource(name, e)
		return name, nil
	}
	r := t.resources[name]
	if r == nil {
		switch e.Verb {
		case Destroy, Call, Response:
			return "", nil // The rest of something that went.
		case Change, Rename:
			return "", fmt.Errorf("drbdsetup's events: a %s of resource %s changed, which was never told of", e.Kind, name)
		case Exists, Create:
			r = t.add(name)
		}
	}
	return name, r.apply(e)
}

// Resource returns what is known of a resource.
func (t *Tracker) Resource(name string) (Resource, bool) {
	r, ok := t.resources[name]
	if !ok {
		return Resource{}, false
	}
	return r.clone(), true
}

// Names returns the names of all resources, in order.
func (t *Tracker) Names() []string { return slices.Sorted(maps.Keys(t.resources)) }

func (t *Tracker) add(name string) *Resource {
	if t.resources == nil {
		t.resources = map[string]*Resource{}
	}
	r := &Resource{Name: name, NodeID: -1}
	t.resources[name] = r
	return r
}

func (t *Tracker) resource(name string, e Event) {
	switch e.Verb {
	case Destroy:
		delete(t.resources, name)
		return
	case Rename:
		if r := t.resources[name]; r != nil && e.Fields["new_name"] != "" {
			delete(t.resources, name)
			r.Name = e.Fields["new_name"]
			t.resources[r.Name] = r
		}
		return
	case Exists, Create, Change, Call, Response:
	}
	r := t.resources[name]
	if r == nil {
		r = t.add(name)
	}
	e.set("role", &r.Role)
	e.flag("force-io-failures", &r.ForceIOFailures)
	if v, ok := e.Fields["suspended"]; ok {
		r.Suspended = nil
		if v != "no" {
			r.Suspended = strings.Split(v, ",")
			slices.Sort(r.Suspended)
		}
	}
	if v, ok := e.Fields["may_promote"]; ok {
		r.MayPromote = new(v == "yes")
	}
	if v, err := strconv.Atoi(e.Fields["promotion_score"]); err == nil {
		r.PromotionScore = &v
	}
}

func (r *Resource) apply(e Event) error {
	switch e.Kind {
	case DeviceKind:
		return r.device(e)
	case ConnectionKind, PeerDeviceKind, PathKind, HelperKind:
	default:
		return nil
	}
	if e.Fields["peer-node-id"] == "" {
		return nil // A helper of the resource as a whole.
	}
	peer, err := e.number("peer-node-id")
	if err != nil {
		return err
	}
	if e.Kind == ConnectionKind && e.Verb == Destroy {
		r.Connections = slices.DeleteFunc(r.Connections, func(c Connection) bool { return c.PeerID == peer })
		return nil
	}
	if e.Verb == Destroy && e.Kind == PathKind {
		return nil
	}
	c := r.connection(peer)
	e.set("conn-name", &c.Name)
	switch e.Kind {
	case ConnectionKind:
		e.set("connection", &c.State)
		e.set("role", &c.Role)
		c.SplitBrain = c.SplitBrain && c.State != Connected
	case PeerDeviceKind:
		return c.peerDevice(e)
	case HelperKind:
		// DRBD calls this one when it found a split brain that nothing in the configuration solves.
		c.SplitBrain = c.SplitBrain || e.Verb == Call && e.Fields["helper"] == "split-brain"
	}
	return nil
}

func (r *Resource) connection(peer int) *Connection {
	i, found := slices.BinarySearchFunc(r.Connections, peer, func(c Connection, p int) int { return cmp.Compare(c.PeerID, p) })
	if !found {
		r.Connections = slices.Insert(r.Connections, i, Connection{PeerID: peer})
	}
	return &r.Connections[i]
}

func (r *Resource) device(e Event) error {
	volume, err := e.number("volume")
	if err != nil {
		return err
	}
	i, found := slices.BinarySearchFunc(r.Devices, volume, func(d Device, v int) int { return cmp.Compare(d.Volume, v) })
	if e.Verb == Destroy {
		if found {
			r.Devices = slices.Delete(r.Devices, i, i+1)
		}
		return nil
	}
	if !found {
		r.Devices = slices.Insert(r.Devices, i, Device{Volume: volume})
	}
	d := &r.Devices[i]
	if _, ok := e.Fields["minor"]; ok {
		if d.Minor, err = e.number("minor"); err != nil {
			return err
		}
	}
	e.set("disk", &d.Disk)
	e.flag("client", &d.Client)
	e.flag("quorum", &d.Quorum)
	e.size("size", &d.Size)
	e.set("backing_dev", &d.Backing)
	d.Backing = unless(d.Backing, "none")
	return nil
}

func (c *Connection) peerDevice(e Event) error {
	volume, err := e.number("volume")
	if err != nil {
		return err
	}
	i, found := slices.BinarySearchFunc(c.PeerDevices, volume, func(d PeerDevice, v int) int { return cmp.Compare(d.Volume, v) })
	if e.Verb == Destroy {
		if found {
			c.PeerDevices = slices.Delete(c.PeerDevices, i, i+1)
		}
		return nil
	}
	if !found {
		c.PeerDevices = slices.Insert(c.PeerDevices, i, PeerDevice{Volume: volume})
	}
	d := &c.PeerDevices[i]
	e.set("replication", &d.Replication)
	e.set("peer-disk", &d.Disk)
	e.flag("peer-client", &d.Client)
	e.set("resync-suspended", &d.Paused)
	d.Paused = unless(d.Paused, "no")
	e.size("out-of-sync", &d.OutOfSync)
	if v, err := strconv.ParseFloat(e.Fields["done"], 64); err == nil && v >= 0 && v <= 100 {
		d.Done = &v
	}
	if d.Replication == Established || d.Replication == "Off" {
		d.Done = nil
	}
	return nil
}

func (r *Resource) clone() Resource {
	c := *r
	c.Suspended, c.Devices, c.Connections = slices.Clone(r.Suspended), slices.Clone(r.Devices), slices.Clone(r.Connections)
	for i := range c.Connections {
		c.Connections[i].PeerDevices = slices.Clone(c.Connections[i].PeerDevices)
	}
	return c
}
