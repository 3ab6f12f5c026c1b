// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"fmt"
	"slices"

	"github.com/holdfast-storage/holdfast/internal/catalog"
	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/props"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// numberRange is a range of numbers, and the property that sets it.
type numberRange struct {
	property string
	lo, hi   int32
}

// rangeOf returns the range that a property of the cluster sets.
func rangeOf(r store.Reader, property string) numberRange {
	lo, hi, _ := props.Range(property, cluster(r)...)
	return numberRange{property, int32(lo), int32(hi)}
}

// free returns the lowest number of the range that next finds from a number on and that is not
// taken by others, and how many of those it has passed over.
func (r numberRange) free(next func(lo int32) (int32, bool), taken func(int32) bool) (n int32, foreign int, ok bool) {
	for lo := r.lo; lo <= r.hi; lo = n + 1 {
		if n, ok = next(lo); !ok || !taken(n) {
			return n, foreign, ok
		}
		foreign++
	}
	return 0, foreign, false
}

func (r numberRange) exhausted(object errs.Object, attr errs.Attr, what string, foreign int) error {
	others := ""
	if foreign > 0 {
		others = fmt.Sprintf(", %d of them for something else than resources", foreign)
	}
	return errs.New(errs.Exhausted, object, "there is no free %s", what).About(attr).
		Because("all %d of the range %d-%d are used%s", r.hi-r.lo+1, r.lo, r.hi, others).
		Fix("widen the range with the controller property %s, or delete what is not needed", r.property)
}

// asFlagged refuses a volume that is said to be encrypted, and would not be: nobody must rely on a flag.
func asFlagged(d schema.Definition, vd schema.VolumeDefinition) error {
	if !slices.Contains(vd.Flags, catalog.Encrypted) || model.Encrypts(d.Layers) {
		return nil
	}
	return errs.New(errs.Invalid, errs.VolumeDefinition, "volume %d of %s would not be encrypted", vd.Number, d.Name).About(errs.LayerStack).
		Because("it has the flag %s, and the layers %s encrypt nothing", catalog.Encrypted, layerText(d.Layers)).
		Fix("ask for the layer %s as well, or clear the flag", model.LUKS)
}

// equip gives a volume what a layer needs and it does not have yet: a minor number, a key.
func (s *Resources) equip(tx *store.Tx, d schema.Definition, vd schema.VolumeDefinition, b birth) error {
	if err := asFlagged(d, vd); err != nil {
		return err
	}
	lacksMinor, lacksKey := model.Replicates(d.Layers) && vd.Minor == nil, model.Encrypts(d.Layers) && vd.Key == nil
	if !lacksMinor && !lacksKey {
		return nil
	}
	if lacksMinor {
		minor, err := s.freeMinor(tx)
		if err != nil {
			return err
		}
		vd.Minor = &minor
	}
	if lacksKey {
		key, err := b.keys.Key(vd.UUID)
		if err != nil {
			return err
		}
		vd.Key = key
	}
	return schema.VolumeDefinitions.Update(tx, vd)
}

// freeMinor returns the lowest minor that no volume has, and that no host uses for something
// else. A volume keeps its minor until every host has said that it is gone. Any node may get a
// replica of it later, so a minor that is taken on one is not free.
func (s *Resources) freeMinor(tx *store.Tx) (int32, error) {
	r := rangeOf(tx, "MinorNrAutoRange")
	n, foreign, ok := r.free(func(lo int32) (int32, bool) { return schema.Minors.Free(tx, lo, r.hi) }, s.minorTaken)
	if !ok {
		return 0, r.exhausted(errs.VolumeDefinition, errs.Minor, "minor number", foreign)
	}
	return n, nil
}

// minorTaken tells whether a host has said that it uses a minor for what is none of ours.
func (s *Resources) minorTaken(minor int32) bool {
	for key := range s.Observed.Nodes() {
		if h, _ := s.Observed.Host(key); slices.Contains(h.TakenMinors, uint32(minor)) {
			return true
		}
	}
	return false
}

// freePort returns the lowest TCP port that no replica on the node has, and that nobody else
// listens on there. A replica keeps its ports until its host has said that it is gone. A peer
// that still dials the port then reaches nobody, or a replica of another resource or number,
// which refuses it.
func (s *Resources) freePort(tx *store.Tx, node model.NodeKey) (int32, error) {
	r := rangeOf(tx, "TcpPortAutoRange")
	host, _ := s.Observed.Host(node)
	p, foreign, ok := r.free(func(lo int32) (int32, bool) {
		p, ok := schema.Ports.Free(tx, schema.NodePort{Node: node, Port: lo}, schema.NodePort{Node: node, Port: r.hi})
		return p.Port, ok
	}, func(port int32) bool { return slices.Contains(host.TakenPorts, uint32(port)) })
	if !ok {
		return 0, r.exhausted(errs.Resource, errs.Port, "TCP port on node "+string(schema.NameOfNode(tx, node)), foreign)
	}
	return p, nil
}

// highestNodeID is fixed: DRBD 9 numbers the replicas of a resource from 0 to 31 (DRBD manual).
const highestNodeID int32 = 31

// takeNodeID returns the number of a new replica among its peers: the one asked for, else the
// lowest that none has or had, else the one that was retired the longest time ago.
//
// Peers keep a bitmap of what a replica has missed under its number. Given to another, the
// number would lead them to believe that this one has what the former had. So the number of a
// replica that went is retired, and not taken again before every replica that there is has
// carried out an assignment from after that: those do not name the former any more. Replicas
// that are added later never knew it.
func (s *Resources) takeNodeID(tx *store.Tx, d *schema.Definition, asked *int32) (int32, error) {
	if asked != nil {
		return *asked, s.reuse(tx, d, *asked)
	}
	retired := func(id int32) bool {
		return slices.ContainsFunc(d.Retired, func(n schema.RetiredNodeID) bool { return n.NodeID == id })
	}
	used := map[int32]bool{}
	for x := range schema.ResourcesOf(tx, d.Name.Key()) {
		if x.NodeID != nil {
			used[*x.NodeID] = true
		}
	}
	for id := range highestNodeID + 1 {
		if !used[id] && !retired(id) {
			return id, nil
		}
	}
	if len(d.Retired) == 0 {
		return 0, errs.New(errs.Exhausted, errs.Resource, "resource %s has no free node id", d.Name).About(errs.NodeID).
			Because("it has %d replicas, the most that DRBD can have", highestNodeID+1).Fix("delete a replica first")
	}
	oldest := slices.MinFunc(d.Retired, func(a, b schema.RetiredNodeID) int { return int(int64(a.Since) - int64(b.Since)) })
	return oldest.NodeID, s.reuse(tx, d, oldest.NodeID)
}

// reuse takes a number out of retirement; one that is not retired is free for the asking. It
// is refused while a peer may remember the number.
func (s *Resources) reuse(tx *store.Tx, d *schema.Definition, id int32) error {
	i := slices.IndexFunc(d.Retired, func(n schema.RetiredNodeID) bool { return n.NodeID == id })
	if i < 0 {
		return nil
	}
	for x := range schema.ResourcesOf(tx, d.Name.Key()) {
		st, _ := s.Observed.Resource(x.ID())
		if st.Current && st.Phase == observed.Ready && st.Generation >= d.Retired[i].Since {
			continue
		}
		return errs.New(errs.Exhausted, errs.Resource, "resource %s cannot use the node id %d again yet", d.Name, id).About(errs.NodeID).
			Because("node %s has not confirmed yet that it has forgotten the replica that had it", schema.NameOfNode(tx, x.Node)).
			Fix("wait until the node has carried out its assignment, or delete the resource there")
	}
	d.Retired = slices.Delete(slices.Clone(d.Retired), i, i+1)
	return schema.Definitions.Update(tx, *d)
}

// retireNodeID keeps the number of a replica whose row has gone for as long as its peers may
// remember it. They get a new assignment by this: their definition has changed.
func retireNodeID(tx *store.Tx, r schema.Resource) error {
	d, ok := schema.Definitions.Get(tx, r.Definition)
	if r.NodeID == nil || !ok || d.Deleting {
		return nil
	}
	d.Retired = append(slices.Clone(d.Retired), schema.RetiredNodeID{NodeID: *r.NodeID, Since: uint64(tx.Revision())})
	slices.SortFunc(d.Retired, func(a, b schema.RetiredNodeID) int { return int(a.NodeID - b.NodeID) })
	return schema.Definitions.Update(tx, d)
}
