// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"net/url"
	"strconv"
	"time"

	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// parts are the parts of LINSTOR's metrics that a client can leave out.
type parts struct {
	resources, pools, reports bool
}

// asked reads what a client wants: everything, unless it says false to a part.
func asked(q url.Values) parts {
	yes := func(param string) bool {
		want, err := strconv.ParseBool(q.Get(param))
		return want || err != nil
	}
	return parts{resources: yes("resource"), pools: yes("storage_pools"), reports: yes("error_reports")}
}

// scrape is one answer under way.
type scrape struct {
	*Exporter
	*text
	view  *store.View
	now   time.Time
	want  parts
	found *findings
}

// write writes everything but the figures of the scrape itself.
func (s *scrape) write() {
	s.linstor()
	s.deletes()
	s.replicaFigures()
	s.poolFigures()
	s.groupFigures()
	s.jobFigures()
	s.hostFigures()
	s.storeFigures()
	s.agentFigures()
	s.certificateFigures()
}

// findings is what one pass over the cluster has found. It is used again by a later scrape,
// as it is large in a large cluster.
type findings struct {
	nodes       map[model.NodeKey]string // names
	pools       map[model.PoolID]string
	groups      map[model.GroupKey]string
	at          map[model.DefinitionKey]int // in definitions
	definitions []definition

	counts, volumeDefinitions, replicas, volumes series
	free, total, faults                          series // by pool
	promised, allocated, foreign                 series // by pool

	failing  []int64               // replicas, by the reason of their failure
	deleting []pending             // of those that do not say since when
	dated    map[kindDeleted]int64 // how many say it
	oldest   time.Duration         // the highest age of these
}

func newFindings() *findings {
	return &findings{
		nodes: make(map[model.NodeKey]string), pools: make(map[model.PoolID]string), groups: make(map[model.GroupKey]string),
		at: make(map[model.DefinitionKey]int), failing: make([]int64, len(reasons())), dated: make(map[kindDeleted]int64),
	}
}

// reset forgets everything and keeps the memory.
func (f *findings) reset() {
	clear(f.nodes)
	clear(f.pools)
	clear(f.groups)
	clear(f.at)
	clear(f.definitions)
	clear(f.deleting)
	clear(f.failing)
	clear(f.dated)
	f.oldest = 0
	f.definitions, f.deleting = f.definitions[:0], f.deleting[:0]
	for _, s := range []*series{
		&f.counts, &f.volumeDefinitions, &f.replicas, &f.volumes, &f.free, &f.total, &f.faults, &f.promised, &f.allocated, &f.foreign,
	} {
		s.reset()
	}
}

// remembered is the name of a row, which is looked up once.
func remembered[K comparable, N ~string](names map[K]string, key K, lookUp func(store.Reader, K) N, view *store.View) string {
	name, ok := names[key]
	if !ok {
		name = string(lookUp(view, key))
		names[key] = name
	}
	return name
}

func (s *scrape) node(key model.NodeKey) string {
	return remembered(s.found.nodes, key, schema.NameOfNode, s.view)
}

func (s *scrape) pool(id model.PoolID) string {
	return remembered(s.found.pools, id, schema.NameOfPool, s.view)
}

func (s *scrape) group(key model.GroupKey) string {
	return remembered(s.found.groups, key, schema.NameOfGroup, s.view)
}

// definition is what the samples of volumes and replicas need of their definition.
type definition struct {
	name, group string
	layers      []model.Layer
	replicas    int64
}

// read reads all definitions, their volumes and their replicas, each row once. A pass over
// all rows of a kind is much cheaper than looking for those of each definition.
func (s *scrape) read() {
	f := s.found
	for d := range schema.Definitions.All(s.view) {
		s.deleting(d.Deleting, kindDefinition, d.UUID, d.DeletingFrom)
		f.at[d.Name.Key()] = len(f.definitions)
		f.definitions = append(f.definitions, definition{name: string(d.Name), group: s.group(d.Group), layers: d.Layers})
	}
	for v := range schema.VolumeDefinitions.All(s.view) {
		s.deleting(v.Deleting, kindVolumeDefinition, v.UUID, time.Time{})
		d := s.definition(v.Definition)
		f.volumeDefinitions.add(0, v.Size, "name", d.name, "volume_number", number(v.Number), "resource_group", d.group)
	}
	for r := range schema.Resources.All(s.view) {
		s.readReplica(&r)
	}
	for _, d := range f.definitions {
		f.counts.add(d.replicas, unknown, "name", d.name, "resource_group", d.group)
	}
}

// definition is the definition of a key. One that is not in the view has its key for a name.
func (s *scrape) definition(key model.DefinitionKey) *definition {
	if i, ok := s.found.at[key]; ok {
		return &s.found.definitions[i]
	}
	return &definition{name: string(key)}
}

// readReplica reads a replica with its volumes.
func (s *scrape) readReplica(r *schema.Resource) {
	said, _ := s.Observed.Resource(r.ID())
	s.deleting(r.Deleting, kindResource, r.UUID, r.DeletingFrom)
	if said.Current && said.Failure != nil {
		s.found.failing[class(said.Failure.Reason)]++
	}
	for i := range r.Volumes {
		s.deleting(r.Volumes[i].Deleting && !r.Deleting, kindVolume, r.Volumes[i].UUID, time.Time{})
	}
	if !s.want.resources {
		return
	}
	d, node := s.definition(r.Definition), s.node(r.Node)
	d.replicas++
	s.found.replicas.add(use(said), unknown, "name", d.name, "node", node)
	for i := range r.Volumes {
		v := &r.Volumes[i]
		seen := volume(said, v.Number)
		allocated := unknown
		if r.Kind == schema.Diskful {
			allocated = known(seen.Allocated)
		}
		s.found.volumes.add(disk(r, d.layers, said, seen), allocated, "resource", d.name, "node", node, "volume", number(v.Number),
			"device_path", seen.DevicePath, "storage_pool", s.pool(model.PoolID{Node: r.Node, Pool: v.Pool}))
	}
}

// class is the reason of a failure as far as this program knows it.
func class(r observed.Reason) observed.Reason {
	if r < 0 || int(r) >= len(reasons()) {
		return observed.Other
	}
	return r
}

// volume is what a node says of one volume, nothing when it says nothing.
func volume(said observed.ResourceStatus, nr model.VolumeNumber) observed.VolumeStatus {
	for _, v := range said.Volumes {
		if v.Number == nr {
			return v
		}
	}
	return observed.VolumeStatus{}
}

// readPool reads a pool. One without storage has no space: that is known.
func (s *scrape) readPool(p *schema.Pool) {
	id := model.PoolID{Node: p.Node, Pool: p.Name.Key()}
	f, labels := s.found, s.poolLabels(p)
	if p.Provider == model.Diskless {
		f.free.add(0, 0, labels...)
		f.total.add(0, 0, labels...)
		f.faults.add(0, 0, labels...)
		return
	}
	said, _ := s.Observed.Pool(id)
	f.free.add(0, known(said.Free), labels...)
	f.total.add(0, known(said.Total), labels...)
	f.faults.add(0, length(said.Current, said.Faults), labels...)
	own := []string{"node", s.node(p.Node), "storage_pool", string(p.Name)}
	f.promised.add(0, schema.Promised.Of(s.view, id), own...)
	f.allocated.add(0, known(said.Allocated), own...)
	f.foreign.add(0, length(said.Current, said.Unknown), own...)
}

func known(bytes *int64) int64 {
	if bytes == nil {
		return unknown
	}
	return *bytes
}

// length is that of a list that a node said, unknown when it is not of now.
func length(current bool, list []string) int64 {
	if !current {
		return unknown
	}
	return int64(len(list))
}

func number(n model.VolumeNumber) string { return strconv.Itoa(int(n)) }
