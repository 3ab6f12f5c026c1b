// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/rest"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

// golinstor reads a list where the API's specification, and what is generated from it, has a map.
func TestDescriptionsOfPropertiesHaveTheShapeThatTheClientReads(t *testing.T) {
	c := newCluster(t)
	paths := strings.NewReplacer("{resource}", "r", "{node}", "n", "{resource_group}", "g")
	asked := 0
	for _, r := range rest.Routes() {
		if r.Method != http.MethodGet || !strings.Contains(r.Path, "/properties/info") {
			continue
		}
		asked++
		path := paths.Replace(r.Path)
		none := r.State == rest.Empty
		for _, program := range []string{"Go-http-client/1.1", "linstor-csi/v1.12.0", "linstor-operator/1"} {
			var list []wire.PropsInfo
			c.do("GET", path, "", "User-Agent", program).into(&list)
			if len(list) == 0 != none {
				t.Errorf("%s gives %s a list of %d", path, program, len(list))
			}
			for i, info := range list {
				if info.Key == "" || info.PropType == "" || i > 0 && info.Key <= list[i-1].Key {
					t.Errorf("%s: entry %d is %+v", path, i, info)
				}
			}
		}
		for _, program := range []string{"OpenAPI-Generator/1.0/java", "Mozilla/5.0", "curl/8"} {
			if strings.HasSuffix(path, "/all") {
				var all wire.PropsInfoAll
				c.do("GET", path, "", "User-Agent", program).into(&all)
				if all["controller"]["Autoplacer/Weights/MaxFreeSpace"].PropType == "" {
					t.Errorf("%s gives %s no word of weights", path, program)
				}
				continue
			}
			var byKey wire.PropsInfoMap
			c.do("GET", path, "", "User-Agent", program).into(&byKey)
			if len(byKey) == 0 != none {
				t.Errorf("%s gives %s a map of %d", path, program, len(byKey))
			}
		}
	}
	if asked < 12 {
		t.Errorf("only %d operations were asked", asked)
	}
}
