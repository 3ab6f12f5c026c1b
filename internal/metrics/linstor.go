// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/schema"
)

// linstor writes LINSTOR's families, but for those of the scrape itself.
func (s *scrape) linstor() {
	b := s.Build
	s.family("linstor_info", gauge, "The version of this controller.")
	s.count(1, "version", b.Version, "buildtime", b.Time, "gitid", b.Commit)
	s.nodes()
	s.definitions()
	if s.want.resources {
		s.replicas()
	}
	s.pools()
	if s.want.reports && s.ErrorReports != nil {
		kept, _ := s.ErrorReports()
		s.family("linstor_error_reports_count", gauge, "Reports of faults of the software that are kept.")
		s.count(int64(kept))
		s.count(int64(kept), "hostname", "Controller", "module", "CONTROLLER")
	}
}

func (s *scrape) nodes() {
	s.family("linstor_node_state", gauge, legend(nodeStates()))
	for n := range schema.Nodes.All(s.view) {
		key := n.Name.Key()
		s.deleting(n.Deleting, kindNode, n.UUID, time.Time{})
		s.count(connection(&n, s.Observed.Node(key).Connection), s.nodeLabels(&n)...)
	}
	s.family("linstor_node_flag", gauge, "1 for a flag that the node has, 0 for one that it does not have.")
	for n := range schema.Nodes.All(s.view) {
		labels := s.nodeLabels(&n)
		for _, f := range []struct {
			name string
			set  bool
		}{{"DELETE", n.Deleting}, {"EVICTED", n.Evicted}, {"EVACUATE", n.Evacuating}} {
			s.count(truth(f.set), append(labels, "flag", f.name)...)
		}
	}
}

func truth(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// nodeLabels are the labels of a node: its name, its type, and where it is reached.
func (s *scrape) nodeLabels(n *schema.Node) []string {
	labels := []string{"node", string(n.Name), "nodetype", strings.ToUpper(string(n.Type))}
	for i := range schema.InterfacesOf(s.view, n.Name.Key()) {
		if !i.Active {
			continue
		}
		labels = append(labels, "address", i.Address, "encryption", i.Encryption)
		if i.Port != 0 {
			labels = append(labels, "port", strconv.Itoa(int(i.Port)))
		}
	}
	return labels
}

// definitions reads all definitions with what hangs on them and writes their families.
func (s *scrape) definitions() {
	s.family("linstor_resource_definition_count", gauge, "Resource definitions.")
	s.count(int64(schema.Definitions.Len(s.view)))
	s.read()
	if s.want.resources {
		s.family("linstor_resource_definition_resource_count", gauge, "Replicas of each resource definition.")
		s.states(&s.found.counts)
	}
	s.family("linstor_volume_definition_size_bytes", gauge, "Usable size of each volume definition.")
	s.sizes(&s.found.volumeDefinitions)
}

// replicas writes the families of replicas and volumes.
func (s *scrape) replicas() {
	s.family("linstor_resource_state", gauge, legend(useStates()))
	s.states(&s.found.replicas)
	s.family("linstor_volume_state", gauge, legend(diskStates()))
	s.states(&s.found.volumes)
	s.family("linstor_volume_allocated_size_bytes", gauge, "Space that each volume takes in its pool.")
	s.sizes(&s.found.volumes)
}

// pools reads all pools and writes LINSTOR's families of them.
func (s *scrape) pools() {
	if !s.want.pools {
		return
	}
	for p := range schema.Pools.All(s.view) {
		s.readPool(&p)
	}
	s.family("linstor_storage_pool_capacity_free_bytes", gauge, "Space that is free in each storage pool.")
	s.sizes(&s.found.free)
	s.family("linstor_storage_pool_capacity_total_bytes", gauge, "Size of each storage pool.")
	s.sizes(&s.found.total)
	s.family("linstor_storage_pool_error_count", gauge, "Reasons why each storage pool cannot be used now.")
	s.sizes(&s.found.faults)
}

func (s *scrape) poolLabels(p *schema.Pool) []string {
	return []string{
		"storage_pool", string(p.Name), "node", s.node(p.Node), "driver", string(p.Provider), "backing_pool", backing(p.Props),
	}
}

// backing is what a pool lies on: clients have named it by several keys.
func backing(p model.Props) string {
	for _, key := range []string{
		"StorDriver/StorPoolName", "StorDriver/LvmVg", "StorDriver/ThinPool", "StorDriver/ZPool", "StorDriver/ZPoolThin", "StorDriver/FileDir",
	} {
		if v, ok := p.Get(key); ok {
			return v
		}
	}
	return ""
}
