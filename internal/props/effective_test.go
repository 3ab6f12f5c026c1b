// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package props_test

import (
	"math"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/props"
)

func level(scope props.Scope, pairs ...string) props.Level {
	m := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return props.Level{Scope: scope, Props: model.PropsOf(m)}
}

func TestChainsAreThoseOfLinstor(t *testing.T) {
	for key, want := range map[string][]props.Scope{
		"StorPoolName":                 {props.Volume, props.Resource, props.VolumeDefinition, props.VolumeGroup, props.Definition, props.Group, props.Node},
		"DrbdOptions/Resource/quorum":  {props.Resource, props.Definition, props.Group, props.Node, props.Controller},
		"DrbdOptions/auto-quorum":      {props.Definition, props.Group, props.Controller},
		"AllowMixingStoragePoolDriver": {props.Definition, props.Group, props.Controller},
		"DrbdOptions/Disk/on-io-error": {props.Volume, props.Resource, props.VolumeDefinition, props.VolumeGroup, props.Definition, props.Group, props.Node, props.Controller},
		"DrbdOptions/Net/protocol":     {props.ResourceConnection, props.Definition, props.NodeConnection, props.Group, props.Controller},
		"PrefNic":                      {props.Pool, props.Resource, props.Definition, props.Group, props.Node, props.Controller},
		"MaxOversubscriptionRatio":     {props.Pool, props.Controller},
		"StorDriver/LvcreateOptions":   {props.VolumeDefinition, props.VolumeGroup, props.Definition, props.Group, props.Pool, props.Node, props.Controller},
	} {
		info, _ := props.Lookup(key)
		if diff := cmp.Diff(want, info.Chain()); diff != "" {
			t.Errorf("%s: %s", key, diff)
		}
	}
}

func TestEffectiveIsTheFirstOfTheChainInWhateverOrderTheLevelsCome(t *testing.T) {
	const key = "DrbdOptions/Net/protocol"
	value, hidden, ok := props.Effective(key,
		level(props.Controller, key, "A"), level(props.Node, key, "A"), level(props.Group, key, "B"), level(props.Definition), level(props.ResourceConnection, key, "C"))
	want := []props.Value{{"B", props.Group}, {"A", props.Controller}}
	if !ok || value != (props.Value{"C", props.ResourceConnection}) || !slices.Equal(hidden, want) {
		t.Errorf("got %v, %v, %t: a node's value is not inherited, and the others are %v", value, hidden, ok, want)
	}
	if _, _, ok := props.Effective(key, level(props.Node, key, "A")); ok {
		t.Error("a value that is not inherited was found")
	}
}

func TestAuxiliaryKeysAreLookedUpInTheOrderOfTheLevels(t *testing.T) {
	value, hidden, ok := props.Effective("Aux/a", level(props.Group, "Aux/a", "1"), level(props.Resource, "Aux/a", "2"))
	if !ok || value.Text != "1" || len(hidden) != 1 || hidden[0].Text != "2" {
		t.Errorf("got %v, %v, %t", value, hidden, ok)
	}
}

func TestTypedValuesSkipWhatIsNotAllowedAndFallBackToTheDefault(t *testing.T) {
	bad, good := level(props.Group, "AutoSnapshot/Keep", "ten"), level(props.Controller, "AutoSnapshot/Keep", "3")
	if n, ok := props.Int("AutoSnapshot/Keep", bad, good); !ok || n != 3 {
		t.Errorf("got %d, %t", n, ok)
	}
	if n, ok := props.Int("AutoSnapshot/Keep", bad); !ok || n != 10 {
		t.Errorf("got %d, %t", n, ok)
	}
	if n, ok := props.Int("AutoSnapshot/RunEvery"); ok {
		t.Errorf("without a default got %d", n)
	}
	if _, ok := props.Int("DrbdOptions/Resource/quorum", level(props.Group, "DrbdOptions/Resource/quorum", "majority")); ok {
		t.Error("a word is a number")
	}
	if !props.Bool("DrbdOptions/auto-add-quorum-tiebreaker") || props.Bool("DrbdOptions/auto-add-quorum-tiebreaker", level(props.Definition, "DrbdOptions/auto-add-quorum-tiebreaker", "No")) {
		t.Error("the tie-breaker's default is true, and No is false")
	}
	if f, ok := props.Float("MaxOversubscriptionRatio"); !ok || f != 20 {
		t.Errorf("got %v, %t", f, ok)
	}
	if _, ok := props.Float("MaxFreeCapacityOversubscriptionRatio"); ok {
		t.Error("the special ratio has a default of its own")
	}
	if low, high, ok := props.Range("TcpPortAutoRange"); !ok || low != 7000 || high != 31999 {
		t.Errorf("got %d-%d, %t", low, high, ok)
	}
	if text, ok := props.Text("FileSystem/Type", level(props.VolumeDefinition, "FileSystem/Type", "xfs"), level(props.Group, "FileSystem/Type", "ext4")); !ok || text != "xfs" {
		t.Errorf("got %q, %t", text, ok)
	}
}

func TestPart(t *testing.T) {
	const key = "Autoplacer/MinThinFreeSpace"
	for value, want := range map[string]int64{
		"10%": 100 << 30, "12.5 %": 125 << 30, "0%": 0, "100%": 1000 << 30, "5GiB": 5 << 30, "5G": 5 << 30, "5Gi": 5 << 30, "5 gb": 5e9, "1.5m": 3 << 19,
		"7": 7 << 10, "7b": 7, "8s": 4096, "2TiB": 2 << 40,
	} {
		if got := props.Part(key, 1000<<30, level(props.Node, key, value)); got != want {
			t.Errorf("%s of 1000 GiB is %d, want %d", value, got, want)
		}
	}
	if got := props.Part(key, 1000); got != 100 {
		t.Errorf("the default part is %d", got)
	}
	info, _ := props.Lookup(key)
	for _, value := range []string{"", "%", "101%", "-1%", "5X", "5PiB", "G", "1e3", "0x10", "NaN%", "Inf", "5kk", "5%%", "5 G B", "99999999999T", "5ib"} {
		if info.Accepts(value) {
			t.Errorf("%q is accepted", value)
		}
	}
}

func TestNamespaceCollectsWhatHolds(t *testing.T) {
	got := props.Namespace("DrbdOptions/Net",
		level(props.Controller, "DrbdOptions/Net/ping-int", "5", "DrbdOptions/Net/timeout", "50", "DrbdOptions/Network", "x"),
		level(props.Definition, "DrbdOptions/Net/ping-int", "7"),
		level(props.Node, "DrbdOptions/Net/ko-count", "9"))
	want := map[string]props.Value{"ping-int": {"7", props.Definition}, "timeout": {"50", props.Controller}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAcceptsIsExactAtTheBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var numeric []props.Info
		for info := range props.All(anyScope) {
			if info.Type == props.Integer && info.Max > 0 && info.Max < math.MaxInt64/4 {
				numeric = append(numeric, info)
			}
		}
		info := rapid.SampledFrom(numeric).Draw(t, "property")
		n := rapid.OneOf(rapid.Int64(), rapid.Int64Range(int64(info.Min)-2, int64(info.Min)+2), rapid.Int64Range(int64(info.Max)-2, int64(info.Max)+2)).Draw(t, "n")
		want := n >= int64(info.Min) && n <= int64(info.Max)
		if got := info.Accepts(strconv.FormatInt(n, 10)); got != want {
			t.Fatalf("%s accepts %d: %t", info.Key, n, got)
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	change := model.PropsChange{Set: map[string]string{
		"Aux/csi-volume-name": "pvc-1", "DrbdOptions/Net/protocol": "C", "StorPoolName": "pool_a", "DrbdOptions/auto-quorum": "io-error",
	}}
	for b.Loop() {
		if err := props.Check(props.Definition, change); err != nil {
			b.Fatal(err)
		}
	}
}
