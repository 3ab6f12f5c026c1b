// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package resources_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/catalog"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/resources"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/test/cluster"
)

// beginnings tells how the replicas of a definition begin: the nodes with what their volumes do, and
// the same letter for the same generation.
func (r *rig) beginnings(name string) string {
	view := r.Store.Snapshot()
	letters := map[string]string{}
	var list []string
	for x := range schema.ResourcesOf(view, model.DefinitionName(name).Key()) {
		b, ok := schema.Beginnings.Get(view, x.ID())
		if !ok {
			continue
		}
		text := string(x.Node)
		for _, f := range b.Volumes {
			text += fmt.Sprintf(" %d", f.Number)
			if f.Generation != "" {
				if letters[f.Generation] == "" {
					letters[f.Generation] = string(rune('a' + len(letters)))
				}
				text += letters[f.Generation]
			}
			if f.Starts {
				text += "!"
			}
		}
		list = append(list, text)
	}
	return strings.Join(list, ", ")
}

// finish takes note of what the nodes have said of a definition.
func (r *rig) finish(name string) {
	r.t.Helper()
	var ids []model.ResourceID
	for x := range schema.ResourcesOf(r.Store.Snapshot(), model.DefinitionName(name).Key()) {
		ids = append(ids, x.ID())
	}
	if err := r.Resources.Finish(r.t.Context(), ids...); err != nil {
		r.t.Fatal(err)
	}
}

func TestReplicasOfOneCallBeginEqualAndOneStarts(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 3})
	r.definition("vol", gib, gib)
	r.create("vol", on("n1", "n2")...)
	same(t, "at first", r.beginnings("vol"), "n1 0a! 1b!, n2 0a 1b")
	r.finish("vol")
	same(t, "once they are ready", r.beginnings("vol"), "")
	r.create("vol", on("n3")...)
	same(t, "one that comes later is filled", r.beginnings("vol"), "")
	if _, _, err := r.Resources.CreateVolumeDefinition(t.Context(), "vol", catalog.NewVolume{Size: gib}); err != nil {
		t.Fatal(err)
	}
	same(t, "a new volume", r.beginnings("vol"), "n1 2a!, n2 2a, n3 2a")
}

func TestAReplicaThatComesBeforeTheOthersAreReadyIsFilled(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 2})
	r.definition("vol", gib)
	r.create("vol", on("n1")...)
	r.create("vol", on("n2")...) // Between the two calls someone may have written.
	same(t, "it", r.beginnings("vol"), "n1 0a!")
}

func TestDisksThatAreNotEmptyDiffer(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 2, Provider: model.LVM})
	r.definition("vol", gib)
	r.create("vol", on("n1", "n2")...)
	same(t, "thick ones", r.beginnings("vol"), "n1 0!")
}

func TestAnotherReplicaStartsWhatOneThatWentHasNotStarted(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 2})
	r.definition("vol", gib)
	r.create("vol", on("n1", "n2")...)
	if _, err := r.Resources.Delete(t.Context(), "vol", "n1"); err != nil {
		t.Fatal(err)
	}
	same(t, "the other one", r.beginnings("vol"), "n2 0a!")
}

func TestADiskOfWhichNothingIsKnownIsEqualToNoOther(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 2})
	r.definition("vol", gib)
	r.create("vol", on("n1", "n2")...)
	r.Agents["n2"].FailApplies("vol", -1, nil)
	_, _ = r.Resources.Delete(t.Context(), "vol", "n2")
	r.Agents["n2"].FailApplies("vol", 0, nil)
	r.create("vol", on("n2")...)
	same(t, "it was being destroyed", r.beginnings("vol"), "n1 0a!")
}

func TestAReplicaWithoutADiskBeginsNothing(t *testing.T) {
	r := start(t, cluster.Options{Nodes: 2})
	r.definition("vol", gib)
	r.create("vol", on("n1")...)
	r.create("vol", resources.NewResource{Node: "n2", Kind: schema.Client})
	same(t, "a client", r.beginnings("vol"), "n1 0a!")
	r.finish("vol")
	if _, err := r.Resources.AddDisk(t.Context(), "vol", "n2", resources.DiskChange{Pool: cluster.Pool}); err != nil {
		t.Fatal(err)
	}
	same(t, "one that gets a disk", r.beginnings("vol"), "")
}
