// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package catalog_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-storage/holdfast/internal/catalog"
	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/kv/kvtest"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// shelf is a catalog on a database in memory.
type shelf struct {
	*catalog.Catalog
	t *testing.T
}

func open(t *testing.T) *shelf {
	t.Helper()
	st, err := store.Open(t.Context(), kvtest.NewMemory(), schema.Collections(), store.Paranoid())
	if err == nil {
		err = schema.Bootstrap(t.Context(), st, "group")
	}
	if err != nil {
		t.Fatal(err)
	}
	var ids atomic.Int64
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	t.Cleanup(func() {
		for _, p := range schema.Check(st.Snapshot()) {
			t.Error(p)
		}
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return &shelf{&catalog.Catalog{
		Store: st, NewID: func() string { return fmt.Sprintf("id-%d", ids.Add(1)) }, Now: func() time.Time { return at },
	}, t}
}

func (s *shelf) group(n catalog.NewGroup) schema.Group {
	s.t.Helper()
	g, err := s.CreateGroup(s.t.Context(), n)
	if err != nil {
		s.t.Fatal(err)
	}
	return g
}

func (s *shelf) define(n catalog.NewDefinition) schema.Definition {
	s.t.Helper()
	d, err := s.CreateDefinition(s.t.Context(), n)
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

// refused fails the test unless err is of a kind, about an attribute, and says something.
func refused(t *testing.T, err error, kind errs.Kind, attr errs.Attr, text string) {
	t.Helper()
	e := errs.As(err)
	if e == nil || e.Kind != kind || e.Attr != attr || !strings.Contains(e.Error(), text) {
		t.Errorf("got the error %v (%+v), want kind %d about attribute %d that says %q", err, e, kind, attr, text)
	}
}

func TestGroupsAreKnownInAnyCaseAndShownAsTheyWereCreated(t *testing.T) {
	s := open(t)
	s.group(catalog.NewGroup{Name: "Gold", Description: "d", Props: map[string]string{"Aux/a": "1"}})
	_, err := s.CreateGroup(t.Context(), catalog.NewGroup{Name: "GOLD"})
	refused(t, err, errs.Exists, errs.NoAttr, "resource group Gold exists already")
	_, err = s.CreateDefinition(t.Context(), catalog.NewDefinition{Name: "Vol", Group: "Silver"})
	refused(t, err, errs.NotFound, errs.NoAttr, "resource group Silver does not exist")
	if d := s.define(catalog.NewDefinition{Name: "Vol", Group: "gOLD"}); d.Group != "gold" {
		t.Errorf("the definition is in group %s", d.Group)
	}
	err = s.DeleteGroup(t.Context(), "gold")
	refused(t, err, errs.HasChildren, errs.NoAttr, "resource group Gold cannot be deleted: 1 of its resource definitions still exist: Vol")
}

func TestAChangeOfAGroupChangesWhatItNames(t *testing.T) {
	s := open(t)
	s.group(catalog.NewGroup{Name: "grp", Description: "d", PeerSlots: 3, Filter: model.Filter{
		PlaceCount: new(int32(2)), Pools: []string{"a"}, Nodes: []string{"n"},
	}})
	for _, ch := range []catalog.GroupChange{
		{Filter: &model.Filter{Pools: []string{}, ReplicasOnSame: []string{"Aux/zone"}}},
		{Description: new("e"), Props: model.PropsChange{Set: map[string]string{"Aux/x": "y"}}},
		{},
	} {
		if _, err := s.ModifyGroup(t.Context(), "GRP", ch); err != nil {
			t.Fatal(err)
		}
	}
	g, _ := schema.Groups.Get(s.Store.Snapshot(), "grp")
	got := fmt.Sprintln(g.Description, *g.Filter.PlaceCount, g.Filter.Pools != nil, g.Filter.Pools, g.Filter.Nodes, g.Filter.ReplicasOnSame, g.PeerSlots)
	if want := "e 2 true [] [n] [Aux/zone] 3\n"; got != want {
		t.Errorf("the group is %s, want %s", got, want)
	}
	_, err := s.ModifyGroup(t.Context(), "nope", catalog.GroupChange{})
	refused(t, err, errs.NotFound, errs.NoAttr, "resource group nope does not exist")
}

func TestGroupsRefuseWhatNoPlacementCanUse(t *testing.T) {
	s := open(t)
	for _, c := range []struct {
		n    catalog.NewGroup
		attr errs.Attr
		text string
	}{
		{catalog.NewGroup{Name: "x"}, errs.Name, "2 to 48"},
		{catalog.NewGroup{Name: "1abc"}, errs.Name, "1abc"},
		{catalog.NewGroup{Name: "grp", PeerSlots: 32}, errs.PeerSlots, "32 peer slots are not possible"},
		{catalog.NewGroup{Name: "grp", Props: map[string]string{"Nope": "1"}}, errs.Property, "Nope"},
		{catalog.NewGroup{Name: "grp", Filter: model.Filter{PlaceCount: new(int32(-1))}}, errs.PlaceCount, "the place count -1 is not possible"},
		{catalog.NewGroup{Name: "grp", Filter: model.Filter{AdditionalPlaceCount: new(int32(-1))}}, errs.PlaceCount, "additional place count -1"},
		{catalog.NewGroup{Name: "grp", Filter: model.Filter{Layers: []string{"TAPE"}}}, errs.LayerKind, "TAPE"},
		{catalog.NewGroup{Name: "grp", Filter: model.Filter{Providers: []string{"TAPE"}}}, errs.Provider, "TAPE"},
		{catalog.NewGroup{Name: "grp", Filter: model.Filter{NotPlaceWithRegex: new("a(")}}, errs.Body, `the expression "a("`},
	} {
		_, err := s.CreateGroup(t.Context(), c.n)
		refused(t, err, errs.Invalid, c.attr, c.text)
	}
	if n := schema.Groups.Len(s.Store.Snapshot()); n != 1 {
		t.Errorf("there are %d groups, want the default one", n)
	}
}

func TestTheDefaultGroupStays(t *testing.T) {
	s := open(t)
	refused(t, s.DeleteGroup(t.Context(), "DFLTRSCGRP"), errs.Protected, errs.NoAttr, "resource group DfltRscGrp cannot be deleted")
	if d := s.define(catalog.NewDefinition{Name: "vol"}); d.Group != schema.DefaultGroup.Key() {
		t.Errorf("a definition without a group is in %s", d.Group)
	}
	s.group(catalog.NewGroup{Name: "grp"})
	for _, group := range []string{"grp", ""} {
		if _, err := s.ModifyDefinition(t.Context(), "vol", catalog.DefinitionChange{Group: &group}); err != nil {
			t.Fatal(err)
		}
	}
	if d, _ := schema.Definitions.Get(s.Store.Snapshot(), "vol"); d.Group != schema.DefaultGroup.Key() {
		t.Errorf("a definition that was moved to no group is in %s", d.Group)
	}
}

func TestVolumeGroupsAreNumbered(t *testing.T) {
	s := open(t)
	s.group(catalog.NewGroup{Name: "grp"})
	add := func(n catalog.NewVolumeGroup) (model.VolumeNumber, error) {
		v, err := s.CreateVolumeGroup(t.Context(), "grp", n)
		return v.Number, err
	}
	var numbers []model.VolumeNumber
	for _, asked := range []*int32{nil, new(int32(5)), nil, new(int32(1))} {
		n, err := add(catalog.NewVolumeGroup{Number: asked})
		if err != nil {
			refused(t, err, errs.Exists, errs.NoAttr, "volume group 1 of grp exists already")
			continue
		}
		numbers = append(numbers, n)
	}
	if got := fmt.Sprint(numbers); got != "[0 5 1]" {
		t.Errorf("numbers %s", got)
	}
	_, err := add(catalog.NewVolumeGroup{Number: new(int32(-1))})
	refused(t, err, errs.Invalid, errs.VolumeNumber, "the volume number -1 is not possible")
	_, err = add(catalog.NewVolumeGroup{Flags: []string{"SHINY"}})
	refused(t, err, errs.Invalid, errs.Flag, `the flag "SHINY" is not known`)
	for range catalog.MaxVolumes - 3 {
		if _, err := add(catalog.NewVolumeGroup{}); err != nil {
			t.Fatal(err)
		}
	}
	_, err = add(catalog.NewVolumeGroup{})
	refused(t, err, errs.Exhausted, errs.VolumeNumber, "resource group grp takes no more volume groups: it has 64")
	if err := s.DeleteGroup(t.Context(), "grp"); err != nil {
		t.Errorf("the largest group cannot be deleted: %v", err)
	}
}

func TestFlagsAreSetAndCleared(t *testing.T) {
	s := open(t)
	s.group(catalog.NewGroup{Name: "grp"})
	if _, err := s.CreateVolumeGroup(t.Context(), "grp", catalog.NewVolumeGroup{Flags: []string{"encrypted"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ModifyVolumeGroup(t.Context(), "grp", 0, model.PropsChange{}, []string{"GROSS_SIZE", "-ENCRYPTED", "-ENCRYPTED", "GROSS_SIZE"}); err != nil {
		t.Fatal(err)
	}
	v, _ := schema.VolumeGroups.Get(s.Store.Snapshot(), model.VolumeGroupID{Group: "grp"})
	if got := fmt.Sprint(v.Flags); got != "[GROSS_SIZE]" {
		t.Errorf("flags %s", got)
	}
	_, err := s.ModifyVolumeGroup(t.Context(), "grp", 7, model.PropsChange{}, nil)
	refused(t, err, errs.NotFound, errs.NoAttr, "resource group grp has no volume group 7")
	refused(t, s.DeleteVolumeGroup(t.Context(), "grp", 7), errs.NotFound, errs.NoAttr, "resource group grp has no volume group 7")
	if err := s.DeleteVolumeGroup(t.Context(), "grp", 0); err != nil {
		t.Error(err)
	}
}

func TestNamesAreMadeOfExternalNames(t *testing.T) {
	s := open(t)
	long := strings.Repeat("ü", 60)
	for external, want := range map[string]string{
		"pvc-1": "pvc-1", "a b": "a_b", "7": "R_7", "ü": "R__", long: strings.Repeat("_", 38),
	} {
		d, err := s.CreateDefinition(t.Context(), catalog.NewDefinition{ExternalName: external})
		if err != nil {
			t.Errorf("%q: %v", external, err)
			continue
		}
		if _, err := model.ParseDefinitionName(string(d.Name)); err != nil || external != long && string(d.Name) != want {
			t.Errorf("%q became %q, want %q (%v)", external, d.Name, want, err)
		}
	}
	_, err := s.CreateDefinition(t.Context(), catalog.NewDefinition{Name: "other", ExternalName: "a b"})
	refused(t, err, errs.Exists, errs.ExternalName, "resource definition a_b has it")
	_, err = s.CreateDefinition(t.Context(), catalog.NewDefinition{})
	refused(t, err, errs.Invalid, errs.Name, "")
}

func TestDefinitionsRefuseWhatCannotBe(t *testing.T) {
	s := open(t)
	for _, c := range []struct {
		n    catalog.NewDefinition
		attr errs.Attr
	}{
		{catalog.NewDefinition{Name: "vol", Port: 65536}, errs.Port},
		{catalog.NewDefinition{Name: "vol", Port: -1}, errs.Port},
		{catalog.NewDefinition{Name: "vol", PeerSlots: -1}, errs.PeerSlots},
		{catalog.NewDefinition{Name: "vol", Layers: []string{"STORAGE", "DRBD"}}, errs.LayerStack},
		{catalog.NewDefinition{Name: "vol", Layers: []string{"NVME"}}, errs.LayerKind},
		{catalog.NewDefinition{Name: "vol", Props: map[string]string{"DrbdOptions/Net/protocol": "Z"}}, errs.Property},
	} {
		_, err := s.CreateDefinition(t.Context(), c.n)
		refused(t, err, errs.Invalid, c.attr, "")
	}
	s.define(catalog.NewDefinition{Name: "vol"})
	for _, ch := range []catalog.DefinitionChange{{Port: new(int32(70000))}, {PeerSlots: new(int32(99))}, {Layers: []string{"X"}}} {
		if _, err := s.ModifyDefinition(t.Context(), "vol", ch); !errs.Is(err, errs.Invalid) {
			t.Errorf("%+v: %v", ch, err)
		}
	}
	_, err := s.ModifyDefinition(t.Context(), "vol", catalog.DefinitionChange{Group: new("Nope")})
	refused(t, err, errs.NotFound, errs.NoAttr, "resource group Nope does not exist")
}

func TestNothingOfAChangeIsMadeWhenOnePartIsWrong(t *testing.T) {
	s := open(t)
	s.define(catalog.NewDefinition{Name: "vol", Props: map[string]string{"Aux/a": "1"}})
	_, err := s.ModifyDefinition(t.Context(), "vol", catalog.DefinitionChange{
		Port: new(int32(7000)), Props: model.PropsChange{Set: map[string]string{"Aux/a": "2", "DrbdOptions/auto-quorum": "maybe"}},
	})
	refused(t, err, errs.Invalid, errs.Property, "DrbdOptions/auto-quorum")
	d, _ := schema.Definitions.Get(s.Store.Snapshot(), "vol")
	if a, _ := d.Props.Get("Aux/a"); a != "1" || d.Port != 0 {
		t.Errorf("the definition has Aux/a=%s and port %d", a, d.Port)
	}
}

func TestEditsOfDifferentPropertiesByManyClientsAllSurvive(t *testing.T) {
	s := open(t)
	s.define(catalog.NewDefinition{Name: "vol"})
	const clients = 32
	failed := make(chan error, clients)
	for i := range clients {
		go func() {
			_, err := s.ModifyDefinition(t.Context(), "vol", catalog.DefinitionChange{
				Props: model.PropsChange{Set: map[string]string{fmt.Sprintf("Aux/k%d", i): fmt.Sprint(i)}},
			})
			failed <- err
		}()
	}
	var all error
	for range clients {
		all = errors.Join(all, <-failed)
	}
	if d, _ := schema.Definitions.Get(s.Store.Snapshot(), "vol"); all != nil || d.Props.Len() != clients {
		t.Errorf("%d properties of %d are there: %v", d.Props.Len(), clients, all)
	}
}

func TestAKeyValueStoreLivesAsLongAsItsKeys(t *testing.T) {
	s := open(t)
	modify := func(ch model.PropsChange) {
		t.Helper()
		if _, err := s.ModifyInstance(t.Context(), "Keys", ch); err != nil {
			t.Fatal(err)
		}
	}
	exists := func() bool {
		_, ok := schema.KeyValues.Get(s.Store.Snapshot(), "keys")
		return ok
	}
	modify(model.PropsChange{Delete: []string{"a"}})
	if exists() {
		t.Error("a store without keys is there")
	}
	modify(model.PropsChange{Set: map[string]string{"a": "1", "ns/b": "2"}})
	modify(model.PropsChange{DeleteNamespaces: []string{"ns"}})
	if !exists() {
		t.Error("a store with a key is not there")
	}
	modify(model.PropsChange{Delete: []string{"a"}})
	if exists() {
		t.Error("a store outlived its last key")
	}
	refused(t, s.DeleteInstance(t.Context(), "Keys"), errs.NotFound, errs.NoAttr, "key-value store Keys does not exist")
	_, err := s.ModifyInstance(t.Context(), "a/b", model.PropsChange{Set: map[string]string{"a": "1"}})
	refused(t, err, errs.Invalid, errs.Name, "a/b")
}

// volumes adds volume definitions to a definition in one transaction.
func (s *shelf) volumes(name string, list ...catalog.NewVolume) (made []schema.VolumeDefinition, err error) {
	s.t.Helper()
	_, err = schema.Update(s.t.Context(), s.Store, func(tx *store.Tx) error {
		made = nil
		d, err := schema.FindDefinition(tx, name)
		if err != nil {
			return err
		}
		for _, n := range list {
			v, err := catalog.AddVolume(tx, &d, n)
			if err != nil {
				return err
			}
			made = append(made, v)
		}
		return nil
	})
	return made, err
}

func TestVolumesTakeTheLowestFreeNumber(t *testing.T) {
	s := open(t)
	if _, err := s.CreateDefinition(t.Context(), catalog.NewDefinition{Name: "vol"}); err != nil {
		t.Fatal(err)
	}
	const mib = 1 << 20
	made, err := s.volumes("VOL", catalog.NewVolume{Size: mib, Number: new(int32(1))}, catalog.NewVolume{Size: mib}, catalog.NewVolume{Size: mib, Flags: []string{"GROSS_SIZE"}})
	if err != nil {
		t.Fatal(err)
	}
	var numbers []model.VolumeNumber
	for _, v := range made {
		numbers = append(numbers, v.Number)
	}
	if fmt.Sprint(numbers) != "[1 0 2]" || fmt.Sprint(made[2].Flags) != "[GROSS_SIZE]" {
		t.Errorf("numbers %v, flags %v", numbers, made[2].Flags)
	}
	for name, x := range map[string]struct {
		n    catalog.NewVolume
		kind errs.Kind
		attr errs.Attr
	}{
		"a number that is taken": {catalog.NewVolume{Size: mib, Number: new(int32(2))}, errs.Exists, errs.NoAttr},
		"a negative number":      {catalog.NewVolume{Size: mib, Number: new(int32(-1))}, errs.Invalid, errs.VolumeNumber},
		"no size":                {catalog.NewVolume{}, errs.Invalid, errs.VolumeSize},
		"a negative size":        {catalog.NewVolume{Size: -1}, errs.Invalid, errs.VolumeSize},
		"an unknown flag":        {catalog.NewVolume{Size: mib, Flags: []string{"FAST"}}, errs.Invalid, errs.Flag},
	} {
		_, err := s.volumes("vol", x.n)
		if e := errs.As(err); e == nil || e.Kind != x.kind || e.Attr != x.attr {
			t.Errorf("%s: %v", name, err)
		}
	}
	var all []catalog.NewVolume
	for range catalog.MaxVolumes - 3 {
		all = append(all, catalog.NewVolume{Size: mib})
	}
	if _, err := s.volumes("vol", all...); err != nil {
		t.Fatal(err)
	}
	_, err = s.volumes("vol", catalog.NewVolume{Size: mib})
	if e := errs.As(err); e == nil || e.Kind != errs.Exhausted {
		t.Errorf("one more than the most: %v", err)
	}
}

func TestFlagsOfAVolumeAreEdited(t *testing.T) {
	v := schema.VolumeDefinition{Flags: []string{"ENCRYPTED"}}
	if err := catalog.ChangeFlags(&v, []string{"GROSS_SIZE", "-ENCRYPTED"}); err != nil || fmt.Sprint(v.Flags) != "[GROSS_SIZE]" {
		t.Errorf("flags %v, %v", v.Flags, err)
	}
	if err := catalog.ChangeFlags(&v, []string{"-NOPE"}); !errs.Is(err, errs.Invalid) || fmt.Sprint(v.Flags) != "[GROSS_SIZE]" {
		t.Errorf("flags %v, %v", v.Flags, err)
	}
}

// A raised place count begins a job where there are replicas to go by, and only there.
func TestARaisedPlaceCountBeginsAJobForWhatIsDeployed(t *testing.T) {
	s := open(t)
	s.group(catalog.NewGroup{Name: "grp", Filter: model.Filter{PlaceCount: new(int32(1))}})
	if _, err := s.CreateDefinition(t.Context(), catalog.NewDefinition{Name: "vol", Group: "grp", Layers: []string{"DRBD", "STORAGE"}}); err != nil {
		t.Fatal(err)
	}
	to := func(n int32) (jobs int) {
		t.Helper()
		if _, err := s.ModifyGroup(t.Context(), "GRP", catalog.GroupChange{Filter: &model.Filter{PlaceCount: &n}}); err != nil {
			t.Fatal(err)
		}
		return schema.Jobs.Len(s.Store.Snapshot())
	}
	if n := to(2); n != 0 {
		t.Errorf("%d jobs for a group without replicas", n)
	}
	_, err := schema.Update(t.Context(), s.Store, func(tx *store.Tx) error {
		if err := schema.Nodes.Insert(tx, schema.Node{Name: "n1", Type: model.SatelliteNode}); err != nil {
			return err
		}
		if err := schema.Pools.Insert(tx, schema.Pool{Node: "n1", Name: schema.DisklessPool, Provider: model.Diskless}); err != nil {
			return err
		}
		return schema.Resources.Insert(tx, schema.Resource{
			Definition: "vol", Node: "n1", Kind: schema.Diskful, NodeID: new(int32), Ports: []int32{7000},
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := to(1); n != 0 {
		t.Errorf("%d jobs for a lowered count", n)
	}
	if n := to(3); n != 1 {
		t.Errorf("%d jobs for a raised count", n)
	}
	if n := to(4); n != 1 {
		t.Errorf("%d jobs for a count that was raised again", n)
	}
	if err := s.DeleteGroup(t.Context(), "grp"); !errs.Is(err, errs.HasChildren) {
		t.Errorf("a group with definitions was deleted: %v", err)
	}
}
