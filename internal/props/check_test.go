// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package props_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/props"
)

func allScopes() []props.Scope {
	return []props.Scope{
		props.Controller, props.Node, props.Pool, props.Group, props.VolumeGroup, props.Definition, props.VolumeDefinition, props.Resource, props.Volume,
		props.NodeConnection, props.ResourceConnection, props.Snapshot,
	}
}

const anyScope = props.Scope(1<<16 - 1)

func TestTableIsSortedUniqueAndSound(t *testing.T) {
	last := ""
	for info := range props.All(anyScope) {
		if info.Key <= last {
			t.Errorf("%q comes after %q", info.Key, last)
		}
		last = info.Key
		switch {
		case info.Scopes == 0:
			t.Errorf("%s: may be set nowhere", info.Key)
		case len(info.Text) < 10 || !strings.HasSuffix(info.Text, ".") || strings.ContainsAny(info.Text, "\n\t"):
			t.Errorf("%s: the text %q is no sentence", info.Key, info.Text)
		case info.Max < info.Min:
			t.Errorf("%s: no number is from %v to %v", info.Key, info.Min, info.Max)
		case (info.Type == props.Enum || info.Type == props.IntegerOr) == (len(info.Values) == 0) && info.Type != props.Name:
			t.Errorf("%s: its words do not go with its type", info.Key)
		case info.Default != "" && !info.Accepts(info.Default):
			t.Errorf("%s: the default %q is not allowed: use %s", info.Key, info.Default, info.Allowed())
		case len(info.Chain()) == 0:
			t.Errorf("%s: has no chain", info.Key)
		}
		if found, ok := props.Lookup(strings.NewReplacer("*", "x", "<path>", "p", "<node>", "n").Replace(info.Key)); !ok || found.Key != info.Key {
			t.Errorf("%s: looking it up finds %q", info.Key, found.Key)
		}
	}
}

func TestGroupsTakeWhatDefinitionsTake(t *testing.T) {
	for info := range props.All(anyScope) {
		if (info.Scopes&props.Definition != 0) != (info.Scopes&props.Group != 0) {
			t.Errorf("%s: definitions and groups differ", info.Key)
		}
		if (info.Scopes&props.VolumeDefinition != 0) != (info.Scopes&props.VolumeGroup != 0) && info.Key != "Encryption/Passphrase" {
			t.Errorf("%s: volume definitions and volume groups differ", info.Key)
		}
	}
}

// What LINSTOR's clients are known to set must be accepted.
func TestCheckAcceptsWhatClientsSet(t *testing.T) {
	for _, c := range []struct {
		scope      props.Scope
		key, value string
	}{
		{props.Controller, "DrbdOptions/auto-add-quorum-tiebreaker", "True"},
		{props.Controller, "DrbdOptions/auto-diskful-allow-cleanup", "True"},
		{props.Controller, "DrbdOptions/AutoEvictAllowEviction", "False"},
		{props.Controller, "TcpPortAutoRange", "7000-7999"},
		{props.Controller, "MinorNrAutoRange", "1000-49999"},
		{props.Controller, "Autoplacer/Weights/MaxFreeSpace", "0.5"},
		{props.Controller, "NetCom/SslConnector/PeerAddress", "::0"},
		{props.Node, "Aux/piraeus.io/last-applied", `["Aux/topology/linbit.com/hostname"]`},
		{props.Node, "PrefNic", "data"},
		{props.Node, "AutoplaceTarget", "no"},
		{props.Pool, "StorDriver/StorPoolName", "vg0/thinpool"},
		{props.Pool, "StorDriver/StorPoolName", "/mnt/nfs-1/pool.d"},
		{props.Pool, "StorDriver/LvmVg", "vg_ssd"},
		{props.Pool, "MaxOversubscriptionRatio", "2"},
		{props.Pool, "Aux/pool-label", "fast"},
		{props.Group, "DrbdOptions/auto-quorum", "suspend-io"},
		{props.Group, "DrbdOptions/Resource/on-no-data-accessible", "suspend-io"},
		{props.Group, "DrbdOptions/Resource/on-suspended-primary-outdated", "force-secondary"},
		{props.Group, "DrbdOptions/Net/rr-conflict", "retry-connect"},
		{props.Group, "FileSystem/Type", "xfs"},
		{props.Group, "StorPoolName", "pool_a"},
		{props.Definition, "Aux/csi-volume-annotations", `{"name":"pvc-1","fs":"ext4"}`},
		{props.Definition, "Aux/csi-provisioning-completed-by", "linstor-csi/v1.12.0"},
		{props.Definition, "Aux/pm/vmid", "100"},
		{props.Definition, "DrbdOptions/Net/allow-two-primaries", "yes"},
		{props.Definition, "DrbdOptions/Resource/quorum", "off"},
		{props.Definition, "DrbdOptions/Resource/quorum", "2"},
		{props.Definition, "DrbdOptions/PeerDevice/c-max-rate", "737280"},
		{props.VolumeDefinition, "FileSystem/MkfsParams", "-E nodiscard -L 'a b'"},
		{props.VolumeDefinition, "sys/fs/blkio_throttle_read_iops", "1000"},
		{props.VolumeDefinition, "StorDriver/LvcreateOptions", "-i 4"},
		{props.VolumeGroup, "StorPoolName", "pool_a"},
		{props.Resource, "StorPoolName", "DfltDisklessStorPool"},
		{props.Resource, "StorPoolNameDrbdMeta", ".internal"},
		{props.Resource, "DrbdOptions/SkipDisk", "True"},
		{props.Volume, "DrbdOptions/Disk/on-io-error", "detach"},
		{props.ResourceConnection, "DrbdOptions/Net/allow-two-primaries", "yes"},
		{props.ResourceConnection, "DrbdOptions/Net/protocol", "C"},
		{props.NodeConnection, "Paths/path1/node-a", "nic1"},
		{props.ResourceConnection, "/Paths/path1/node-a", "nic1"},
		{props.Snapshot, "Aux/why", "before the upgrade"},
	} {
		if err := props.Check(c.scope, model.PropsChange{Set: map[string]string{c.key: c.value}}); err != nil {
			t.Errorf("%s of %s set to %q: %v", c.key, c.scope, c.value, err)
		}
	}
}

func TestCheckSaysWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		scope      props.Scope
		key, value string
		want       string
	}{
		{props.Group, "DrbdOptions/auto-quorom", "disabled", `the property "DrbdOptions/auto-quorom" of resource groups cannot be set: no such property is known (did you mean "DrbdOptions/auto-quorum"?)`},
		{props.Group, "drbdoptions/auto-quorum", "disabled", `the property "drbdoptions/auto-quorum" of resource groups cannot be set: no such property is known (did you mean "DrbdOptions/auto-quorum"?)`},
		{props.Node, "zone", "a", `the property "zone" of nodes cannot be set: no such property is known (keys of your own go below Aux/, such as "Aux/zone")`},
		{props.Definition, "team-that-owns-it", "a", `the property "team-that-owns-it" of resource definitions cannot be set: no such property is known (keys of your own go below Aux/, such as "Aux/team-that-owns-it")`},
		{props.Node, "TcpPortAutoRange", "7000-7999", `the property "TcpPortAutoRange" of nodes cannot be set: it is a property of the controller`},
		{props.Controller, "TcpPortAutoRange", "7000-70000", `the property "TcpPortAutoRange" of the controller cannot be set to "7000-70000": the value is not allowed (use two numbers from 1 to 65535 such as 7000-7999)`},
		{props.Controller, "TcpPortAutoRange", "8000-7999", `the property "TcpPortAutoRange" of the controller cannot be set to "8000-7999": the value is not allowed (use two numbers from 1 to 65535 such as 7000-7999)`},
		{props.Definition, "DrbdOptions/Net/ping-int", "0", `the property "DrbdOptions/Net/ping-int" of resource definitions cannot be set to "0": the value is not allowed (use a whole number from 1 to 120 (seconds))`},
		{props.Definition, "DrbdOptions/Resource/quorum", "most", `the property "DrbdOptions/Resource/quorum" of resource definitions cannot be set to "most": the value is not allowed (use a whole number from 1 to 32, or one of off, majority, all)`},
		{props.Pool, "MaxOversubscriptionRatio", "0", `the property "MaxOversubscriptionRatio" of storage pools cannot be set to "0": the value is not allowed (use a number from 0.001 to 1000)`},
		{props.Pool, "MaxOversubscriptionRatio", "NaN", `the property "MaxOversubscriptionRatio" of storage pools cannot be set to "NaN": the value is not allowed (use a number from 0.001 to 1000)`},
		{props.Pool, "AutoplaceTarget", "maybe", `the property "AutoplaceTarget" of storage pools cannot be set to "maybe": the value is not allowed (use True or False)`},
		{props.Pool, "StorDriver/StorPoolName", "--force", `the property "StorDriver/StorPoolName" of storage pools cannot be set to "--force": the value is not allowed (use a path without blanks, quotes and backslashes that does not start with '-')`},
		{props.Definition, "DrbdOptions/Handlers/split-brain", "a\"; b", `the property "DrbdOptions/Handlers/split-brain" of resource definitions cannot be set to "a\"; b": the value is not allowed (use printable text without double quotes and backslashes)`},
		{props.Definition, "FileSystem/MkfsParams", `a\b`, `the property "FileSystem/MkfsParams" of resource definitions cannot be set to "a\\b": the value is not allowed (use printable text without double quotes and backslashes)`},
		{props.Definition, "DrbdOptions/Net/shared-secret", "hush\nhush", `the property "DrbdOptions/Net/shared-secret" of resource definitions cannot be set to this value: the value is not allowed (use printable text without double quotes and backslashes)`},
		{props.Node, "NodeUname", "x", `the property "NodeUname" of nodes cannot be set: it is kept by the controller itself`},
		{props.Node, "", "x", `the property key "" is not valid: it is empty`},
		{props.Node, "/", "x", `the property key "/" is not valid: it is empty`},
		{props.Node, "Aux//x", "x", `the property key "Aux//x" is not valid: it has an empty part between slashes`},
		{props.Node, "Aux/", "x", `the property key "Aux/" is not valid: it has an empty part between slashes`},
		{props.Node, "Aux/\n", "x", `the property key "Aux/\n" is not valid: it has a character that cannot be printed`},
		{props.Node, "Aux/" + strings.Repeat("k", 300), "x", `the property key "Aux/` + strings.Repeat("k", 76) + `..." is not valid: it has 304 bytes, and at most 256 are allowed`},
		{props.Node, "Aux/k", strings.Repeat("v", 40000), `the property "Aux/k" of nodes cannot be set to "` + strings.Repeat("v", 80) + `...": the value has 40000 bytes, and at most 32768 are allowed`},
		{props.NodeConnection, "Paths/p", "nic1", `the property "Paths/p" of node connections cannot be set: no such property is known (keys of your own go below Aux/, such as "Aux/Paths/p")`},
	} {
		err := props.Check(c.scope, model.PropsChange{Set: map[string]string{c.key: c.value}})
		e := errs.As(err)
		if e == nil || e.Kind != errs.Invalid || e.Attr != errs.Property || e.Object == errs.NoObject {
			t.Errorf("%q = %q: the error is %#v", c.key, c.value, err)
			continue
		}
		if e.Error() != c.want {
			t.Errorf("%q = %q:\n got %s\nwant %s", c.key, c.value, e.Error(), c.want)
		}
	}
}

func TestCheckNamesAllFaultsOfAChange(t *testing.T) {
	err := props.Check(props.Node, model.PropsChange{Set: map[string]string{"Aux/fine": "1", "b": "1", "a": "1", "AutoplaceTarget": "x"}})
	want := `the property "AutoplaceTarget" of nodes cannot be set to "x": the value is not allowed
the property "a" of nodes cannot be set: no such property is known
the property "b" of nodes cannot be set: no such property is known`
	if got := errs.As(err); got == nil || got.Details != want {
		t.Errorf("details are\n%s\nwant\n%s", got.Details, want)
	}
}

func TestCheckRefusesOneKeyInTwoSpellings(t *testing.T) {
	err := props.Check(props.Node, model.PropsChange{Set: map[string]string{"Aux/a": "1", "/Aux/a": "2"}})
	if !errs.Is(err, errs.Invalid) {
		t.Errorf("the error is %v", err)
	}
}

func TestCheckLetsAnythingBeDeleted(t *testing.T) {
	change := model.PropsChange{Delete: []string{"of an older version", "NodeUname"}, DeleteNamespaces: []string{"Old"}}
	if err := props.Check(props.Node, change); err != nil {
		t.Error(err)
	}
}

func TestCheckRefusesTooManyProperties(t *testing.T) {
	set := map[string]string{}
	for i := range 1001 {
		set["Aux/"+strings.Repeat("k", i%200+1)+string(rune('a'+i%26))+string(rune('a'+i/26%26))+string(rune('a'+i/676))] = ""
	}
	if err := props.Check(props.Node, model.PropsChange{Set: set}); len(set) != 1001 || !errs.Is(err, errs.Invalid) {
		t.Errorf("%d properties: the error is %v", len(set), err)
	}
}

func TestSecretsAreKnown(t *testing.T) {
	for key, want := range map[string]bool{
		"DrbdOptions/Net/shared-secret": true, "/DrbdOptions/Net/shared-secret": true, "Encryption/Passphrase": true,
		"DrbdOptions/Net/cram-hmac-alg": false, "Aux/secret": false, "unknown": false,
	} {
		if got := props.Secret(key); got != want {
			t.Errorf("Secret(%q) = %t", key, got)
		}
	}
}

func TestBackendKeysAreKnown(t *testing.T) {
	for _, key := range props.BackendKeys() {
		if info, ok := props.Lookup(key); !ok || info.Scopes != props.Pool {
			t.Errorf("%s is not a property of pools alone", key)
		}
	}
}

func TestCleanChangeStripsSlashes(t *testing.T) {
	c := props.CleanChange(model.PropsChange{
		Set: map[string]string{"/Aux/a": "1", "Aux/b": "2"}, Delete: []string{"/Aux/c"}, DeleteNamespaces: []string{"/Aux"},
	})
	if c.Set["Aux/a"] != "1" || c.Set["Aux/b"] != "2" || len(c.Set) != 2 || !slices.Equal(c.Delete, []string{"Aux/c"}) || !slices.Equal(c.DeleteNamespaces, []string{"Aux"}) {
		t.Errorf("the clean change is %v", c)
	}
}

func FuzzCheck(f *testing.F) {
	for info := range props.All(anyScope) {
		f.Add(uint8(0), info.Key, info.Default)
	}
	for _, value := range []string{"", "True", "7000-7999", "10%", "5GiB", "1e309", "-1", "NaN", "0x10", "+5", "\x00", "\xff", strings.Repeat("9", 400), "a\"b", "9-1", "-", "%"} {
		f.Add(uint8(5), "TcpPortAutoRange", value)
		f.Add(uint8(0), "Autoplacer/MinThinFreeSpace", value)
		f.Add(uint8(5), "/Aux/x", value)
	}
	f.Fuzz(func(t *testing.T, scope uint8, key, value string) {
		s := allScopes()[int(scope)%len(allScopes())]
		change := model.PropsChange{Set: map[string]string{key: value}}
		err := props.Check(s, change)
		if len(change.Set) != 1 || change.Set[key] != value {
			t.Fatal("the change was changed")
		}
		clean := props.CleanChange(change)
		if err != nil {
			if !errs.Is(err, errs.Invalid) || len(err.Error()) > 4096 {
				t.Fatalf("the error is %v", err)
			}
			return
		}
		if errClean := props.Check(s, clean); errClean != nil {
			t.Fatalf("clean it is refused: %v", errClean)
		}
		info, ok := props.Lookup(key)
		if !ok || info.Internal || info.Scopes&s == 0 {
			t.Fatalf("%q was accepted for %s", key, s)
		}
		level := props.Level{Scope: s, Props: model.PropsOf(clean.Set)}
		if got, _, ok := props.Effective(props.Clean(key), level); !ok || got.Text != value || got.Scope != s {
			t.Fatalf("%q = %q is not effective: %v", key, value, got)
		}
		if n := props.Part(props.Clean(key), 1000, level); n < 0 {
			t.Fatalf("a part of 1000 is %d", n)
		}
		if strings.ContainsAny(value, "\n\"\\") && info.Type != props.Free {
			t.Fatalf("%q = %q could break out of a configuration file", key, value)
		}
	})
}
