// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-storage/holdfast/internal/wire"
)

func TestDecodeReadsWhatClientsSend(t *testing.T) {
	body := ` {"resource_definition_name":"r1","volume_sizes":[1048576,4],"partial":false,"unknown":{"a":[null]},
		"select_filter":{"place_count":"2","storage_pool_list":[],"node_name_list":null,"x_replicas_on_different_map":{"Aux/zone":"1"}}} `
	var got wire.ResourceGroupSpawn
	if err := wire.Decode(strings.NewReader(body), &got); err != nil {
		t.Fatal(err)
	}
	want := wire.ResourceGroupSpawn{
		ResourceDefinitionName: "r1",
		VolumeSizes:            []wire.SizeKiB{1048576, 4},
		Partial:                new(false),
		SelectFilter: &wire.AutoSelectFilter{
			PlaceCount:           new(wire.Int32(2)),
			StoragePoolList:      []string{},
			XReplicasOnDifferent: map[string]wire.Int32{"Aux/zone": 1},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestNamesOfKindsAreReadInAnyCase(t *testing.T) {
	var node wire.NodeCreate
	err := wire.Decode(strings.NewReader(`{"name":"N","type":"satellite"}`), &node)
	if err != nil || node.Name != "N" || node.Type != wire.NodeSatellite {
		t.Errorf("got %+v, error %v", node, err)
	}
	var filter wire.AutoSelectFilter
	err = wire.Decode(strings.NewReader(`{"layer_stack":["drbd","Storage"],"provider_list":["lvm_thin"]}`), &filter)
	want := wire.AutoSelectFilter{
		LayerStack: []wire.LayerType{wire.LayerDRBD, wire.LayerStorage}, ProviderList: []wire.ProviderKind{wire.LVMThin},
	}
	if diff := cmp.Diff(want, filter); err != nil || diff != "" {
		t.Errorf("error %v (-want +got)\n%s", err, diff)
	}
	var odd wire.NodeType
	if err := odd.UnmarshalText([]byte("Remote_Spdk")); err != nil || odd != "Remote_Spdk" {
		t.Errorf("an unknown type is read as %s, error %v", odd, err)
	}
}

func TestDecodeNamesWhatItRefuses(t *testing.T) {
	deep := strings.Repeat("[", 10000) + strings.Repeat("]", 10000)
	for _, c := range []struct {
		name, body string
		into       any
		want       wire.DecodeError
	}{
		{"nothing", "", new(wire.NodeModify), wire.DecodeError{Kind: wire.Malformed, Problem: "the body is empty, a JSON value is required"}},
		{"blanks", " \n", new(wire.NodeModify), wire.DecodeError{Kind: wire.Malformed, Problem: "the body is empty, a JSON value is required"}},
		{"null", " null ", new(wire.NodeModify), wire.DecodeError{Kind: wire.Mismatch, Offset: 1, Problem: "the body is null"}},
		{"cut off", "{", new(wire.NodeModify), wire.DecodeError{Kind: wire.Malformed, Offset: 0, Problem: "unexpected end of JSON input"}},
		{"trailing bytes", "{}x", new(wire.NodeModify), wire.DecodeError{Kind: wire.Malformed, Offset: 2, Problem: "invalid character 'x' after top-level value"}},
		{"two values", "{}{}", new(wire.NodeModify), wire.DecodeError{Kind: wire.Malformed, Offset: 2, Problem: "invalid character '{' after top-level value"}},
		{"not UTF-8", "{\"node_type\":\"\xff\"}", new(wire.NodeModify), wire.DecodeError{Kind: wire.Malformed, Offset: 14, Problem: "the body is not UTF-8"}},
		{"deep", deep, new(wire.NodeModify), wire.DecodeError{Kind: wire.TooDeep, Offset: 64, Problem: "the body is nested deeper than 64 levels"}},
		{"deep in an unknown field", `{"x":` + deep + `}`, new(wire.NodeModify), wire.DecodeError{Kind: wire.TooDeep, Offset: 68, Problem: "the body is nested deeper than 64 levels"}},
		{"list for an object", `[]`, new(wire.NodeModify), wire.DecodeError{Kind: wire.Mismatch, Problem: "it must be an object, not a list"}},
		{"object for a list", ` {}`, new([]wire.ResourceCreate), wire.DecodeError{Kind: wire.Mismatch, Offset: 1, Problem: "it must be a list, not an object"}},
		{
			"string for a size", `{"volume_definition": {"size_kib": "10"}}`, new(wire.VolumeDefinitionCreate),
			wire.DecodeError{Kind: wire.Mismatch, Field: "volume_definition.size_kib", Offset: 35, Problem: `it must be a whole number of KiB of at most 63 bits, not "10"`},
		},
		{
			"size beyond 63 bits", `{"size_kib":9223372036854775808}`, new(wire.VolumeDefinitionModify),
			wire.DecodeError{Kind: wire.Mismatch, Field: "size_kib", Offset: 12, Problem: "it must be a whole number of KiB of at most 63 bits, not 9223372036854775808"},
		},
		{
			"second of three sizes", `{"volume_sizes":[4,1e30,5.5]}`, new(wire.ResourceGroupSpawn),
			wire.DecodeError{Kind: wire.Mismatch, Field: "volume_sizes[1]", Offset: 19, Problem: "it must be a whole number of KiB of at most 63 bits, not 1e30"},
		},
		{
			"same text in another list", `{"unknown":[1e30],"volume_sizes":[1e30]}`, new(wire.ResourceGroupSpawn),
			wire.DecodeError{Kind: wire.Mismatch, Field: "volume_sizes[0]", Offset: 34, Problem: "it must be a whole number of KiB of at most 63 bits, not 1e30"},
		},
		{
			"port too large", `{"net_interfaces":[{"name":"a"},{"satellite_port":"4294967296"}]}`, new(wire.NodeCreate),
			wire.DecodeError{Kind: wire.Mismatch, Field: "net_interfaces[1].satellite_port", Offset: 50, Problem: `it must be a whole number of at most 31 bits, not "4294967296"`},
		},
		{
			"number for a property", `{"override_props":{"a":"1","b":2}}`, new(wire.NodeModify),
			wire.DecodeError{Kind: wire.Mismatch, Field: "override_props.b", Offset: 31, Problem: "it must be a string, not 2"},
		},
		{
			"string for a list", `{"select_filter":{"node_name_list" : "n1"}}`, new(wire.AutoPlaceRequest),
			wire.DecodeError{Kind: wire.Mismatch, Field: "select_filter.node_name_list", Offset: 37, Problem: `it must be a list, not "n1"`},
		},
		{
			"object for a string", `[{"resource":{"node_name":{"x":[1]}}}]`, new([]wire.ResourceCreate),
			wire.DecodeError{Kind: wire.Mismatch, Field: "[0].resource.node_name", Offset: 26, Problem: "it must be a string, not an object"},
		},
		{
			"number for a layer", `{"layer_list":["DRBD",7]}`, new(wire.ResourceMakeAvailable),
			wire.DecodeError{Kind: wire.Mismatch, Field: "layer_list[1]", Offset: 22, Problem: "it must be a string, not 7"},
		},
		{
			"number for a flag", `{"partial":1}`, new(wire.ResourceGroupSpawn),
			wire.DecodeError{Kind: wire.Mismatch, Field: "partial", Offset: 11, Problem: "it must be true or false, not 1"},
		},
		{
			"long value", `{"partial":"` + strings.Repeat("ä", 100) + `"}`, new(wire.ResourceGroupSpawn),
			wire.DecodeError{Kind: wire.Mismatch, Field: "partial", Offset: 11, Problem: `it must be true or false, not "` + strings.Repeat("ä", 19) + "…"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := wire.Decode(strings.NewReader(c.body), c.into)
			refused, ok := errors.AsType[*wire.DecodeError](err)
			if !ok {
				t.Fatalf("got error %v", err)
			}
			if diff := cmp.Diff(c.want, *refused); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if refused.Status() != 400 {
				t.Errorf("status %d", refused.Status())
			}
		})
	}
}

func TestDecodeRefusesALargeBodyWithoutReadingIt(t *testing.T) {
	endless := &counter{r: io.MultiReader(strings.NewReader(`{"node_type":"`), repeated('x'))}
	err := wire.Decode(endless, new(wire.NodeModify))
	refused, ok := errors.AsType[*wire.DecodeError](err)
	if !ok || refused.Kind != wire.TooLarge || refused.Status() != 413 {
		t.Errorf("got %v", err)
	}
	if endless.n > 2*wire.MaxBody {
		t.Errorf("%d bytes were read", endless.n)
	}
	fits := `{"node_type":"` + strings.Repeat("x", wire.MaxBody-16) + `"}`
	if err := wire.Decode(strings.NewReader(fits), new(wire.NodeModify)); err != nil {
		t.Errorf("a body of %d bytes: %v", len(fits), err)
	}
}

type counter struct {
	r io.Reader
	n int
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += n
	return n, err
}

type repeated byte

func (r repeated) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(r)
	}
	return len(p), nil
}

func TestDecodeTellsReadErrorsApart(t *testing.T) {
	broken := errors.New("connection reset")
	err := wire.Decode(iotest.ErrReader(broken), new(wire.NodeModify))
	if _, refused := errors.AsType[*wire.DecodeError](err); refused || !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

func TestOptionalBodyMayBeAbsent(t *testing.T) {
	for body, want := range map[string]bool{"": false, "\r\n ": false, "{}": true} {
		present, err := wire.DecodeOptional(strings.NewReader(body), new(wire.NodeEvacuate))
		if err != nil || present != want {
			t.Errorf("%q: present %t, error %v", body, present, err)
		}
	}
	if present, err := wire.DecodeOptional(strings.NewReader("null"), new(wire.NodeEvacuate)); err == nil || !present {
		t.Errorf("null: present %t, error %v", present, err)
	}
}

func TestBareStringIsABody(t *testing.T) {
	var got wire.PassPhraseEnter
	if err := wire.Decode(strings.NewReader(`"open sesame"`), &got); err != nil || string(got) != "open sesame" {
		t.Errorf("got %q, error %v", string(got), err)
	}
}

func FuzzDecode(f *testing.F) {
	for _, body := range []string{
		`{"volume_sizes":[4,1e30,5.5],"select_filter":{"place_count":"2"}}`, `{"a":{"b":[{"c":"\ud800\"]}"}]}}`, `[]`, `"x"`, `{}x`,
		`{"select_filter":{"x_replicas_on_different_map":{"":""}}}`, `{"VOLUME_SIZES":[""]}`, `{"volume_passphrases":[1]}`, "\xff", `[[[`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var got wire.ResourceGroupSpawn
		present, err := wire.DecodeOptional(strings.NewReader(string(body)), &got)
		if err != nil {
			refused, ok := errors.AsType[*wire.DecodeError](err)
			if !ok || !present || refused.Problem == "" || refused.Offset < 0 || refused.Offset > int64(len(body)) {
				t.Fatalf("refused with %#v", err)
			}
			if refused.Kind == wire.Malformed && json.Valid(body) && len(body) == len(strings.ToValidUTF8(string(body), "")) {
				t.Fatalf("valid JSON was called malformed: %v", err)
			}
			return
		}
		if !present {
			return
		}
		again, err := wire.Encode(got)
		if err != nil {
			t.Fatal(err)
		}
		var back wire.ResourceGroupSpawn
		if err := wire.Decode(strings.NewReader(string(again)), &back); err != nil {
			t.Fatalf("%s cannot be read back: %v", again, err)
		}
		if third, err := wire.Encode(back); err != nil || string(third) != string(again) {
			t.Fatalf("%s became %s, error %v", again, third, err)
		}
	})
}

func FuzzVolumeLayer(f *testing.F) {
	f.Add([]byte(`{"type":"DRBD","data":{"drbd_volume_definition":{"volume_number":0,"minor_number":1000}}}`))
	f.Add([]byte(`{"type":"STORAGE","data":{"volume_number":0,"usable_size_kib":4}}`))
	f.Add([]byte(`{"type":"UNHEARD_OF","data":[1]}`))
	f.Add([]byte(`{"type":"LUKS","data":null}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var got, back wire.VolumeLayer
		if json.Unmarshal(body, &got) != nil {
			return
		}
		again, err := wire.Encode(got)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(again, &back); err != nil {
			t.Fatalf("%s cannot be read back: %v", again, err)
		}
		if diff := cmp.Diff(got, back); diff != "" {
			t.Fatalf("%s (-first +second)\n%s", again, diff)
		}
	})
}
