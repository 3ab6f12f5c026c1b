// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package mount_test

import (
	"strings"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/agent/mount"
)

func TestSpellingsOfOneSourceAreEqual(t *testing.T) {
	cases := []struct {
		kind  mount.Kind
		texts []string
		want  string
	}{
		{mount.NFS, []string{"nas1:/a", "NAS1:/a/", "nas1.:/b/../a", "nas1://a"}, "nas1:/a"},
		{mount.NFS, []string{"[FE80::1]:/a", "[fe80::1]:/a/."}, "[fe80::1]:/a"},
		{mount.NFS, []string{"nas1:/"}, "nas1:/"},
		{mount.Block, []string{"/dev/sdb1", "/dev//sdb1"}, "/dev/sdb1"},
		{mount.Bind, []string{"/srv/pool", "/srv/pool/", "/srv/./pool"}, "/srv/pool"},
	}
	for _, tc := range cases {
		first := source(t, tc.kind, tc.texts[0])
		for _, text := range tc.texts {
			if s := source(t, tc.kind, text); s != first || s.Key() != first.Key() || s.Device() != tc.want {
				t.Errorf("%q is %v, want %v", text, s, first)
			}
		}
	}
}

func TestWrongSourcesAreNotRead(t *testing.T) {
	cases := []struct {
		kind mount.Kind
		text string
		says string
	}{
		{mount.NFS, "nas1", "write server:/path"},
		{mount.NFS, "nas1:a", "write server:/path"},
		{mount.NFS, ":/a", "write server:/path"},
		{mount.NFS, "-o:/a", "write server:/path"},
		{mount.NFS, "a b:/a", "write server:/path"},
		{mount.NFS, "[::1]", "write [address]:/path"},
		{mount.NFS, "nas1:/a\nb", "control character"},
		{mount.Block, "/srv/a", "under /dev"},
		{mount.Block, "/dev/../srv", "under /dev"},
		{mount.Bind, "srv", "not absolute"},
		{mount.Bind, "/", "root of this host"},
		{mount.Bind, "/" + strings.Repeat("x", 4096), "too long"},
		{"smb", "/a", "not known"},
	}
	for _, tc := range cases {
		if _, err := mount.ParseSource(tc.kind, tc.text); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s %q: %v", tc.kind, tc.text, err)
		}
	}
}

func TestOptionsThatMeanTheSameAreEqual(t *testing.T) {
	cases := []struct {
		kind       mount.Kind
		text, want string
	}{
		{mount.NFS, "", ""},
		{mount.NFS, "defaults,rw,hard,relatime,_netdev,nofail", ""},
		{mount.NFS, "nfsvers=4.2", "vers=4.2"},
		{mount.NFS, "v4.1,tcp", "vers=4.1"},
		{mount.NFS, "vers=4,minorversion=1", "vers=4.1"},
		{mount.NFS, "soft,hard", ""},
		{mount.NFS, "hard,soft", "soft"},
		{mount.NFS, " timeo=50 , retrans=2,,soft", "retrans=2,soft,timeo=50"},
		{mount.NFS, "timeo=1,timeo=2", "timeo=2"},
		{mount.NFS, "nolock,lock", ""},
		{mount.NFS, "udp,proto=tcp", ""},
		{mount.Block, `context="system_u:object_r:x:s0:c1,c2",noatime`, `context="system_u:object_r:x:s0:c1,c2",noatime`},
		{mount.Block, "ro,rw,ro", "ro"},
		{mount.Bind, "ro", "ro"},
	}
	for _, tc := range cases {
		if o := options(t, tc.kind, tc.text); string(o) != tc.want {
			t.Errorf("%q is %q, want %q", tc.text, o, tc.want)
		}
	}
}

func TestOptionsThatTakeTheMountOutOfOurHandsAreRefused(t *testing.T) {
	cases := []struct {
		kind       mount.Kind
		text, says string
	}{
		{mount.NFS, "bg", "background"},
		{mount.NFS, "remount,ro", "another operation"},
		{mount.Block, "loop", "block device itself"},
		{mount.Block, "bind", "another operation"},
		{mount.Block, "suid", "nosuid"},
		{mount.Block, "x-systemd.automount", "other programs"},
		{mount.Block, `context="a`, "quotation mark"},
		{mount.Block, "=1", "no name"},
		{mount.Bind, "soft", "bound"},
		{mount.Existing, "noatime", "operator"},
		{mount.NFS, "soft\n", "control character"},
	}
	for _, tc := range cases {
		if _, err := mount.ParseOptions(tc.kind, tc.text); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s %q: %v", tc.kind, tc.text, err)
		}
	}
}

func FuzzParseOptions(f *testing.F) {
	for _, text := range []string{"ro,soft", "vers=4,minorversion=1", `context="a,b"`, "nono,no,=", "atime,norelatime", "minorversion=2"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, kind := range []mount.Kind{mount.NFS, mount.Block, mount.Bind, mount.Existing} {
			o, err := mount.ParseOptions(kind, text)
			if err != nil {
				continue
			}
			again, err := mount.ParseOptions(kind, string(o))
			if err != nil || again != o {
				t.Errorf("%q becomes %q and then %q, %v", text, o, again, err)
			}
		}
	})
}

func FuzzParseSource(f *testing.F) {
	for _, text := range []string{"nas1:/a", "[::1]:/b", "/dev/sda", "/srv/x/../y", "a:b:/c"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, kind := range []mount.Kind{mount.NFS, mount.Block, mount.Bind, mount.Existing} {
			s, err := mount.ParseSource(kind, text)
			if err != nil {
				continue
			}
			again, err := mount.ParseSource(kind, s.Device())
			if err != nil || again != s {
				t.Errorf("%q becomes %v and then %v, %v", text, s, again, err)
			}
			if key := s.Key(); strings.ContainsAny(key, "/\x00") || len(key) > 100 {
				t.Errorf("key %q", key)
			}
		}
	})
}
