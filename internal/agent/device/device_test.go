// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-storage/holdfast/internal/agent/device"
	"github.com/holdfast-storage/holdfast/internal/command"
)

const tib = 1 << 40

// disk is a device in the words of lsblk.
func disk(name string, size int64, more string) string {
	return fmt.Sprintf(`{"path":"/dev/%s","kname":%q,"type":"disk","size":%d,"rota":true,"ro":false%s}`, name, name, size, more)
}

func listing(devices ...string) []byte {
	return []byte(`{"blockdevices":[` + strings.Join(devices, ",") + `]}`)
}

func TestOnlyDevicesWithNothingOnThemAreCandidates(t *testing.T) {
	child := func(b string) string { return `,"children":[` + b + `]` }
	for _, c := range []struct {
		name, device string
		want         []string
	}{
		{"an empty disk", disk("sda", tib, `,"model":"X ","serial":null`), []string{"/dev/sda"}},
		{"one of exactly the least size", disk("sda", device.MinSize, ""), nil},
		{"one just above it", disk("sda", device.MinSize+512, ""), []string{"/dev/sda"}},
		{"a disk with a filesystem", disk("sda", tib, `,"fstype":"ext4"`), nil},
		{"a disk with an empty partition table", disk("sda", tib, `,"pttype":"gpt"`), nil},
		{"a mounted disk", disk("sda", tib, `,"mountpoints":["/srv"]`), nil},
		{"a mounted disk of an older lsblk", disk("sda", tib, `,"mountpoint":"/srv"`), nil},
		{"a disk that is mounted nowhere", disk("sda", tib, `,"mountpoints":[null]`), []string{"/dev/sda"}},
		{"a read-only disk", `{"path":"/dev/sda","kname":"sda","type":"disk","size":"1099511627776","ro":"1"}`, nil},
		{"free partitions of a disk", disk("sda", tib, child(
			`{"path":"/dev/sda1","kname":"sda1","type":"part","size":2147483648,"fstype":"vfat"},`+
				`{"path":"/dev/sda2","kname":"sda2","type":"part","size":2147483648,"fstype":null}`)), []string{"/dev/sda2"}},
		{"a disk below a logical volume", disk("sda", tib, child(
			`{"path":"/dev/mapper/vg-lv","kname":"dm-0","type":"lvm","size":2147483648}`)), nil},
		{"a disk below an empty multipath device", disk("sda", tib, child(
			`{"path":"/dev/mapper/mpatha","kname":"dm-0","type":"mpath","size":2147483648}`)), []string{"/dev/mapper/mpatha"}},
		{"an empty RAID", disk("sda", tib, child(`{"path":"/dev/md0","kname":"md0","type":"raid1","size":2147483648}`)), []string{"/dev/md0"}},
		{"a volume of DRBD", disk("drbd1000", tib, ""), nil},
		{"a zvol", disk("zd0", tib, ""), nil},
		{"compressed memory", disk("zram0", tib, ""), nil},
		{"a network block device", disk("nbd3", tib, ""), nil},
		{"a disk whose name begins like one of them", disk("zdisk", tib, ""), []string{"/dev/zdisk"}},
		{"an NVMe disk", disk("nvme0n1", tib, ""), []string{"/dev/nvme0n1"}},
		{"a loop device", `{"path":"/dev/loop0","kname":"loop0","type":"loop","size":2147483648}`, nil},
		{"a part of a loop device", `{"path":"/dev/loop0","kname":"loop0","type":"loop","size":2147483648,"children":[` +
			`{"path":"/dev/loop0p1","kname":"loop0p1","type":"part","size":2147483647}]}`, nil},
		{"an optical drive", `{"path":"/dev/sr0","kname":"sr0","type":"rom","size":2147483648}`, nil},
		{"a path outside of /dev", `{"path":"/etc/passwd","kname":"sda","type":"disk","size":2147483648}`, nil},
		{"a path that climbs", `{"path":"/dev/../etc/passwd","kname":"sda","type":"disk","size":2147483648}`, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			all, err := device.Parse(listing(c.device))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, b := range (&device.Finder{}).Candidates(all) {
				got = append(got, b.Path)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestADeviceBelowSeveralIsListedOnce(t *testing.T) {
	top := `,"children":[{"path":"/dev/md0","kname":"md0","type":"raid1","size":2147483648}]`
	all, err := device.Parse(listing(disk("sdb", tib, top), disk("sda", tib, top), disk("sdd", tib, ""), disk("sdc", tib, "")))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, b := range (&device.Finder{}).Candidates(all) {
		got = append(got, b.Path)
	}
	if want := []string{"/dev/md0", "/dev/sdc", "/dev/sdd"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// host runs lsblk and blkid on devices that are there for the test alone.
type host struct {
	list    []byte
	err     error
	blkid   map[string]error // what it ends with; absent: nothing is found
	claimed map[string]bool
	probed  []string
}

func (h *host) Run(_ context.Context, c command.Command) (command.Result, error) {
	switch c.Program {
	case "lsblk":
		if !slices.ContainsFunc(c.Args, func(a string) bool { return strings.HasPrefix(a, "NAME,") }) {
			return command.Result{}, errors.New("without the name, lsblk does not tell what lies on what")
		}
		return command.Result{Stdout: h.list}, h.err
	case "blkid":
		path := c.Args[len(c.Args)-1]
		h.probed = append(h.probed, path)
		if err, told := h.blkid[path]; told {
			return command.Result{}, err
		}
		return command.Result{}, &command.Error{Kind: command.Exited, Code: 2, Program: "blkid"}
	}
	return command.Result{}, fmt.Errorf("%s is not known here", c.Program)
}

func (h *host) claim(path string) error {
	if h.claimed[path] {
		return errors.New("device or resource busy")
	}
	return nil
}

func TestADeviceIsFreeOnlyWhenTheHostItselfSaysSo(t *testing.T) {
	h := &host{
		list: listing(disk("sda", tib, `,"model":"  Fast one ","serial":"S1","wwn":"0x5"`), disk("sdb", tib, ""), disk("sdc", tib, ""),
			disk("sdd", tib, ""), disk("sde", tib, ""), disk("sdf", tib, ""), disk("sdg", tib, `,"fstype":"xfs"`)),
		blkid: map[string]error{
			"/dev/sdb": nil,                                                             // a signature was found
			"/dev/sdd": &command.Error{Kind: command.Exited, Code: 8, Program: "blkid"}, // several were
			"/dev/sde": &command.Error{Kind: command.TimedOut, Code: -1, Program: "blkid"},
		},
		claimed: map[string]bool{"/dev/sdc": true},
	}
	f := device.Finder{Run: h, Claim: h.claim}
	got, err := f.Free(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []device.Device{
		{Path: "/dev/sda", Size: tib, Rotational: true, Model: "Fast one", Serial: "S1", WWN: "0x5"},
		{Path: "/dev/sdf", Size: tib, Rotational: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if slices.Contains(h.probed, "/dev/sdc") || slices.Contains(h.probed, "/dev/sdg") {
		t.Errorf("devices in use were read: %v", h.probed)
	}
}

func TestWhatIsOnADeviceIsReadFromTheDevice(t *testing.T) {
	for _, c := range []struct {
		said string
		code int
		want device.Signature
		none bool
	}{
		{"", 2, device.Signature{}, true},
		{"", 8, device.Signature{Several: true}, false},
		{`/dev/sda: UUID="x" VERSION="1.0" TYPE="ext4" USAGE="filesystem"`, 0, device.Signature{Type: "ext4"}, false},
		{`/dev/sda: PTUUID="x" PTTYPE="gpt"`, 0, device.Signature{Table: "gpt"}, false},
		{`/dev/sda1: PART_ENTRY_SCHEME="gpt" PART_ENTRY_NAME="a \"TYPE=\" b" PART_ENTRY_TYPE="x" PART_ENTRY_DISK="254:0"`, 0, device.Signature{}, true},
		{`/dev/sda1: VERSION="5000" LABEL="tank" UUID="1" TYPE="zfs_member" PART_ENTRY_TYPE="x"`, 0, device.Signature{Type: "zfs_member", Label: "tank"}, false},
		{"", 0, device.Signature{Several: true}, false},
		{`/dev/sda: USAGE="crypto"`, 0, device.Signature{Several: true}, false},
	} {
		run := func(context.Context, command.Command) (command.Result, error) {
			if c.code != 0 {
				return command.Result{}, &command.Error{Kind: command.Exited, Code: c.code}
			}
			return command.Result{Stdout: []byte(c.said + "\n")}, nil
		}
		got, err := (&device.Finder{Run: command.RunnerFunc(run)}).Signature(t.Context(), "/dev/sda")
		if err != nil || got != c.want || got.None() != c.none {
			t.Errorf("%q, %d: %+v, %v", c.said, c.code, got, err)
		}
	}
}

func TestAHostWithoutLsblkSaysSo(t *testing.T) {
	missing := &command.Error{Kind: command.NotInstalled, Program: "lsblk", Code: -1}
	f := device.Finder{Run: &host{err: missing}}
	if _, err := f.Free(t.Context()); !errors.Is(err, missing) || !strings.Contains(err.Error(), "list block devices") {
		t.Errorf("the error is %v", err)
	}
	if got, err := (&device.Finder{Run: &host{}}).Free(t.Context()); err != nil || got != nil {
		t.Errorf("a host without block devices has %v, %v", got, err)
	}
	if _, err := (&device.Finder{Run: &host{list: []byte("{")}}).Free(t.Context()); err == nil {
		t.Error("half a listing was read")
	}
}

func TestNobodyWaitsLongerForADiskThanHeWants(t *testing.T) {
	h := &host{list: listing(disk("sda", tib, ""))}
	ctx, cancel := context.WithCancel(t.Context())
	f := device.Finder{Run: h, Claim: func(string) error { cancel(); return nil }}
	if _, err := f.Free(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
}

func TestThisHostIsRead(t *testing.T) {
	f := device.Finder{Run: &command.Exec{}}
	free, err := f.Free(t.Context())
	if e, ok := errors.AsType[*command.Error](err); ok && e.Kind == command.NotInstalled {
		t.Skipf("this host has no %s", e.Program)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range free {
		if d.Size <= device.MinSize || !strings.HasPrefix(d.Path, "/dev/") {
			t.Errorf("%+v is told to be free", d)
		}
	}
}

func TestDevicesAreNotStackedWithoutEnd(t *testing.T) {
	deep := strings.Repeat(`{"path":"/dev/sda","type":"disk","children":[`, 50) + strings.Repeat(`]}`, 50)
	if _, err := device.Parse(listing(deep)); err == nil {
		t.Error("a stack of fifty was read")
	}
}

func FuzzParse(f *testing.F) {
	f.Add(listing(disk("sda", tib, "")))
	f.Add([]byte(`{"blockdevices":[{"path":"/dev/sda","size":"12","rota":"1","ro":"0","mountpoint":null,"children":[{"path":"/dev/sda1"}]}]}`))
	f.Add([]byte(`{"blockdevices":[{"path":"/dev/sda","size":1e3,"mountpoints":[null,"/"]}]}`))
	f.Add([]byte(""))
	f.Fuzz(func(t *testing.T, output []byte) {
		all, err := device.Parse(output)
		if err != nil {
			return
		}
		if len(output) > 0 && len(strings.TrimSpace(string(output))) > 0 && !json.Valid(output) {
			t.Fatalf("what is no JSON was read: %q", output)
		}
		for _, b := range (&device.Finder{Loops: true}).Candidates(all) {
			if b.Size <= device.MinSize || len(b.Children) > 0 || !strings.HasPrefix(b.Path, "/dev/") || strings.Contains(b.Path, "..") && strings.Contains(b.Path, "/../") {
				t.Fatalf("%+v is a candidate", b)
			}
		}
	})
}
