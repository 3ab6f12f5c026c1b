// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package encode shows the rows of the store, and what is observed of them, as the bodies of the LINSTOR REST API.
//
// A body says of a host only what the host said in its present session: the state of a replica is absent while its node is
// away, and a capacity that is not known is left out, never sent as zero. What is a fact of the database is always shown:
// names, layers, pools, promised sizes.
//
// An [Encoder] is made for one answer. It reads one view of the store, remembers the rows that it has looked up, and is
// for one goroutine. The rows it is given must come from that view.
package encode

import (
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/props"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

// Encoder turns rows into bodies.
type Encoder struct {
	rows store.Reader
	seen *observed.State

	nodes      map[model.NodeKey]node
	pools      map[model.PoolID]pool
	groups     map[model.GroupKey]group
	secrets    map[string]bool // by property key
	ports      ports
	cluster    *model.Props
	definition *definition // the one that was needed last: lists name each many times in a row
}

// New returns an encoder of the rows of a view, with what is observed of them.
func New(rows store.Reader, seen *observed.State) *Encoder {
	return &Encoder{
		rows:    rows,
		seen:    seen,
		nodes:   make(map[model.NodeKey]node),
		pools:   make(map[model.PoolID]pool),
		groups:  make(map[model.GroupKey]group),
		secrets: make(map[string]bool),
	}
}

// node is what bodies about other objects need of a node.
type node struct {
	name    string
	offline bool     // so that nothing is heard of what lies there
	leaving []string // the flags of a node that is evicted or evacuated, which its replicas have, too
	props   model.Props
	listed  bool // as isListed says
}

// node returns the node of a key. One that is not in the view shows its key and counts as offline.
func (e *Encoder) node(key model.NodeKey) node {
	if n, ok := e.nodes[key]; ok {
		return n
	}
	n := node{name: string(key), offline: e.seen.Node(key).Connection == observed.Offline}
	if row, ok := schema.Nodes.Get(e.rows, key); ok {
		n.name, n.leaving, n.props, n.listed = string(row.Name), leavingFlags(&row), row.Props, isListed(row.Props)
	}
	e.nodes[key] = n
	return n
}

// leavingFlags says that a node is evicted or evacuated.
func leavingFlags(n *schema.Node) []string {
	var flags []string
	if n.Evicted {
		flags = append(flags, wire.FlagEvicted)
	}
	if n.Evacuating {
		flags = append(flags, wire.FlagEvacuate)
	}
	return flags
}

// pool is what bodies about volumes need of a pool.
type pool struct {
	name     string
	provider wire.ProviderKind
	props    model.Props
	common   model.Props // that all pools of the name have
	listed   bool        // as isListed says
}

func (e *Encoder) pool(id model.PoolID) pool {
	if p, ok := e.pools[id]; ok {
		return p
	}
	p := pool{name: string(id.Pool)}
	if row, ok := schema.Pools.Get(e.rows, id); ok {
		p = pool{name: string(row.Name), provider: wire.ProviderKind(row.Provider), props: row.Props, common: schema.PropsOfPools(e.rows, id.Pool)}
		p.listed = isListed(p.props) || isListed(p.common)
	}
	e.pools[id] = p
	return p
}

// group is what bodies about other objects need of a group.
type group struct {
	name  string
	props model.Props
}

func (e *Encoder) groupOf(key model.GroupKey) group {
	if g, ok := e.groups[key]; ok {
		return g
	}
	g := group{name: string(key)}
	if row, ok := schema.Groups.Get(e.rows, key); ok {
		g = group{string(row.Name), row.Props}
	}
	e.groups[key] = g
	return g
}

// definition is what bodies about replicas need of their definition.
type definition struct {
	key     model.DefinitionKey
	row     schema.Definition
	layers  []model.Layer
	volumes []schema.VolumeDefinition
	listed  bool // as isListed says, with the group and the cluster
}

// volume returns the volume definition of a number, nil when there is none.
func (d *definition) volume(nr model.VolumeNumber) *schema.VolumeDefinition {
	for i := range d.volumes {
		if d.volumes[i].Number == nr {
			return &d.volumes[i]
		}
	}
	return nil
}

func (e *Encoder) definitionOf(key model.DefinitionKey) *definition {
	if e.definition != nil && e.definition.key == key {
		return e.definition
	}
	d := &definition{key: key}
	row, ok := schema.Definitions.Get(e.rows, key)
	if !ok {
		row.Name = model.DefinitionName(key)
	}
	d.row, d.layers = row, row.Layers
	if len(d.layers) == 0 {
		d.layers = []model.Layer{model.Storage}
	}
	for v := range schema.VolumesOf(e.rows, key) {
		d.volumes = append(d.volumes, v)
	}
	d.listed = isListed(row.Props) || isListed(e.groupOf(row.Group).props) || isListed(e.settings())
	e.definition = d
	return d
}

// properties shows properties, without the values of secret ones.
func (e *Encoder) properties(p model.Props) wire.Properties {
	m := p.Map()
	for key := range m {
		if e.secret(key) {
			m[key] = hidden
		}
	}
	return m
}

// hidden stands for a secret. Clients only ask whether there is one.
const hidden = "***"

// secret remembers what it was asked: the rows of a list have the same few keys.
func (e *Encoder) secret(key string) bool {
	is, ok := e.secrets[key]
	if !ok {
		is = props.Secret(key)
		e.secrets[key] = is
	}
	return is
}

// deleteFlag is the flags of a row that is nothing but there or being deleted.
func deleteFlag(deleting bool) []string {
	if deleting {
		return []string{wire.FlagDelete}
	}
	return nil
}
