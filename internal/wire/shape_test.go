// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-storage/holdfast/internal/wire"
)

// responses are the types that the server sends.
var responses = []any{
	wire.Rc{},
	wire.Node{},
	wire.NetInterface{},
	wire.StoragePool{},
	wire.StoragePoolDefinition{},
	wire.PhysicalStorage{},
	wire.PhysicalStorageDevice{},
	wire.PhysicalStorageNode{},
	wire.PropertySource{},
	wire.EffectiveProperty{},
	wire.PropsInfo{},
	wire.KeyValueStore{},
	wire.PassphraseStatus{},
	wire.QuerySizeInfoResponse{},
	wire.SpaceInfo{},
	wire.SpawnResult{},
	wire.QueryAllSizeInfoResponse{},
	wire.MaxVolumeSizes{},
	wire.Candidate{},
	wire.ResourceGroup{},
	wire.VolumeGroup{},
	wire.ResourceDefinition{},
	wire.ResourceDefinitionLayer{},
	wire.DRBDResourceDefinitionLayer{},
	wire.ResourceDefinitionSyncStatus{},
	wire.ResourceDefinitionCloneStarted{},
	wire.ResourceDefinitionCloneStatus{},
	wire.VolumeDefinition{},
	wire.VolumeDefinitionLayer{},
	wire.DRBDVolumeDefinition{},
	wire.Resource{},
	wire.ResourceState{},
	wire.ResourceWithVolumes{},
	wire.NodeConnection{},
	wire.ResourceConnection{},
	wire.ResourceLayer{},
	wire.DRBDResource{},
	wire.DRBDConnection{},
	wire.DRBDVolume{},
	wire.LUKSResource{},
	wire.LUKSVolume{},
	wire.StorageResource{},
	wire.StorageVolume{},
	wire.NVMeResource{},
	wire.NVMeVolume{},
	wire.WritecacheResource{},
	wire.WritecacheVolume{},
	wire.CacheResource{},
	wire.CacheVolume{},
	wire.BCacheResource{},
	wire.BCacheVolume{},
	wire.Volume{},
	wire.VolumeState{},
	wire.ReplicationState{},
	wire.VolumeLayer{},
	wire.Snapshot{},
	wire.SnapshotVolumeDefinition{},
	wire.SnapshotNode{},
	wire.SnapshotVolumeNode{},
	wire.ControllerVersion{},
	wire.JoinToken{},
	wire.ControllerConfig{},
	wire.ControllerConfigConfig{},
	wire.ControllerConfigDebug{},
	wire.ControllerConfigLog{},
	wire.ControllerConfigDB{},
	wire.ControllerConfigDBEtcd{},
	wire.ControllerConfigHTTP{},
	wire.ControllerConfigLDAP{},
	wire.SatelliteConfig{},
	wire.SatelliteConfigLog{},
	wire.SatelliteConfigNet{},
	wire.Stats{},
	wire.SpaceReport{},
	wire.Orphan{},
	wire.HostJob{},
	wire.JobEnd{},
	wire.HeldPool{},
	wire.Hold{},
	wire.Explanation{},
	wire.ExplainedPick{},
	wire.ExplainedPool{},
	wire.PendingDelete{},
	wire.Job{},
	wire.ErrorReport{},
	wire.RemoteList{},
	wire.S3Remote{},
	wire.LinstorRemote{},
	wire.EBSRemote{},
	wire.EventMayPromoteChange{},
	wire.EventNode{},
	wire.EventNodeModified{},
	wire.AutoSelectFilter{},
}

// requests are the types that clients send.
var requests = []any{
	wire.PropsModify{},
	wire.ControllerPropsModify{},
	wire.KeyValueStoreModify{},
	wire.PassPhraseCreate{},
	wire.NodeCreate{},
	wire.NodeModify{},
	wire.JoinTokenCreate{},
	wire.NodeRestore{},
	wire.NodeEvacuate{},
	wire.NetInterfaceCreate{},
	wire.NetInterfaceModify{},
	wire.StoragePoolCreate{},
	wire.StoragePoolModify{},
	wire.StoragePoolDefinitionModify{},
	wire.PhysicalStorageCreate{},
	wire.PhysicalStoragePoolRequest{},
	wire.AutoSelectFilter{},
	wire.AutoPlaceRequest{},
	wire.QuerySizeInfoRequest{},
	wire.ExplainRequest{},
	wire.QueryAllSizeInfoRequest{},
	wire.ResourceGroupCreate{},
	wire.ResourceGroupModify{},
	wire.ResourceGroupSpawn{},
	wire.ResourceGroupAdjust{},
	wire.VolumeGroupCreate{},
	wire.VolumeGroupModify{},
	wire.ResourceDefinitionCreate{},
	wire.NewResourceDefinition{},
	wire.LayerRequest{},
	wire.ResourceDefinitionModify{},
	wire.ResourceDefinitionCloneRequest{},
	wire.VolumeDefinitionCreate{},
	wire.NewVolumeDefinition{},
	wire.VolumeDefinitionModify{},
	wire.VolumeDefinitionModifyPassphrase{},
	wire.ResourceCreate{},
	wire.NewResource{},
	wire.ResourceModify{},
	wire.ResourceMakeAvailable{},
	wire.ToggleDiskRequest{},
	wire.ToggleDiskDiskful{},
	wire.NodeConnectionModify{},
	wire.ResourceConnectionModify{},
	wire.VolumeModify{},
	wire.SnapshotCreate{},
	wire.CreateMultiSnapshotRequest{},
	wire.SnapshotModify{},
	wire.SnapshotRestore{},
	wire.SnapshotRollback{},
	wire.ErrorReportDelete{},
	wire.HostJobCreate{},
	wire.HoldCreate{},
}

func TestEveryBodyIsCheckedHere(t *testing.T) {
	listed := map[string]bool{"DecodeError": true} // Not a body.
	for _, v := range append(append([]any{}, responses...), requests...) {
		listed[reflect.TypeOf(v).Name()] = true
	}
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), e.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if _, isStruct := spec.Type.(*ast.StructType); isStruct && spec.Name.IsExported() && !listed[spec.Name.Name] {
				t.Errorf("%s is neither in responses nor in requests", spec.Name.Name)
			}
			return false
		})
	}
}

// fields yields the JSON fields of a struct, those of embedded structs included.
func fields(t reflect.Type, yield func(f reflect.StructField, name string, optional bool)) {
	for f := range t.Fields() {
		if f.Anonymous {
			fields(f.Type, yield)
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		yield(f, name, options == "omitempty" || options == "omitzero")
	}
}

func TestResponsesCannotContainNullAndKeepTheirZeros(t *testing.T) {
	for _, v := range responses {
		typ := reflect.TypeOf(v)
		fields(typ, func(f reflect.StructField, name string, optional bool) {
			switch f.Type.Kind() {
			case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Interface:
				if !optional {
					t.Errorf("%s.%s can be null", typ.Name(), name)
				}
			case reflect.String, reflect.Struct:
			default:
				if optional {
					t.Errorf("%s.%s is left out when it is zero", typ.Name(), name)
				}
			}
			if f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() == reflect.Pointer {
				t.Errorf("%s.%s can contain null", typ.Name(), name)
			}
		})
	}
}

func TestRequestsTellAbsentFromZero(t *testing.T) {
	for _, v := range requests {
		typ := reflect.TypeOf(v)
		fields(typ, func(f reflect.StructField, name string, optional bool) {
			switch kind := f.Type.Kind(); kind {
			case reflect.Pointer, reflect.Slice, reflect.Map, reflect.String:
				if !optional && kind != reflect.String {
					t.Errorf("%s.%s is sent as null when it is absent", typ.Name(), name)
				}
			case reflect.Struct:
			default:
				t.Errorf("%s.%s cannot be absent", typ.Name(), name)
			}
		})
	}
}

func TestEmptyAndFullBodiesSurviveTheWire(t *testing.T) {
	for _, v := range append(append([]any{}, responses...), requests...) {
		typ := reflect.TypeOf(v)
		t.Run(typ.Name(), func(t *testing.T) {
			full := reflect.New(typ)
			fill(full.Elem(), 4)
			for _, in := range []reflect.Value{reflect.New(typ), full} {
				body, err := wire.Encode(in.Interface())
				if err != nil {
					t.Fatal(err)
				}
				if strings.Contains(string(body), "null") {
					t.Errorf("null in %s", body)
				}
				out := reflect.New(typ)
				if err := json.Unmarshal(body, out.Interface()); err != nil {
					t.Fatalf("%s: %v", body, err)
				}
				if diff := cmp.Diff(in.Interface(), out.Interface()); diff != "" {
					t.Errorf("(-sent +read)\n%s", diff)
				}
			}
		})
	}
}

// fill sets every field to something that is not its zero value; depth bounds types that contain themselves.
func fill(v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.Pointer:
		if depth > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem(), depth-1)
		}
	case reflect.Struct:
		for _, field := range v.Fields() {
			fill(field, depth)
		}
		if layer, ok := reflect.TypeAssert[*wire.VolumeLayer](v.Addr()); ok {
			*layer = wire.NewVolumeLayer(wire.DRBDVolume{DevicePath: "/dev/drbd1000"})
		}
	case reflect.Slice:
		if depth > 0 {
			v.Set(reflect.MakeSlice(v.Type(), 2, 2))
			fill(v.Index(0), depth-1)
			fill(v.Index(1), depth-1)
		}
	case reflect.Map:
		if depth > 0 {
			elem := reflect.New(v.Type().Elem()).Elem()
			fill(elem, depth-1)
			v.Set(reflect.MakeMap(v.Type()))
			v.SetMapIndex(reflect.ValueOf("k<&>").Convert(v.Type().Key()), elem)
		}
	case reflect.String:
		v.SetString("S<&>\u2028") // In capitals, as kinds are read.
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int32, reflect.Int64:
		v.SetInt(-7)
	case reflect.Float64:
		v.SetFloat(0.5)
	case reflect.Interface: // VolumeLayer sets its own.
	default:
		panic(fmt.Sprintf("a body has a %s", v.Type()))
	}
}

// indexed are the fields that clients read without asking whether they are there.
func TestFieldsThatClientsIndexAreAlwaysThere(t *testing.T) {
	for _, c := range []struct {
		body any
		want string
	}{
		{wire.Rc{}, `{"ret_code":0,"message":""}`},
		{wire.NetInterface{}, `{"name":"","address":"","is_active":false}`},
		{wire.StoragePool{}, `{"storage_pool_name":"","provider_kind":"","free_space_mgr_name":"","supports_snapshots":false,"external_locking":false}`},
		{wire.DRBDResourceDefinitionLayer{}, `{"peer_slots":0,"port":0,"secret":"","down":false}`},
		{wire.DRBDVolume{}, `{"drbd_volume_definition":{"volume_number":0,"minor_number":0}}`},
		{wire.DRBDConnection{}, `{"connected":false}`},
		{wire.VolumeDefinition{}, `{"volume_number":0,"size_kib":0}`},
		{wire.VolumeGroup{}, `{"volume_number":0}`},
		{wire.Volume{}, `{"volume_number":0}`},
		{wire.ControllerVersion{}, `{"version":"","git_hash":"","build_time":"","rest_api_version":""}`},
		{wire.ErrorReport{}, `{"error_time":0}`},
		{wire.SnapshotVolumeDefinition{}, `{"volume_number":0,"size_kib":0}`},
		{wire.SpaceInfo{}, `{"max_vlm_size_in_kib":0}`},
		{wire.ResourceState{InUse: new(false)}, `{"in_use":false}`},
		{wire.ResourceDefinitionSyncStatus{}, `{"synced_on_all":false}`},
	} {
		got, err := wire.Encode(c.body)
		if err != nil || string(got) != c.want {
			t.Errorf("%T is sent as %s, error %v; want %s", c.body, got, err, c.want)
		}
	}
}

func TestEncodeNeverSendsNull(t *testing.T) {
	for _, c := range []struct {
		in   any
		want string
	}{
		{[]wire.Node(nil), "[]"},
		{[]wire.Node{}, "[]"},
		{wire.RcList(nil), "[]"},
		{wire.Properties(nil), "{}"},
		{(*wire.RemoteList)(nil), "{}"},
		{nil, "{}"},
		{wire.Properties{"a": "<&>"}, `{"a":"<&>"}`},
	} {
		got, err := wire.Encode(c.in)
		if err != nil || string(got) != c.want {
			t.Errorf("%#v is sent as %s, error %v; want %s", c.in, got, err, c.want)
		}
	}
}

func TestSecretsAreSentButNotPrinted(t *testing.T) {
	request := wire.PassPhraseCreate{NewPassphrase: "marker"}
	body, err := wire.Encode(request)
	if err != nil || string(body) != `{"new_passphrase":"marker"}` {
		t.Errorf("sent as %s, error %v", body, err)
	}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if printed := fmt.Sprintf(format, request); strings.Contains(printed, "marker") {
			t.Errorf("%s prints %s", format, printed)
		}
	}
	if logged := request.NewPassphrase.LogValue().String(); logged != "***" {
		t.Errorf("logged as %s", logged)
	}
}

func TestFilterIsShownAsClientsCompareIt(t *testing.T) {
	in := wire.AutoSelectFilter{
		PlaceCount: new(wire.Int32(2)), StoragePool: "p", NodeNameList: []string{}, ReplicasOnSame: []string{"Aux/b", "Aux/a"},
		XReplicasOnDifferent: map[string]wire.Int32{}, NotPlaceWithRscRegex: new(""), DisklessOnRemaining: new(false),
	}
	got, err := wire.Encode(in.Shown())
	want := `{"place_count":2,"storage_pool":"p","storage_pool_list":["p"],"replicas_on_same":["Aux/b","Aux/a"],"diskless_on_remaining":false}`
	if err != nil || string(got) != want {
		t.Errorf("got %s, error %v", got, err)
	}
	both := wire.AutoSelectFilter{StoragePool: "old", StoragePoolList: []string{}}
	if pools := both.Pools(); pools == nil || len(pools) != 0 {
		t.Errorf("an empty list does not override the single name: %v", pools)
	}
}

func BenchmarkEncodeDefinitions(b *testing.B) {
	list := make([]wire.ResourceDefinition, 5000)
	for i := range list {
		list[i] = wire.ResourceDefinition{
			Name: fmt.Sprintf("pvc-%08d", i), ResourceGroupName: "rg", UUID: "3d9a2a0e-5f0b-4f5c-9c1e-0d6f6d6a4c2f",
			Props: wire.Properties{"Aux/csi-volume-name": "x", "DrbdOptions/Resource/quorum": "majority"},
			LayerData: []wire.ResourceDefinitionLayer{
				{Type: wire.LayerDRBD, Data: &wire.DRBDResourceDefinitionLayer{PeerSlots: 7, Port: 7000, TransportType: "IP"}},
				{Type: wire.LayerStorage},
			},
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := wire.Encode(list); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeSpawn(b *testing.B) {
	const body = `{"resource_definition_name":"r1","volume_sizes":[1048576],"partial":false,"definitions_only":false,"select_filter":{"place_count":2}}`
	b.ReportAllocs()
	for b.Loop() {
		var spawn wire.ResourceGroupSpawn
		if err := wire.Decode(strings.NewReader(body), &spawn); err != nil {
			b.Fatal(err)
		}
	}
}
