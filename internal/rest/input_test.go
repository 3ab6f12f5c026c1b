// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

// TestBodiesThatAreNotUnderstood sends them to a call of each kind: a required body, an optional one, a list.
func TestBodiesThatAreNotUnderstood(t *testing.T) {
	c := newCluster(t)
	c.must(201, "POST", "/v1/resource-definitions", `{"resource_definition":{"name":"r1"}}`)
	before := c.store.Snapshot().Revision()
	calls := []struct{ method, path string }{
		{"POST", "/v1/nodes"},
		{"PUT", "/v1/resource-definitions/r1"},
		{"POST", "/v1/resource-definitions/r1/autoplace"},
		{"POST", "/v1/resource-definitions/r1/resources"},
		{"POST", "/v1/resource-groups/DfltRscGrp/query-size-info"},
		{"PATCH", "/v1/error-reports"},
	}
	for name, x := range map[string]struct {
		body   string
		kind   string
		status int
	}{
		"not JSON":             {`{`, "", 400},
		"a bare word":          {`hello`, "", 400},
		"trailing bytes":       {`{}x`, "", 400},
		"two values":           {`{} {}`, "", 400},
		"null":                 {`null`, "", 400},
		"invalid UTF-8":        {"{\"name\":\"\xff\xfe\"}", "", 400},
		"deep nesting":         {strings.Repeat("[", 10000) + strings.Repeat("]", 10000), "", 400},
		"deep nesting of maps": {strings.Repeat(`{"a":`, 10000) + "1" + strings.Repeat("}", 10000), "", 400},
		"a number":             {`1`, "", 400},
		"huge":                 {`{"name":"` + strings.Repeat("x", wire.MaxBody) + `"}`, "", 413},
		"plain text":           {`{}`, "text/plain", 415},
		"a form":               {`name=x`, "application/x-www-form-urlencoded", 400},
		"XML":                  {`<a/>`, "application/xml", 415},
		"no kind at all":       {`{}`, ";;", 415},
	} {
		for _, call := range calls {
			a := c.send(call.method, call.path, strings.NewReader(x.body), "Content-Type", x.kind)
			if e := a.code(x.status, wire.APICallParseError); e.RetCode != wire.APICallParseError || e.Cause == "" && e.Correction == "" {
				t.Errorf("%s to %s %s: %+v", name, call.method, call.path, e)
			}
		}
	}
	for _, kind := range []string{"", "application/json", "application/json; charset=utf-8", "text/json", "application/vnd.x+json"} {
		if a := c.send("PUT", "/v1/resource-definitions/r1", strings.NewReader(`{}`), "Content-Type", kind); a.status != 200 {
			t.Errorf("a body of the type %q: %d", kind, a.status)
		}
	}
	if c.do("POST", "/v1/nodes", "").status != 400 || c.do("POST", "/v1/nodes", " \n").status != 400 {
		t.Error("a call without its body was taken")
	}
	if after := c.store.Snapshot().Revision(); after > before+5 || schema.Nodes.Len(c.store.Snapshot()) != 0 {
		t.Errorf("something was written: revision %d, now %d", before, after)
	}
}

// TestABodyWithoutEndIsCutOff sends more than a server should ever read.
func TestABodyWithoutEndIsCutOff(t *testing.T) {
	c := newCluster(t)
	c.send("POST", "/v1/nodes", strings.NewReader(strings.Repeat("[", 100<<20))).code(413, wire.APICallParseError)
}

func TestValuesThatCannotBeAccepted(t *testing.T) {
	c := newCluster(t)
	c.must(201, "POST", "/v1/resource-definitions", `{"resource_definition":{"name":"r1"}}`)
	c.must(201, "POST", "/v1/nodes", `{"name":"n1","net_interfaces":[{"name":"default","address":"10.0.0.1"}]}`)
	long := strings.Repeat("x", 300)
	size := func(s string) string { return fmt.Sprintf(`{"volume_definition":{"size_kib":%s}}`, s) }
	const volumes = "/v1/resource-definitions/r1/volume-definitions"
	for _, x := range []struct {
		method, path, body string
		status             int
		code               wire.RetCode
	}{
		{"POST", volumes, size("0"), 500, wire.FailInvldVlmSize},
		{"POST", volumes, size("-1"), 500, wire.FailInvldVlmSize},
		{"POST", volumes, size("1"), 500, wire.FailInvldVlmSize},
		{"POST", volumes, size("9007199254740993"), 500, wire.FailInvldVlmSize},
		{"POST", volumes, size("9223372036854775807"), 500, wire.FailInvldVlmSize},
		{"POST", volumes, size("-9223372036854775808"), 500, wire.FailInvldVlmSize},
		{"POST", volumes, size("9223372036854775808"), 400, wire.APICallParseError},
		{"POST", volumes, size(`"10"`), 400, wire.APICallParseError},
		{"POST", volumes, size("1e30"), 400, wire.APICallParseError},
		{"POST", volumes, size("1.5"), 400, wire.APICallParseError},
		{"POST", volumes, `{"volume_definition":{}}`, 500, wire.FailInvldVlmSize},
		{"POST", volumes, `{}`, 500, wire.FailInvldVlmSize},
		{"POST", volumes, `{"volume_definition":{"size_kib":4096,"volume_number":-1}}`, 500, wire.FailInvldVlmNr},
		{"POST", volumes, `{"volume_definition":{"size_kib":4096,"volume_number":70000}}`, 500, wire.FailInvldVlmNr},
		{"POST", volumes, `{"volume_definition":{"size_kib":4096,"flags":["NOPE"]}}`, 500, wire.FailInvldRequest},
		{"POST", volumes, `{"volume_definition":{"size_kib":4096,"props":{"nope":"1"}}}`, 500, wire.FailInvldProp},
		{"PUT", volumes + "/0", `{"size_kib":0}`, 404, wire.FailNotFoundVlmDfn},
		{"PUT", volumes + "/-1", `{}`, 500, wire.FailInvldVlmNr},
		{"GET", volumes + "/x", "", 500, wire.FailInvldVlmNr},
		{"GET", volumes + "/4294967296", "", 500, wire.FailInvldVlmNr},
		{"POST", "/v1/resource-groups/DfltRscGrp/spawn", `{"resource_definition_name":"s1","volume_sizes":[-1]}`, 500, wire.FailInvldVlmSize},
		{"POST", "/v1/resource-groups/DfltRscGrp/spawn", `{"resource_definition_name":"s1","volume_sizes":["1"]}`, 400, wire.APICallParseError},
		{"POST", "/v1/resource-groups/DfltRscGrp/spawn", `{"resource_definition_name":"s","volume_sizes":[4]}`, 500, wire.FailInvldRscName},
		{"POST", "/v1/resource-groups/nope/spawn", `{"resource_definition_name":"s1","volume_sizes":[4]}`, 404, wire.FailNotFoundRscGrp},
		{"POST", "/v1/resource-definitions", `{"resource_definition":{"name":"a b"}}`, 500, wire.FailInvldRscName},
		{"POST", "/v1/resource-definitions", `{"resource_definition":{"name":"` + long + `"}}`, 500, wire.FailInvldRscName},
		{"POST", "/v1/resource-definitions", `{"resource_definition":{"name":"../../etc"}}`, 500, wire.FailInvldRscName},
		{"POST", "/v1/resource-definitions", `{"resource_definition":{}}`, 500, wire.FailInvldRscName},
		{"POST", "/v1/resource-definitions", `{"resource_definition":{"name":"r2","resource_group_name":"no"}}`, 404, wire.FailNotFoundRscGrp},
		{"POST", "/v1/resource-definitions", `{"resource_definition":{"name":"r2","layer_data":[{"type":"CHEESE"}]}}`, 500, wire.FailInvldLayerKind},
		{
			"POST", "/v1/resource-definitions", `{"resource_definition":{"name":"r2","layer_data":[{"type":"STORAGE"},{"type":"DRBD"}]}}`,
			500, wire.FailInvldLayerStack,
		},
		{"POST", "/v1/resource-definitions", `{"resource_definition":{"name":"r2"},"drbd_port":70000}`, 500, wire.FailInvldRscPort},
		{"POST", "/v1/nodes", `{"name":"no_de","net_interfaces":[{"name":"default","address":"10.0.0.1"}]}`, 500, wire.FailInvldNodeName},
		{"POST", "/v1/nodes", `{"name":"n2","type":"Robot","net_interfaces":[{"name":"default","address":"::1"}]}`, 500, wire.FailInvldNodeType},
		{"POST", "/v1/nodes", `{"name":"n2"}`, 500, wire.FailMissingNetcom},
		{"POST", "/v1/nodes", `{"name":"n2","net_interfaces":[{"name":"default","address":"host.example"}]}`, 500, wire.FailInvldNetAddr},
		{"POST", "/v1/nodes", `{"name":"n2","net_interfaces":[{"name":"x","address":"10.0.0.1"}]}`, 500, wire.FailInvldNetName},
		{"POST", "/v1/nodes", `{"name":"n2","net_interfaces":"x"}`, 400, wire.APICallParseError},
		{"PUT", "/v1/nodes/nope", `{}`, 404, wire.FailNotFoundNode},
		{"POST", "/v1/nodes/n1/net-interfaces", `{"name":"data","address":"10.0.0.2","satellite_port":99999}`, 500, wire.FailInvldNetPort},
		{
			"POST", "/v1/nodes/n1/net-interfaces", `{"name":"data","address":"10.0.0.2","satellite_encryption_type":"ROT13"}`, 500,
			wire.FailInvldEncryptType,
		},
		{"POST", "/v1/nodes/n1/storage-pools", `{"storage_pool_name":"p","provider_kind":"LVM"}`, 500, wire.FailInvldStorPoolName},
		{"POST", "/v1/nodes/n1/storage-pools", `{"storage_pool_name":"pool","provider_kind":"TAPE"}`, 500, wire.FailInvldStorDriver},
		{"POST", "/v1/resource-groups", `{"name":"g"}`, 500, wire.FailInvldRscGrpName},
		{"POST", "/v1/resource-groups", `{"name":"g1","select_filter":{"place_count":-1}}`, 500, wire.FailInvldPlaceCount},
		{"POST", "/v1/resource-groups", `{"name":"g1","select_filter":{"place_count":1e3}}`, 400, wire.APICallParseError},
		{"POST", "/v1/resource-groups", `{"name":"g1","select_filter":{"layer_stack":["X"]}}`, 500, wire.FailInvldLayerKind},
		{"POST", "/v1/resource-groups", `{"name":"g1","select_filter":{"not_place_with_rsc_regex":"("}}`, 400, wire.APICallParseError},
		{"POST", "/v1/resource-groups", `{"name":"g1","select_filter":{"provider_list":["TAPE"]}}`, 500, wire.FailInvldStorDriver},
		{"POST", "/v1/resource-groups", `{"name":"g1","props":{"No/Such":"1"}}`, 500, wire.FailInvldProp},
		{"POST", "/v1/resource-groups", `{"name":"g1","props":{"AutoplaceTarget":"1.5"}}`, 500, wire.FailInvldProp},
		{"POST", "/v1/controller/properties", `{"override_props":{"MaxOversubscriptionRatio":"much"}}`, 500, wire.FailInvldProp},
		{"POST", "/v1/controller/properties", `{"override_props":{"TcpPortAutoRange":"8000-7000"}}`, 500, wire.FailInvldProp},
		{"POST", "/v1/controller/properties", `{"override_props":{"TcpPortAutoRange":"1-70000"}}`, 500, wire.FailInvldProp},
		{"POST", "/v1/controller/properties", `{"override_props":{"Aux/a":"b","nope":"1"}}`, 500, wire.FailInvldProp},
		{"POST", "/v1/resource-definitions/r1/autoplace", `{"select_filter":{"place_count":0}}`, 500, wire.FailInvldPlaceCount},
		{"POST", "/v1/resource-definitions/r1/autoplace", `{"select_filter":{"place_count":-3}}`, 500, wire.FailInvldPlaceCount},
		{"POST", "/v1/resource-definitions/r1/autoplace", `{"select_filter":{"place_count":9}}`, 500, wire.FailNotEnoughNodes},
		{"POST", "/v1/resource-definitions/r1/autoplace", `{"select_filter":{"place_count":1,"node_name_list":["nobody"]}}`, 500, wire.FailNotEnoughNodes},
		{"POST", "/v1/resource-definitions/r1/autoplace", `{"select_filter":{"place_count":1,"storage_pool_list":["nopool"]}}`, 500, wire.FailNotEnoughNodes},
		{"PUT", "/v1/key-value-store/" + long, `{"override_props":{"a":"b"}}`, 500, wire.FailInvldKVSName},
		{"POST", "/v1/resource-definitions/r1/resources/n1", `{"resource":{"flags":["NVME_INITIATOR"]}}`, 500, wire.FailInvldRequest},
		{"PUT", "/v1/resource-definitions/r1/resources/n1", `{"drbd_client":true,"drbd_tiebreaker":true}`, 500, wire.FailInvldRequest},
		{"GET", "/v1/nodes?limit=many", "", 400, wire.APICallParseError},
		{"GET", "/v1/nodes?limit=1&offset=99999999999999", "", 400, wire.APICallParseError},
	} {
		e := c.do(x.method, x.path, x.body).code(x.status, x.code)
		if e.Message == "" {
			t.Errorf("%s %s %s has no message", x.method, x.path, x.body)
		}
	}
	view := c.store.Snapshot()
	if schema.VolumeDefinitions.Len(view) != 0 || schema.Definitions.Len(view) != 1 || schema.Nodes.Len(view) != 1 || schema.Groups.Len(view) != 1 {
		t.Error("something was made of what was refused")
	}
	if n := read[wire.Stats](c, "/v1/stats/error-reports").Count; n != 0 {
		t.Errorf("%d error reports were stored for mistakes of users", n)
	}
}

func TestUnknownFieldsAndParametersAreIgnored(t *testing.T) {
	c := newCluster(t)
	c.must(201, "POST", "/v1/resource-groups?future=1", `{"name":"g1","select_filter":{"place_count":1,"future":{"a":[1]}},"future":null}`)
	c.must(200, "GET", "/v1/resource-groups?cached=true&future=1&limit=0&offset=7", "")
}

func TestNamesIgnoreCaseAndKeepTheirLetters(t *testing.T) {
	c := newCluster(t)
	c.must(201, "POST", "/v1/resource-definitions", `{"resource_definition":{"name":"Vol-A"}}`)
	if d := read[wire.ResourceDefinition](c, "/v1/resource-definitions/vol-a"); d.Name != "Vol-A" {
		t.Errorf("the name is %q", d.Name)
	}
	c.do("POST", "/v1/resource-definitions", `{"resource_definition":{"name":"VOL-A"}}`).code(500, wire.FailExistsRscDfn)
	if l := read[[]wire.ResourceDefinition](c, "/v1/resource-definitions?resource_definitions=VOL-a&resource_definitions=vol-a"); len(l) != 1 {
		t.Errorf("the filter finds %d", len(l))
	}
}

func TestTheSameRequestTwice(t *testing.T) {
	c := newCluster(t)
	for _, x := range []struct {
		method, path, body string
		first              int
		again              wire.RetCode
		status             int
	}{
		{"POST", "/v1/nodes", `{"name":"n1","net_interfaces":[{"name":"default","address":"10.0.0.1"}]}`, 201, wire.FailExistsNode, 500},
		{"POST", "/v1/nodes/n1/net-interfaces", `{"name":"data","address":"10.0.0.2"}`, 201, wire.FailExistsNetIf, 500},
		{"POST", "/v1/resource-groups", `{"name":"g1"}`, 201, wire.FailExistsRscGrp, 500},
		{"POST", "/v1/resource-groups/g1/volume-groups", `{"volume_number":0}`, 201, wire.FailExistsVlmGrp, 500},
		{"POST", "/v1/resource-definitions", `{"resource_definition":{"name":"r1","external_name":"x y"}}`, 201, wire.FailExistsRscDfn, 500},
		{"POST", "/v1/resource-definitions/r1/volume-definitions", `{"volume_definition":{"volume_number":0,"size_kib":4}}`, 200, wire.FailExistsVlmDfn, 500},
		{"DELETE", "/v1/resource-definitions/r1/volume-definitions/0", "", 200, wire.WarnNotFound, 200},
		{"DELETE", "/v1/resource-definitions/r1", "", 200, wire.WarnNotFound, 200},
		{"DELETE", "/v1/resource-groups/g1/volume-groups/0", "", 200, wire.FailNotFoundVlmGrp, 404},
		{"DELETE", "/v1/resource-groups/g1", "", 200, wire.WarnNotFound, 200},
		{"DELETE", "/v1/nodes/n1/net-interfaces/data", "", 200, wire.WarnNotFound, 200},
		{"DELETE", "/v1/nodes/n1", "", 200, wire.WarnNotFound, 200},
	} {
		c.must(x.first, x.method, x.path, x.body)
		c.do(x.method, x.path, x.body).code(x.status, x.again)
	}
	c.must(201, "POST", "/v1/resource-definitions", `{"resource_definition":{"name":"r1","external_name":"x y"}}`)
	c.do("POST", "/v1/resource-definitions", `{"resource_definition":{"external_name":"x y"}}`).code(500, wire.FailExistsExtName)
}

// TestDeletesOfWhatHasNoParent: only the object itself may be absent.
func TestDeletesOfWhatHasNoParent(t *testing.T) {
	c := newCluster(t)
	for path, want := range map[string]wire.RetCode{
		"/v1/nodes/no/net-interfaces/default":              wire.FailNotFoundNode,
		"/v1/nodes/no/storage-pools/pool":                  wire.FailNotFoundNode,
		"/v1/resource-definitions/no/resources/n1":         wire.FailNotFoundRscDfn,
		"/v1/resource-definitions/no/volume-definitions/0": wire.FailNotFoundRscDfn,
		"/v1/resource-definitions/no/snapshots/s1":         wire.FailNotFoundRscDfn,
		"/v1/resource-groups/no/volume-groups/0":           wire.FailNotFoundRscGrp,
	} {
		c.do("DELETE", path, "").code(404, want)
	}
	c.must(201, "POST", "/v1/resource-definitions", `{"resource_definition":{"name":"r1"}}`)
	c.do("DELETE", "/v1/resource-definitions/r1/snapshots/s1", "").code(200, wire.WarnNotFound)
	c.do("DELETE", "/v1/resource-definitions/r1/resources/nowhere", "").code(200, wire.WarnNotFound)
	c.do("GET", "/v1/resource-definitions/r1/snapshots/s1", "").code(404, wire.FailNotFoundSnapshot)
}
