// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/holdfast-storage/holdfast/internal/agent/drbd/config"
	"github.com/holdfast-storage/holdfast/internal/command"
)

var update = flag.Bool("update", false, "write the golden files anew")

func path(local, remote string) []config.Path {
	return []config.Path{{Local: netip.MustParseAddrPort(local), Remote: netip.MustParseAddrPort(remote)}}
}

// examples are one of each kind of resource.
func examples() map[string]*config.Resource {
	return map[string]*config.Resource{
		"two-replicas-and-tie-breaker": {
			Name: "r0", Host: "alpha", Options: config.Options{"quorum": "majority", "on-no-quorum": "io-error"},
			Volumes: []config.Volume{{Minor: 1000, Disk: "/dev/mapper/vg0-r0"}},
			Peers: []config.Peer{
				{Name: "charlie", NodeID: 2, Diskless: true, Paths: path("10.0.0.1:7000", "10.0.0.3:7000")},
				{Name: "bravo", NodeID: 1, Paths: path("10.0.0.1:7000", "10.0.0.2:7000")},
			},
		},
		"client": {
			Name: "r0", Host: "charlie.example.org", NodeID: 2, Volumes: []config.Volume{{Minor: 1000}, {Number: 1, Minor: 1001}},
			Peers: []config.Peer{{Name: "alpha", Paths: path("[fd00::3]:7000", "[fd00::1]:7000")}},
		},
		"alone": {Name: "r0", Host: "alpha", Volumes: []config.Volume{{Minor: 1000, Disk: "/dev/zvol/tank/r0"}}},
		"everything": {
			Name: "db_1.a-b", Host: "alpha", NodeID: 5, Secret: `s+/= 'quoted' #;{}`, Transport: "tcp",
			Options: config.Options{"auto-promote": "no", "quorum": "2"}, Handlers: config.Options{"quorum-lost": `/bin/sh -c "logger 'lost'"; true`},
			Net: config.Options{"allow-two-primaries": "yes", "verify-alg": "crc32c", "ping-int": "5"}, Disk: config.Options{"on-io-error": "detach", "al-extents": "1237"},
			PeerDevice: config.Options{"c-max-rate": "100M"},
			Volumes: []config.Volume{
				{Number: 7, Minor: 1048575, Disk: "/dev/vg/b", Meta: "/dev/vg/meta"},
				{Number: 0, Minor: 0, Disk: "/dev/vg/a", Options: config.Options{"al-extents": "67"}},
			},
			Peers: []config.Peer{{
				Name: "bravo", NodeID: 31, Net: config.Options{"ping-int": "9"}, PeerDevice: config.Options{"c-max-rate": "50M"},
				Paths: append(path("10.0.0.1:7000", "10.0.0.2:7001"), path("10.1.0.1:7000", "10.1.0.2:7001")...),
			}},
		},
	}
}

func TestFilesAreCompleteAndAlwaysTheSame(t *testing.T) {
	for name, r := range examples() {
		got, err := config.Format(r)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		golden := filepath.Join("testdata", name+".res")
		if *update {
			if err := os.WriteFile(golden, got, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestWhatDrbdadmLetsPassIsRefused has what drbdadm takes without a word, or with a warning, and then acts upon.
func TestWhatDrbdadmLetsPassIsRefused(t *testing.T) {
	for name, spoil := range map[string]func(*config.Resource){
		"node id 32":                      func(r *config.Resource) { r.Peers[0].NodeID = 32 },
		"own node id below zero":          func(r *config.Resource) { r.NodeID = -1 },
		"node id twice":                   func(r *config.Resource) { r.Peers[0].NodeID = r.Peers[1].NodeID },
		"a peer with this host's node id": func(r *config.Resource) { r.Peers[0].NodeID = r.NodeID },
		"minor above all":                 func(r *config.Resource) { r.Volumes[0].Minor = 1 << 20 },
		"volume number above all":         func(r *config.Resource) { r.Volumes[0].Number = 65535 },
		"volume twice":                    func(r *config.Resource) { r.Volumes = append(r.Volumes, config.Volume{Minor: 9, Disk: "/dev/x"}) },
		"minor twice": func(r *config.Resource) {
			r.Volumes = append(r.Volumes, config.Volume{Number: 1, Minor: 1000, Disk: "/dev/x"})
		},
		"disk twice": func(r *config.Resource) {
			r.Volumes = append(r.Volumes, config.Volume{Number: 1, Minor: 9, Disk: r.Volumes[0].Disk})
		},
		"metadata without a disk":          func(r *config.Resource) { r.Volumes[0] = config.Volume{Minor: 9, Meta: "/dev/x"} },
		"no volume":                        func(r *config.Resource) { r.Volumes = nil },
		"a disk outside of /dev":           func(r *config.Resource) { r.Volumes[0].Disk = "/etc/passwd" },
		"a disk by a way around":           func(r *config.Resource) { r.Volumes[0].Disk = "/dev/../etc/passwd" },
		"a disk that ends the line":        func(r *config.Resource) { r.Volumes[0].Disk = "/dev/x\ny" },
		"the name all":                     func(r *config.Resource) { r.Name = "all" },
		"a name with a slash":              func(r *config.Resource) { r.Name = "a/b" },
		"a name with a space":              func(r *config.Resource) { r.Name = "a b" },
		"a name like an option":            func(r *config.Resource) { r.Name = "-a" },
		"a name of a folder":               func(r *config.Resource) { r.Name = ".." },
		"a host without a name":            func(r *config.Resource) { r.Host = "" },
		"a peer with this host's name":     func(r *config.Resource) { r.Peers[0].Name = r.Host },
		"a peer without an address":        func(r *config.Resource) { r.Peers[0].Paths = nil },
		"an address without a port":        func(r *config.Resource) { r.Peers[0].Paths = path("10.0.0.1:0", "10.0.0.2:7000") },
		"any address":                      func(r *config.Resource) { r.Peers[0].Paths = path("0.0.0.0:7000", "10.0.0.2:7000") },
		"one address for both ends":        func(r *config.Resource) { r.Peers[0].Paths = path("10.0.0.1:7000", "10.0.0.1:7000") },
		"ends of two families":             func(r *config.Resource) { r.Peers[0].Paths = path("10.0.0.1:7000", "[fd00::1]:7000") },
		"a path for two peers":             func(r *config.Resource) { r.Peers[0].Paths = r.Peers[1].Paths },
		"a secret that is too long":        func(r *config.Resource) { r.Secret = strings.Repeat("x", 64) },
		"a secret that ends the line":      func(r *config.Resource) { r.Secret = "a\nb" },
		"a secret with a quote":            func(r *config.Resource) { r.Secret = `a"b` },
		"a secret with a backslash":        func(r *config.Resource) { r.Secret = `a\b` },
		"an option that ends its section":  func(r *config.Resource) { r.Options = config.Options{"quorum": "1;\n} x {"} },
		"an option's name with a space":    func(r *config.Resource) { r.Net = config.Options{"a b": "1"} },
		"a secret among the options":       func(r *config.Resource) { r.Net = config.Options{"shared-secret": "x"} },
		"a size that would shrink devices": func(r *config.Resource) { r.Disk = config.Options{"size": "1G"} },
		"the same for one volume":          func(r *config.Resource) { r.Volumes[0].Options = config.Options{"size": "1G"} },
		"a transport that is none":         func(r *config.Resource) { r.Transport = "t;" },
	} {
		r := examples()["two-replicas-and-tie-breaker"]
		spoil(r)
		_, err := config.Format(r)
		var invalid *config.InvalidError
		if !errors.As(err, &invalid) || invalid.Why == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestErrorsDoNotShowTheSecret(t *testing.T) {
	r := examples()["alone"]
	r.Secret = "marker\x01"
	if _, err := config.Format(r); err == nil || strings.Contains(err.Error(), "marker") {
		t.Errorf("%v", err)
	}
}

// TestNoValueLeavesItsPlace counts braces and semicolons outside of quotes: they are the same whatever the values are.
func TestNoValueLeavesItsPlace(t *testing.T) {
	shape := func(text []byte) string {
		var out strings.Builder
		quoted, escaped := false, false
		for _, c := range text {
			switch {
			case escaped:
				escaped = false
			case quoted && c == '\\':
				escaped = true
			case c == '"':
				quoted = !quoted
			case !quoted && (c == '{' || c == '}' || c == ';'):
				out.WriteByte(c)
			case c == '\n' && quoted:
				out.WriteString("a line ends in a value")
			}
		}
		return out.String()
	}
	plain := examples()["everything"]
	want, err := config.Format(plain)
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		r := examples()["everything"]
		r.Handlers["quorum-lost"] = rapid.String().Draw(t, "handler")
		r.Secret = rapid.StringN(1, 20, 60).Draw(t, "secret")
		got, err := config.Format(r)
		if err == nil && shape(got) != shape(want) {
			t.Fatalf("%s", got)
		}
	})
}

// answer is drbdadm with one answer.
func answer(code int, stderr string, calls *[]string) command.RunnerFunc {
	return func(_ context.Context, c command.Command) (command.Result, error) {
		*calls = append(*calls, c.Program+" "+strings.Join(c.Args, " "))
		if code != 0 {
			return command.Result{}, &command.Error{Kind: command.Exited, Program: c.Program, Code: code, Stderr: stderr}
		}
		return command.Result{}, nil
	}
}

func TestFileIsReplacedOnlyByOneThatDrbdadmTakes(t *testing.T) {
	dir := t.TempDir()
	var calls []string
	good := config.Folder{Path: dir, Runner: answer(0, "", &calls)}
	first, _ := config.Format(examples()["alone"])
	if err := good.Write(t.Context(), "r0", first); err != nil {
		t.Fatal(err)
	}
	if err := good.Write(t.Context(), "r0", first); err != nil || len(calls) != 1 {
		t.Errorf("the same file again: %v, %v", err, calls)
	}
	if info, err := os.Stat(good.File("r0")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("a file with secrets that others can read: %v, %v", info.Mode(), err)
	}
	second, _ := config.Format(examples()["two-replicas-and-tie-breaker"])
	bad := config.Folder{Path: dir, Runner: answer(10, "r0.res:3: no", &calls)}
	var rejected *config.RejectedError
	if err := bad.Write(t.Context(), "r0", second); !errors.As(err, &rejected) || rejected.Why != "r0.res:3: no" {
		t.Errorf("%v", err)
	}
	broken := config.Folder{Path: dir, Runner: answer(20, "", &calls)}
	rejected = nil
	if err := broken.Write(t.Context(), "r0", second); err == nil || errors.As(err, &rejected) {
		t.Errorf("%v", err)
	}
	if got, err := good.Read("r0"); err != nil || !bytes.Equal(got, first) {
		t.Errorf("%s, %v", got, err)
	}
	if err := good.Write(t.Context(), "r0", second); err != nil {
		t.Error(err)
	}
	if got, _ := good.Read("r0"); !bytes.Equal(got, second) {
		t.Errorf("%s", got)
	}
	next := filepath.Join(dir, ".r0.next")
	want := []string{
		"drbdadm --config-to-test " + next + " sh-nop",
		"drbdadm --config-to-test " + next + " --config-to-exclude " + good.File("r0") + " sh-nop",
	}
	if diff := cmp.Diff([]string{want[0], want[1], want[1], want[1]}, calls); diff != "" {
		t.Error(diff)
	}
	for range 2 {
		if err := good.Remove("r0"); err != nil {
			t.Error(err)
		}
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func TestForeignFilesAreNeverTouched(t *testing.T) {
	var calls []string
	f := config.Folder{Path: t.TempDir(), Runner: answer(0, "", &calls)}
	if err := os.WriteFile(f.File("r0"), []byte("resource r0 { }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ours, _ := config.Format(examples()["alone"])
	_, readErr := f.Read("r0")
	for _, err := range []error{readErr, f.Write(t.Context(), "r0", ours), f.Remove("r0")} {
		if !errors.As(err, new(*config.ForeignError)) {
			t.Errorf("%v", err)
		}
	}
	if text, _ := os.ReadFile(f.File("r0")); string(text) != "resource r0 { }\n" || len(calls) != 0 {
		t.Errorf("%q, %v", text, calls)
	}
}

// TestDrbdadmTakesEveryExample asks the real program. It needs no kernel module.
func TestDrbdadmTakesEveryExample(t *testing.T) {
	drbdadm, err := exec.LookPath("drbdadm")
	if err != nil {
		t.Skip("drbdadm is not installed: the package drbd-utils has it")
	}
	for name, r := range examples() {
		text, err := config.Format(r)
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		all := append([]byte("global { usage-count no; }\n"), text...)
		if err := os.WriteFile(filepath.Join(dir, "all.conf"), all, 0o600); err != nil {
			t.Fatal(err)
		}
		c := command.Command{Program: drbdadm, Args: []string{"-c", filepath.Join(dir, "all.conf"), "-d", "up", r.Name}, Env: []string{"__DRBD_NODE__=" + r.Host}}
		res, err := (&command.Exec{}).Run(t.Context(), c)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := strings.Count(string(res.Stdout), " new-peer "); got != len(r.Peers) {
			t.Errorf("%s: %d peers of %d:\n%s", name, got, len(r.Peers), res.Stdout)
		}
		if got := strings.Count(string(res.Stdout), " new-minor "); got != len(r.Volumes) {
			t.Errorf("%s: %d volumes of %d:\n%s", name, got, len(r.Volumes), res.Stdout)
		}
	}
}
