// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package encode_test

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-storage/holdfast/internal/kv/kvtest"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/rest/encode"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

// same fails the test unless text is exactly what its type of package wire makes of it: no member is misspelt, misplaced,
// missing or too many.
func same[T any](t *rapid.T, text encode.Buffer) T {
	t.Helper()
	text.Trim()
	var v T
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	want, err := wire.Encode(v)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != string(text) {
		t.Fatalf("it is\n%s\nand its type makes\n%s", text, want)
	}
	return v
}

func show[T any](f func(*encode.Buffer, *T), row T) encode.Buffer {
	var b encode.Buffer
	f(&b, &row)
	return b
}

// rows is a definition with its volumes on one node.
type rows struct {
	definition schema.Definition
	volumes    []schema.VolumeDefinition
	resource   schema.Resource
	pool       schema.Pool
	node       schema.Node
}

func (r rows) open(t *rapid.T) *store.Store {
	t.Helper()
	st, err := store.Open(context.Background(), kvtest.NewMemory(), schema.Collections())
	if err != nil {
		t.Fatal(err)
	}
	_, err = st.Update(context.Background(), func(tx *store.Tx) error {
		if err := schema.Groups.Insert(tx, schema.Group{Name: "Group"}); err != nil {
			return err
		}
		if err := schema.Nodes.Insert(tx, r.node); err != nil {
			return err
		}
		if err := schema.Pools.Insert(tx, r.pool); err != nil {
			return err
		}
		if err := schema.Definitions.Insert(tx, r.definition); err != nil {
			return err
		}
		for _, v := range r.volumes {
			if err := schema.VolumeDefinitions.Insert(tx, v); err != nil {
				return err
			}
		}
		return schema.Resources.Insert(tx, r.resource)
	})
	if err != nil {
		t.Fatal(err)
	}
	return st
}

var (
	texts      = rapid.OneOf(rapid.StringN(0, 12, -1), rapid.SampledFrom([]string{"", "True", "\u2028", "\"\\\t<&>", "über"}))
	properties = rapid.Custom(func(t *rapid.T) model.Props {
		keys := rapid.OneOf(rapid.StringN(1, 8, -1), rapid.SampledFrom([]string{"Aux/a", "StorPoolName", "Z", "DrbdOptions/Net/shared-secret"}))
		return model.PropsOf(rapid.MapOfN(keys, texts, 0, 4).Draw(t, "props"))
	})
	stacks = rapid.SampledFrom([][]model.Layer{
		nil, {model.Storage}, {model.DRBD, model.Storage}, {model.LUKS, model.Storage}, {model.DRBD, model.LUKS, model.Storage},
	})
	sizes = rapid.Int64Range(0, 1<<50)
)

func drawRows(t *rapid.T) rows {
	stamp := time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "time"), 0)
	small := rapid.Int32Range(0, 3)
	r := rows{
		node: schema.Node{
			Name: "Node-1", Type: model.SatelliteNode, Evicted: rapid.Bool().Draw(t, "evicted"), Evacuating: rapid.Bool().Draw(t, "evacuating"),
			LeftAt: stamp,
		},
		pool: schema.Pool{Node: "node-1", Name: "Pool", Provider: rapid.SampledFrom(model.Providers()).Draw(t, "provider")},
		definition: schema.Definition{
			Name: "Rd", ExternalName: texts.Draw(t, "external"), UUID: texts.Draw(t, "uuid"), Group: "group", Created: stamp,
			Props: properties.Draw(t, "props"), Layers: stacks.Draw(t, "layers"), PeerSlots: small.Draw(t, "slots"), Port: small.Draw(t, "port"),
			Transport: rapid.SampledFrom([]string{"", "RDMA"}).Draw(t, "transport"),
		},
		resource: schema.Resource{
			Definition: "rd", Node: "node-1", UUID: "u", Created: stamp, Props: properties.Draw(t, "resource props"),
			Kind: rapid.SampledFrom([]schema.ResourceKind{schema.Diskful, schema.Client, schema.TieBreaker}).Draw(t, "kind"),
		},
	}
	if rapid.Bool().Draw(t, "numbered") {
		id := small.Draw(t, "node id")
		r.resource.NodeID, r.resource.Ports = &id, []int32{7000 + id}
	}
	for nr := range model.VolumeNumber(small.Draw(t, "volumes")) {
		vd := schema.VolumeDefinition{
			Definition: "rd", Number: nr, UUID: texts.Draw(t, "uuid"), Size: sizes.Draw(t, "size"), Props: properties.Draw(t, "props"),
			Flags: rapid.SampledFrom([][]string{nil, {"ENCRYPTED"}}).Draw(t, "flags"),
		}
		if rapid.Bool().Draw(t, "minor") {
			minor := 1000 + int32(nr)
			vd.Minor = &minor
		}
		r.volumes = append(r.volumes, vd)
		r.resource.Volumes = append(r.resource.Volumes, schema.Volume{
			Number: nr, UUID: "v", Pool: "pool", Size: sizes.Draw(t, "promised"), Props: properties.Draw(t, "props"),
			Deleting: rapid.Bool().Draw(t, "deleting"),
		})
	}
	return r
}

// drawSeen says something of the resource, now or in a session before, or nothing.
func drawSeen(t *rapid.T, r rows) *observed.State {
	seen := observed.New(time.Now)
	how := rapid.SampledFrom([]string{"never", "offline", "old", "now"}).Draw(t, "seen")
	if how == "never" {
		return seen
	}
	size := func(name string) *int64 {
		if rapid.Bool().Draw(t, name+" known") {
			n := sizes.Draw(t, name)
			return &n
		}
		return nil
	}
	st := observed.ResourceStatus{Phase: observed.Phase(rapid.IntRange(0, 3).Draw(t, "phase"))}
	for _, v := range r.resource.Volumes {
		s := observed.VolumeStatus{
			Number: v.Number, DevicePath: rapid.SampledFrom([]string{"", "/dev/x"}).Draw(t, "device"), Usable: size("usable"),
			Allocated: size("allocated"), DiskState: rapid.SampledFrom([]string{"", "UpToDate"}).Draw(t, "state"),
		}
		if rapid.Bool().Draw(t, "use known") {
			used := rapid.Bool().Draw(t, "used")
			s.InUse = &used
		}
		st.Volumes = append(st.Volumes, s)
	}
	if rapid.Bool().Draw(t, "DRBD runs") {
		score, may, percent := rapid.Int32().Draw(t, "score"), rapid.Bool().Draw(t, "may promote"), 12.5
		st.DRBD = &observed.DRBDStatus{Role: "Secondary", PromotionScore: &score, MayPromote: &may}
		for _, peer := range []model.NodeName{"NODE-1", "gone"} {
			st.DRBD.Connections = append(st.DRBD.Connections, observed.DRBDConnection{
				Node: peer, State: rapid.SampledFrom([]string{"Connected", "StandAlone", ""}).Draw(t, "connection"),
				Replication: map[model.VolumeNumber]string{0: rapid.SampledFrom([]string{"", "Established", "SyncTarget"}).Draw(t, "replication")},
			})
		}
		for i := range st.Volumes {
			st.Volumes[i].ResyncDone = &percent
		}
	}
	if rapid.Bool().Draw(t, "fails") {
		st.Failure = &observed.Failure{
			Step: texts.Draw(t, "step"), Message: texts.Draw(t, "message"), Attempts: 3, NextTry: time.Unix(1e9, 0).UTC(),
			Reason: observed.Reason(rapid.IntRange(0, 5).Draw(t, "reason")),
		}
	}
	seen.Connect("node-1", observed.Facts{}, false)
	seen.Report("node-1", observed.Report{Resources: map[model.DefinitionKey]observed.ResourceStatus{"rd": st}})
	switch how {
	case "offline":
		seen.Disconnect("node-1", "gone")
	case "old":
		seen.Connect("node-1", observed.Facts{}, false)
	}
	return seen
}

func TestWrittenListsHaveTheShapeOfTheirTypes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawRows(t)
		st := r.open(t)
		defer func() { _ = st.Close() }()
		seen := drawSeen(t, r)
		e := encode.New(st.Snapshot(), seen)

		plain := same[wire.ResourceDefinition](t, show(e.Definition, r.definition))
		full := same[wire.ResourceDefinition](t, show(e.DefinitionWithVolumes, r.definition))
		if len(plain.VolumeDefinitions) != 0 || len(full.VolumeDefinitions) != len(r.volumes) || full.ResourceGroupName != "Group" {
			t.Fatalf("the definition is %+v, with volumes %+v", plain, full)
		}
		for i, l := range plain.LayerData {
			drbd := l.Type == wire.LayerDRBD
			if string(l.Type) != string(r.definition.Layers[i]) || (l.Data != nil) != drbd || drbd && l.Data.Secret == "" {
				t.Fatalf("layer %d of a replicated definition is %+v", i, l)
			}
		}
		for i, v := range r.volumes {
			shown := same[wire.VolumeDefinition](t, show(e.VolumeDefinition(&r.definition), v))
			if shown.VolumeNumber != int32(i) {
				t.Fatalf("volume %d is %+v", i, shown)
			}
		}
		node := same[wire.Node](t, show(e.Node, r.node))
		if (node.EvictionTimestamp != nil) != (r.node.Evicted && !r.node.LeftAt.IsZero()) || len(node.Flags) > 0 != r.node.Leaving() {
			t.Fatalf("the node is %+v", node)
		}
		same[wire.StoragePool](t, show(e.Pool, r.pool))
		short := same[wire.Resource](t, show(e.Resource, r.resource))
		long := same[wire.ResourceWithVolumes](t, show(e.ResourceWithVolumes, r.resource))
		checkResource(t, r, seen, short, long)
		for i, v := range r.resource.Volumes {
			shown := same[wire.Volume](t, show(e.Volume(&r.resource), v))
			if shown.VolumeNumber != int32(i) {
				t.Fatalf("volume %d is %+v", i, shown)
			}
		}
	})
}

// checkResource checks what clients rely on in every replica.
func checkResource(t *rapid.T, r rows, seen *observed.State, short wire.Resource, long wire.ResourceWithVolumes) {
	t.Helper()
	status, told := seen.Resource(r.resource.ID())
	if short.LayerObject == nil || (short.State != nil) != (told && status.Current) {
		t.Fatalf("layers %v, state %v, told %v, current %v", short.LayerObject, short.State, told, status.Current)
	}
	checkDRBD(t, status, short, long)
	types := short.LayerObject.Types()
	if types[len(types)-1] != wire.LayerStorage {
		t.Fatalf("the lowest layer is %v", types)
	}
	flags := strings.Join(short.Flags, " ")
	if strings.Contains(flags, "EVICTED") != r.node.Evicted || strings.Contains(flags, "EVACUATE") != r.node.Evacuating {
		t.Fatalf("the node is %+v, and its replica has the flags %v", r.node, short.Flags)
	}
	diskful := r.resource.Kind == schema.Diskful
	if disk := !strings.Contains(flags, wire.FlagDiskless); disk != diskful {
		t.Fatalf("kind %s has the flags %v", r.resource.Kind, short.Flags)
	}
	for _, v := range long.Volumes {
		if n := len(v.LayerDataList); n != len(types) || v.LayerDataList[n-1].Type != wire.LayerStorage {
			t.Fatalf("the layers of a volume are %v", v.LayerDataList)
		}
		if v.AllocatedSize != nil && (!diskful || !status.Current) {
			t.Fatalf("an allocation is shown of a replica without disk, or of one of which nothing is heard")
		}
		if v.State != nil && !status.Current {
			t.Fatal("a state is shown of a volume of which nothing is heard")
		}
	}
	for _, text := range []wire.Properties{short.Props, long.Props} {
		if s, ok := text["DrbdOptions/Net/shared-secret"]; ok && s != "***" {
			t.Fatalf("a secret is shown: %q", s)
		}
	}
}

// checkDRBD checks that what DRBD says is shown while it says it, without peers that are gone.
func checkDRBD(t *rapid.T, status observed.ResourceStatus, short wire.Resource, long wire.ResourceWithVolumes) {
	t.Helper()
	if layer := short.LayerObject.DRBD; layer != nil {
		if told := status.DRBD != nil; told != (layer.PromotionScore != nil) || told != (layer.MayPromote != nil) || told != (len(layer.Connections) == 1) {
			t.Fatalf("DRBD said %+v, and %+v is shown", status.DRBD, layer)
		}
		for peer, c := range layer.Connections {
			if peer != "Node-1" || c.Connected != (c.Message == "Connected") {
				t.Fatalf("the connection to %s is %+v", peer, c)
			}
		}
	}
	for _, v := range long.Volumes {
		if v.State == nil {
			continue
		}
		for peer, r := range v.State.ReplicationStates {
			if peer != "Node-1" || r.ReplicationState == "" || (r.DonePercentage != nil) != (r.ReplicationState == "SyncTarget") {
				t.Fatalf("the replication with %s is %+v", peer, r)
			}
		}
	}
}
