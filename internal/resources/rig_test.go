// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package resources_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent/fakeagent"
	"github.com/holdfast-storage/holdfast/internal/catalog"
	"github.com/holdfast-storage/holdfast/internal/converge"
	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/inventory"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/resources"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
	"github.com/holdfast-storage/holdfast/test/cluster"
)

const (
	mib = int64(1) << 20
	gib = int64(1) << 30
	tib = int64(1) << 40
)

// rig is a cluster whose database is looked through at the end of the test.
type rig struct {
	*cluster.Cluster
	t *testing.T
}

func start(t *testing.T, o cluster.Options) *rig {
	t.Helper()
	o.Settings, o.WithoutLoops = append(o.Settings, store.Paranoid()), true
	r := &rig{Cluster: cluster.Start(t, o), t: t}
	t.Cleanup(r.Check)
	return r
}

// lead runs the leader's loops until the test ends, or the answer is called.
func (r *rig) lead() (stop func()) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	loops := converge.New(converge.Config{
		Store: r.Store, Observed: r.Observed, Worker: r.Resources, RetryFirst: 10 * time.Millisecond, RetryMost: 50 * time.Millisecond,
	})
	go func() { ended <- loops.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			r.t.Errorf("the loops ended with %v", err)
		}
	})
	r.t.Cleanup(stop)
	return stop
}

// job is the newest job of a kind about an object.
func (r *rig) job(kind schema.JobKind, object string) schema.Job {
	var newest schema.Job
	for j := range schema.Jobs.All(r.Store.Snapshot()) {
		if j.Kind == kind && j.Object == object && !j.Created.Before(newest.Created) {
			newest = j
		}
	}
	return newest
}

// ended waits until the newest job of a kind about an object is in a state.
func (r *rig) ended(kind schema.JobKind, object string, state schema.JobState) schema.Job {
	r.t.Helper()
	r.Until(func() bool { return r.job(kind, object).State == state })
	return r.job(kind, object)
}

// withoutDRBD makes agents that can run plain storage only.
func withoutDRBD(a *fakeagent.Agent) { a.Layers = []model.Layer{model.Storage} }

// count is a filter with a place count.
func count(n int32) model.Filter { return model.Filter{PlaceCount: &n} }

// group creates a group with a filter.
func (r *rig) group(name string, f model.Filter) {
	r.t.Helper()
	if _, err := r.Catalog.CreateGroup(r.t.Context(), catalog.NewGroup{Name: name, Filter: f}); err != nil {
		r.t.Fatal(err)
	}
}

// definition creates a definition in the default group, with volumes of the given sizes.
func (r *rig) definition(name string, sizes ...int64) {
	r.t.Helper()
	if _, err := r.Catalog.CreateDefinition(r.t.Context(), catalog.NewDefinition{Name: name}); err != nil {
		r.t.Fatal(err)
	}
	for _, size := range sizes {
		if _, _, err := r.Resources.CreateVolumeDefinition(r.t.Context(), name, catalog.NewVolume{Size: size}); err != nil {
			r.t.Fatal(err)
		}
	}
}

// on asks for a replica with a disk on each of the nodes.
func on(nodes ...string) []resources.NewResource {
	var list []resources.NewResource
	for _, n := range nodes {
		list = append(list, resources.NewResource{
			Node: n, Kind: schema.Diskful, Props: map[string]string{"StorPoolName": cluster.Pool},
		})
	}
	return list
}

// create creates replicas.
func (r *rig) create(name string, list ...resources.NewResource) resources.Created {
	r.t.Helper()
	made, err := r.Resources.Create(r.t.Context(), name, list)
	if err != nil {
		r.t.Fatal(err)
	}
	return made
}

// spawn spawns a definition with one volume.
func (r *rig) spawn(group, name string, size int64) resources.Spawned {
	r.t.Helper()
	made, err := r.Resources.Spawn(r.t.Context(), group, resources.NewSpawn{Name: name, Sizes: []int64{size}})
	if err != nil {
		r.t.Fatal(err)
	}
	return made
}

// replicas tells where a definition has its replicas: "n1 diskful, n3 client".
func (r *rig) replicas(name string) string {
	var list []string
	for x := range schema.ResourcesOf(r.Store.Snapshot(), model.DefinitionName(name).Key()) {
		text := fmt.Sprintf("%s %s", x.Node, x.Kind)
		if x.Deleting {
			text += " deleting"
		}
		list = append(list, text)
	}
	return strings.Join(list, ", ")
}

// hosts tells which hosts hold a volume of a definition, and how large: "n1/0 4 MiB".
func (r *rig) hosts(name string) string {
	var list []string
	for node, a := range r.Agents {
		for _, v := range a.Volumes() {
			if v.Resource == string(model.DefinitionName(name).Key()) {
				list = append(list, fmt.Sprintf("%s/%d %s", node, v.Number, model.FormatSize(v.Size)))
			}
		}
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// promised is what was promised in the pool of a node.
func (r *rig) promised(node model.NodeKey) int64 {
	return schema.Promised.Of(r.Store.Snapshot(), model.PoolID{Node: node, Pool: cluster.Pool})
}

// row is the replica of a definition on a node.
func (r *rig) row(name string, node model.NodeKey) schema.Resource {
	r.t.Helper()
	x, ok := schema.Resources.Get(r.Store.Snapshot(), model.ResourceID{Definition: model.DefinitionName(name).Key(), Node: node})
	if !ok {
		r.t.Fatalf("there is no %s on node %s", name, node)
	}
	return x
}

// same fails the test when a text is not as it should be.
func same(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\n got  %s\n want %s", what, got, want)
	}
}

// refused fails the test unless err is of a kind, and its whole text has all of the parts.
func refused(t *testing.T, err error, kind errs.Kind, parts ...string) {
	t.Helper()
	e := errs.As(err)
	if e == nil || e.Kind != kind {
		t.Errorf("got the error %v, want one of kind %d", err, kind)
		return
	}
	for _, part := range parts {
		if text := e.Error() + "\n" + e.Details; !strings.Contains(text, part) {
			t.Errorf("the error does not say %q:\n%s", part, text)
		}
	}
}

// noted fails the test unless there is a notice of a kind with a text in it.
func noted(t *testing.T, notices []errs.Notice, kind errs.NoticeKind, text string) {
	t.Helper()
	if !slices.ContainsFunc(notices, func(n errs.Notice) bool { return n.Kind == kind && strings.Contains(n.Message, text) }) {
		t.Errorf("no notice of kind %d says %q: %+v", kind, text, notices)
	}
}

// settings sets properties of the cluster.
func (r *rig) settings(props map[string]string) {
	r.t.Helper()
	if _, err := r.Inventory.ModifySettings(r.t.Context(), model.PropsChange{Set: props}); err != nil {
		r.t.Fatal(err)
	}
}

// nodeProps sets properties of a node.
func (r *rig) nodeProps(node string, props map[string]string) {
	r.t.Helper()
	if _, err := r.Inventory.ModifyNode(r.t.Context(), node, inventory.NodeChange{Props: model.PropsChange{Set: props}}); err != nil {
		r.t.Fatal(err)
	}
}
