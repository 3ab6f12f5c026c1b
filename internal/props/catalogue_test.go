// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package props_test

import (
	"os"
	"strings"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/props"
)

// TestEveryKeyOfLINSTORIsKnownWhereLINSTORKnowsIt goes through the keys that clients may set.
func TestEveryKeyOfLINSTORIsKnownWhereLINSTORKnowsIt(t *testing.T) {
	text, err := os.ReadFile("testdata/keys.txt")
	if err != nil {
		t.Fatal(err)
	}
	scopes := map[string]props.Scope{
		"controller": props.Controller, "node": props.Node, "pool": props.Pool, "definition": props.Definition,
		"volume-definition": props.VolumeDefinition, "resource": props.Resource, "volume": props.Volume,
		"node-connection": props.NodeConnection, "resource-connection": props.ResourceConnection,
	}
	keys, places := 0, 0
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		keys++
		words := strings.Fields(line)
		for _, name := range words[1:] {
			places++
			scope, known := scopes[name]
			if !known {
				t.Fatalf("no scope is named %q", name)
			}
			found := false
			for info := range props.All(scope) {
				space, wild := strings.CutSuffix(info.Key, "*")
				if found = info.Key == words[0] || wild && strings.HasPrefix(words[0], space); found {
					break
				}
			}
			if !found {
				t.Errorf("%s is not known at a %s", words[0], name)
				continue
			}
			// It can be deleted there, whoever set it.
			c := model.PropsChange{Delete: []string{words[0]}}
			if err := props.Accept(scope, &c); err != nil {
				t.Errorf("%s of a %s cannot be deleted: %v", words[0], name, err)
			}
		}
	}
	if keys < 200 || places < 600 {
		t.Errorf("only %d keys at %d places were looked at", keys, places)
	}
}
