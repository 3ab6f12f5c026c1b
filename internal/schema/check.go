// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"fmt"

	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// Check looks for everything that must never be in the database: what store.Verify finds
// (orphans, indexes and sums that differ from a rebuild, doubled numbers, rows that do not
// read back), and what only this schema knows. A sound database has no problems.
func Check(v *store.View) []store.Problem {
	c := checker{view: v, problems: store.Verify(v)}
	c.system()
	c.nodes()
	c.volumes()
	c.resources()
	c.deletions()
	c.numbers()
	c.jobs()
	c.snapshots()
	c.clones()
	return c.problems
}

type checker struct {
	view     *store.View
	problems []store.Problem
}

func (c *checker) found(collection string, key fmt.Stringer, format string, args ...any) {
	c.problems = append(c.problems, store.Problem{Collection: collection, Key: key.String(), What: fmt.Sprintf(format, args...)})
}

// text is a key that is text itself.
type text string

func (t text) String() string { return string(t) }

// system checks the rows that every cluster has.
func (c *checker) system() {
	if _, ok := Settings.Get(c.view, SettingsKey); !ok {
		c.found(Settings.Name(), text(SettingsKey), "is missing")
	}
	if _, ok := Groups.Get(c.view, DefaultGroup.Key()); !ok {
		c.found(Groups.Name(), text(DefaultGroup), "is missing")
	}
}

// nodes checks that each node has its diskless pool, and one active interface.
func (c *checker) nodes() {
	for n := range Nodes.All(c.view) {
		key := n.Name.Key()
		if _, ok := Pools.Get(c.view, model.PoolID{Node: key, Pool: DisklessPool.Key()}); !ok && !n.Deleting {
			c.found(Nodes.Name(), text(key), "has no pool %s", DisklessPool)
		}
		all, active := 0, 0
		for i := range InterfacesOf(c.view, key) {
			all++
			if i.Active {
				active++
			}
		}
		if all > 0 && active != 1 {
			c.found(Nodes.Name(), text(key), "has %d active interfaces of %d, not 1", active, all)
		}
	}
}

// volumes checks sizes.
func (c *checker) volumes() {
	for v := range VolumeDefinitions.All(c.view) {
		id := model.VolumeDefinitionID{Definition: v.Definition, Number: v.Number}
		if err := model.CheckVolumeSize(v.Size); err != nil {
			c.found(VolumeDefinitions.Name(), id, "%v", err)
		}
	}
}

// resources checks that each replica has exactly the volumes of its definition, each once
// and large enough for what it was promised for.
func (c *checker) resources() {
	for r := range Resources.All(c.view) {
		have := make(map[model.VolumeNumber]Volume, len(r.Volumes))
		for _, v := range r.Volumes {
			if _, twice := have[v.Number]; twice {
				c.found(Resources.Name(), r.ID(), "has volume %d twice", v.Number)
			}
			have[v.Number] = v
		}
		for vd := range VolumesOf(c.view, r.Definition) {
			v, ok := have[vd.Number]
			switch {
			case !ok && !vd.Deleting && !r.Deleting:
				c.found(Resources.Name(), r.ID(), "lacks volume %d", vd.Number)
			case ok && r.Kind == Diskful && v.Size < vd.Size && !v.Deleting && !r.Deleting:
				c.found(Resources.Name(), r.ID(), "is promised %d bytes for volume %d of %d bytes", v.Size, vd.Number, vd.Size)
			case ok && r.Kind != Diskful && v.Size != 0:
				c.found(Resources.Name(), r.ID(), "has no storage, but is promised %d bytes for volume %d", v.Size, vd.Number)
			}
		}
	}
}

// deletions checks that a deletion that was begun reaches everything below, and that none is
// forgotten with nothing left to do.
func (c *checker) deletions() {
	for d := range Definitions.All(c.view) {
		if !d.Deleting {
			continue
		}
		key, left := d.Name.Key(), 0
		for r := range ResourcesOf(c.view, key) {
			left++
			if !r.Deleting {
				c.found(Resources.Name(), r.ID(), "stays while its definition is being deleted")
			}
		}
		for range SnapshotsOf(c.view, key) {
			left++
		}
		if left == 0 {
			c.found(Definitions.Name(), text(key), "is being deleted, but nothing of it is left")
		}
	}
}

// snapshots checks that a snapshot and its parts say the same.
func (c *checker) snapshots() {
	for s := range Snapshots.All(c.view) {
		id, parts := text(string(s.Definition)+"/"+string(s.Name.Key())), 0
		for p := range SnapshotReplicasOf(c.view, s.ID()) {
			parts++
			dependents := ResourcesBySource.Len(c.view, p.ID())
			switch {
			case p.Deleting && dependents > 0:
				c.found(SnapshotReplicas.Name(), id, "goes on node %s while %d replicas are made from it", p.Node, dependents)
			case p.Deleting:
			case s.Deleting && dependents == 0:
				c.found(SnapshotReplicas.Name(), id, "stays on node %s while the snapshot goes, and nothing is made from it", p.Node)
			case s.Deleting, s.State == SnapshotTaking && (p.State == SnapshotTaking || p.State == SnapshotPlanned):
			case s.State != SnapshotTaken || p.State != SnapshotTaken:
				c.found(SnapshotReplicas.Name(), id, "is %s on node %s, and the snapshot is %s", p.State, p.Node, s.State)
			case len(p.Volumes) == 0:
				c.found(SnapshotReplicas.Name(), id, "has no volume on node %s", p.Node)
			}
		}
		if parts == 0 && (s.Deleting || s.State == SnapshotTaken) {
			c.found(Snapshots.Name(), id, "is %s, deleting %t, and on no node", s.State, s.Deleting)
		}
	}
}

// clones checks that a clone that is not complete is worked on, and that one that ended says
// when.
func (c *checker) clones() {
	for d := range Definitions.All(c.view) {
		key := d.Name.Key()
		switch {
		case d.Clone == nil:
		case (d.Clone.State == Cloning) != d.Clone.Ended.IsZero():
			c.found(Definitions.Name(), text(key), "is a clone that is %s and ended at %s", d.Clone.State, d.Clone.Ended)
		case d.Clone.State == Cloning && !d.Deleting && !JobsRunning.Has(c.view, JobTarget{CloneDefinition, string(key)}):
			c.found(Definitions.Name(), text(key), "is a clone that is not complete, but no job sees to that")
		}
	}
	for r := range Resources.All(c.view) {
		if r.Becomes != "" && r.Kind != Diskful {
			c.found(Resources.Name(), r.ID(), "becomes %s, but is %s", r.Becomes, r.Kind)
		}
	}
}

// numbers checks that no replica has the node id of one whose peers may still remember it.
func (c *checker) numbers() {
	for d := range Definitions.All(c.view) {
		key, retired := d.Name.Key(), make(map[int32]bool, len(d.Retired))
		for _, n := range d.Retired {
			if retired[n.NodeID] {
				c.found(Definitions.Name(), text(key), "has retired the node id %d twice", n.NodeID)
			}
			retired[n.NodeID] = true
		}
		for r := range ResourcesOf(c.view, key) {
			if r.NodeID != nil && retired[*r.NodeID] {
				c.found(Resources.Name(), r.ID(), "has the node id %d, which is retired", *r.NodeID)
			}
		}
	}
}

// jobs checks that a lost node is being worked on, and that ended jobs say when.
func (c *checker) jobs() {
	for n := range Nodes.All(c.view) {
		if n.Deleting && !JobsRunning.Has(c.view, JobTarget{LoseNode, string(n.Name.Key())}) {
			c.found(Nodes.Name(), text(n.Name.Key()), "is lost, but no job sees to that")
		}
		if (n.Evacuating || n.Evicted) == n.LeftAt.IsZero() {
			c.found(Nodes.Name(), text(n.Name.Key()), "left at %s: evacuating %t, evicted %t", n.LeftAt, n.Evacuating, n.Evicted)
		}
	}
	for j := range Jobs.All(c.view) {
		if (j.State == JobRunning) != j.Ended.IsZero() {
			c.found(Jobs.Name(), text(j.ID), "is %s and ended at %s", j.State, j.Ended)
		}
	}
}
