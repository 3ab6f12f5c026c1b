// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package mount

import (
	"strings"
	"testing"
)

func TestVirtualMachinesAreKnownByTheirCommandLine(t *testing.T) {
	cases := []struct {
		line, name, id string
	}{
		{"qemu-system-x86_64 -name guest=i-2-41-VM,debug-threads=on -uuid 8a1f -m 1024", "i-2-41-VM", "8a1f"},
		{"/usr/bin/kvm -name web -m 1024", "web", ""},
		{"kvm -name process=x,guest=a,,b", "a,b", ""},
		{"kvm -name process=x", "", ""},
		{"kvm -m 1024 -name", "", ""},
		{"kvm", "", ""},
	}
	for _, tc := range cases {
		if name, id := machineOf(strings.Fields(tc.line)); name != tc.name || id != tc.id {
			t.Errorf("%s: %q, %q", tc.line, name, id)
		}
	}
}

func TestUnitOfAProcess(t *testing.T) {
	cases := []struct{ groups, want string }{
		{"0::/system.slice/libvirtd.service\n", "libvirtd.service"},
		{"0::/machine.slice/machine-qemu\\x2d1.scope/libvirt/emulator\n", "machine-qemu\\x2d1.scope"},
		{"3:cpu:/x.service\n1:name=systemd:/user.slice/session-1.scope\n", "session-1.scope"},
		{"0::/\n", ""},
		{"", ""},
	}
	for _, tc := range cases {
		if got := unitOf([]byte(tc.groups)); got != tc.want {
			t.Errorf("%q: %q", tc.groups, got)
		}
	}
}

func TestNameOfAProcessMayHaveAnythingInIt(t *testing.T) {
	line := "42 (a ) R (b) S 1 " + strings.Repeat("0 ", 15) + "3 0 777 0\n"
	if p, err := parseStat([]byte(line)); p != (process{state: 'S', threads: 3, start: 777}) || err != nil {
		t.Errorf("got %+v, %v", p, err)
	}
	for _, bad := range []string{"", "42 (a", "42 (a) S 1", "42 (a) S " + strings.Repeat("x ", 19)} {
		if _, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

func TestUsersAreReadable(t *testing.T) {
	cases := []struct {
		user User
		want string
	}{
		{User{Use: Open, PID: 6746, Command: "qemu-system-x86", VM: "i-2-41", Unit: "machine.scope", Path: "/m/d.qcow2"}, "VM i-2-41 (pid 6746) has /m/d.qcow2 open"},
		{User{Use: WorkDir, PID: 7, Command: "bash", Unit: "ssh.service", Path: "/m"}, "bash (pid 7 of ssh.service) works in /m"},
		{User{Use: Mapped, PID: 7, Foreign: true, Path: "/m/f"}, "a process (pid 7, in another mount namespace) has /m/f mapped"},
		{User{Use: Loop, Command: "loop3, mounted at /x", Path: "/m/f"}, "loop device loop3, mounted at /x lies on /m/f"},
		{User{Use: Nested, Path: "/m/n"}, "something is mounted at /m/n"},
	}
	for _, tc := range cases {
		if got := tc.user.String(); got != tc.want {
			t.Errorf("got %q, want %q", got, tc.want)
		}
	}
}

func FuzzParseMarker(f *testing.F) {
	f.Add([]byte(`{"uuid":"11111111-1111-4111-8111-111111111111"}`))
	f.Add([]byte("\x00\x00"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if m, err := parseMarker(text); err == nil && m.UUID == "" {
			t.Error("a marker without a uuid was taken")
		}
	})
}

func FuzzParseProcess(f *testing.F) {
	f.Add([]byte("42 (a) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 777 0\n"))
	f.Add([]byte("pos:\t0\nflags:\t02\nmnt_id:\t41\n"))
	f.Add([]byte("0::/system.slice/a.service\n"))
	f.Add([]byte("guest=a,,b,debug-threads=on"))
	f.Fuzz(func(_ *testing.T, text []byte) {
		_, _ = parseStat(text)
		_, _ = mountID(text)
		_ = unitOf(text)
		_ = guestName(string(text))
	})
}
