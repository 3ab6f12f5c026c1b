// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package snapshots_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/agent/fakeagent"
	"github.com/holdfast-storage/holdfast/internal/catalog"
	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/resources"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/snapshots"
	"github.com/holdfast-storage/holdfast/internal/store"
	"github.com/holdfast-storage/holdfast/test/cluster"
)

const (
	mib = int64(1) << 20
	gib = int64(1) << 30
)

// rig is a cluster whose database is looked through at the end of the test.
type rig struct {
	*cluster.Cluster
	t     *testing.T
	alive context.Context // ends when the controller is killed: nobody who asked it gets an answer then
	dies  context.CancelFunc
}

func start(t *testing.T, o cluster.Options) *rig {
	t.Helper()
	o.Settings = append(o.Settings, store.Paranoid())
	alive, dies := context.WithCancel(t.Context())
	t.Cleanup(dies)
	r := &rig{Cluster: cluster.Start(t, o), t: t, alive: alive, dies: dies}
	t.Cleanup(r.Check)
	return r
}

// plain is a cluster of nodes that can run plain storage only.
func plain(t *testing.T, nodes int) *rig {
	t.Helper()
	return start(t, cluster.Options{Nodes: nodes, Agent: func(a *fakeagent.Agent) { a.Layers = []model.Layer{model.Storage} }})
}

// replicated is a cluster of nodes that can replicate.
func replicated(t *testing.T, nodes int) *rig {
	t.Helper()
	return start(t, cluster.Options{Nodes: nodes})
}

// resource makes a definition with volumes of these sizes, and replicas with a disk on nodes.
func (r *rig) resource(name string, sizes []int64, nodes ...string) {
	r.t.Helper()
	r.definition(name)
	for _, size := range sizes {
		if _, _, err := r.Resources.CreateVolumeDefinition(r.t.Context(), name, catalog.NewVolume{Size: size}); err != nil {
			r.t.Fatal(err)
		}
	}
	var list []resources.NewResource
	for _, n := range nodes {
		list = append(list, resources.NewResource{Node: n, Kind: schema.Diskful, Props: map[string]string{"StorPoolName": cluster.Pool}})
	}
	if _, err := r.Resources.Create(r.t.Context(), name, list); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) definition(name string) {
	r.t.Helper()
	if _, err := r.Catalog.CreateDefinition(r.t.Context(), catalog.NewDefinition{Name: name}); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) put(node, resource, content string) {
	r.t.Helper()
	if err := r.Agents[node].Put(resource, 0, content); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) holds(node, resource, content string) {
	r.t.Helper()
	if got := r.Agents[node].Content(resource, 0); got != content {
		r.t.Errorf("resource %s on node %s holds %q, not %q", resource, node, got, content)
	}
}

// take takes a snapshot.
func (r *rig) take(definition, name string, nodes ...string) schema.Snapshot {
	r.t.Helper()
	made, _, err := r.Snapshots.Create(r.t.Context(), []snapshots.New{{Definition: definition, Name: name, Nodes: nodes}})
	if err != nil {
		r.t.Fatal(err)
	}
	return made[0]
}

// parts tells where a definition has its snapshots: "s1 taken: n1 taken, n2 taken; s2 ...".
func (r *rig) parts(definition string) string {
	view := r.Store.Snapshot()
	var list []string
	for sn := range schema.SnapshotsOf(view, model.DefinitionName(definition).Key()) {
		name := string(sn.Name)
		if sn.Hidden {
			name = "hidden"
		}
		text := fmt.Sprintf("%s %s:", name, sn.State)
		if sn.Deleting {
			text = fmt.Sprintf("%s deleting:", name)
		}
		var parts []string
		for p := range schema.SnapshotReplicasOf(view, sn.ID()) {
			state := string(p.State)
			if p.Deleting {
				state = "deleting"
			}
			parts = append(parts, fmt.Sprintf("%s %s", p.Node, state))
		}
		list = append(list, strings.TrimSuffix(text+" "+strings.Join(parts, ", "), ": "))
	}
	return strings.Join(list, "; ")
}

func (r *rig) wantParts(definition, want string) {
	r.t.Helper()
	if got := r.parts(definition); got != want {
		r.t.Errorf("the snapshots of %s are %q, not %q", definition, got, want)
	}
}

// untilParts waits until the snapshots of a definition are so.
func (r *rig) untilParts(definition, want string) {
	r.t.Helper()
	r.Until(func() bool { return r.parts(definition) == want })
}

// left lists what a node's pool holds that nothing assigned explains: parts of snapshots and
// volumes, by resource.
func (r *rig) nothingLeft(node string, resources ...string) {
	r.t.Helper()
	for _, v := range r.Agents[node].Volumes() {
		if slices.Contains(resources, v.Resource) {
			r.t.Errorf("node %s still has %+v", node, v)
		}
	}
}

func (r *rig) refused(err error, kind errs.Kind, about errs.Object) {
	r.t.Helper()
	e := errs.As(err)
	if e == nil || e.Kind != kind || e.Object != about {
		r.t.Errorf("got %+v, want a refusal of kind %d about object %d", err, kind, about)
	}
}
