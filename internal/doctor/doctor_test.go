// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package doctor_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/holdfast-storage/holdfast/internal/command"
	"github.com/holdfast-storage/holdfast/internal/doctor"
)

// host is a simulated host: its files and what its programs print.
type host struct {
	files    map[string]string
	programs map[string]string
}

func (h host) examine(t *testing.T) doctor.Report {
	t.Helper()
	root := fstest.MapFS{}
	for name, content := range h.files {
		root[name] = &fstest.MapFile{Data: []byte(content)}
	}
	run := func(_ context.Context, c command.Command) (command.Result, error) {
		said, ok := h.programs[c.Program]
		switch {
		case !ok:
			return command.Result{}, &command.Error{Kind: command.NotInstalled, Program: c.Program}
		case said == "hangs":
			return command.Result{}, &command.Error{Kind: command.TimedOut, Program: c.Program, Err: context.DeadlineExceeded}
		case strings.HasPrefix(said, "!"): // It says its version and fails.
			return command.Result{Stderr: []byte(said[1:])}, &command.Error{Kind: command.Exited, Program: c.Program, Code: 1}
		}
		return command.Result{Stdout: []byte(said)}, nil
	}
	r, err := doctor.Examine(t.Context(), doctor.Host{Root: root, Runner: command.RunnerFunc(run)})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// able returns the names of the abilities that are usable.
func able(r doctor.Report) []string {
	var names []string
	for _, a := range r.Abilities {
		if a.Usable {
			names = append(names, a.Name)
		}
	}
	return names
}

func check(t *testing.T, r doctor.Report, kind doctor.Kind, name string) doctor.Check {
	t.Helper()
	i := slices.IndexFunc(r.Checks, func(c doctor.Check) bool { return c.Kind == kind && c.Name == name })
	if i < 0 {
		t.Fatalf("%s %s is not checked", kind, name)
	}
	return r.Checks[i]
}

const (
	kernel   = "proc/sys/kernel/osrelease"
	status   = "proc/self/status"
	dep      = "lib/modules/6.1.0-49-amd64/modules.dep"
	rootUser = "Name:\tholdfast\nUid:\t0\t0\t0\t0\nCapEff:\t000001ffffffffff\n"
)

func storageHost() host {
	return host{
		files: map[string]string{
			kernel: "6.1.0-49-amd64\n", status: rootUser,
			"dev/loop-control": "", "dev/mapper/control": "",
			"sys/module/loop/refcnt": "0", "sys/module/drbd/version": "9.2.18\n", "sys/module/drbd_transport_tcp/refcnt": "1",
			"lib/modules/6.1.0-49-amd64/modules.builtin": "kernel/drivers/md/dm-mod.ko\n",
			"lib/modules/6.1.0-49-amd64/modules.dep":     "kernel/drivers/md/dm-thin-pool.ko.xz: kernel/drivers/md/persistent-data/dm-persistent-data.ko.xz\nkernel/drivers/md/dm-crypt.ko:\n",
		},
		programs: map[string]string{
			"mount": "mount from util-linux 2.38.1", "mkfs.ext4": "!mke2fs 1.47.0 (5-Feb-2023)", "resize2fs": "!resize2fs 1.47.0",
			"lvm": "  LVM version:     2.03.16(2) (2022-05-18)\n", "thin_check": "0.9.0", "dmsetup": "Library version:   1.02.185 (2022-05-18)", "cryptsetup": "cryptsetup 2.6.1 flags: UDEV",
			"drbdadm":   "DRBDADM_API_VERSION=2\nDRBD_KERNEL_VERSION=9.2.18\nDRBDADM_VERSION_CODE=0x092100\nDRBDADM_VERSION=9.33.0\n",
			"drbdsetup": "DRBDADM_VERSION=9.33.0\n",
		},
	}
}

// zfsHost makes a host one with ZFS before it is changed.
func zfsHost(change func(host)) func(host) {
	return func(h host) {
		h.files["sys/module/zfs/version"] = "2.1.11-1\n"
		h.programs["zfs"], h.programs["zpool"] = "zfs-2.1.11-1\nzfs-kmod-2.1.11-1\n", "zfs-2.1.11-1\nzfs-kmod-2.1.11-1\n"
		change(h)
	}
}

// unload makes DRBD's module one that is not loaded, and of which modinfo says something.
func (h host) unload(modinfo string) {
	delete(h.files, "sys/module/drbd/version")
	h.files["lib/modules/6.1.0-49-amd64/modules.dep"] += "updates/dkms/drbd.ko.xz:\n"
	h.programs["modinfo"] = modinfo
}

func TestModuleThatCanBeLoadedWillDoByItsVersion(t *testing.T) {
	h := storageHost()
	h.unload("9.2.18\n")
	r := h.examine(t)
	if c := check(t, r, doctor.Module, "drbd"); c.State != doctor.Present || c.Version != "9.2.18" || c.Detail != "can be loaded" || !slices.Contains(able(r), "DRBD") {
		t.Errorf("%+v", c)
	}
}

func TestWhatIsThereSaysWhatTheHostCanDo(t *testing.T) {
	r := storageHost().examine(t)
	if got := able(r); !slices.Equal(got, []string{"FILE", "LVM", "LVM_THIN", "LUKS", "DRBD", "ext4"}) {
		t.Errorf("able to do %v", got)
	}
	if r.Kernel != "6.1.0-49-amd64" {
		t.Errorf("kernel %q", r.Kernel)
	}
	for name, version := range map[string]string{"mkfs.ext4": "1.47.0", "lvm": "2.03.16", "drbdadm": "9.33.0", "thin_check": "0.9.0"} {
		if c := check(t, r, doctor.Program, name); c.State != doctor.Present || c.Version != version {
			t.Errorf("%+v", c)
		}
	}
	for name, how := range map[string]string{"loop": "loaded", "dm_mod": "built in", "dm_thin_pool": "can be loaded"} {
		if c := check(t, r, doctor.Module, name); c.State != doctor.Present || c.Detail != how {
			t.Errorf("%+v", c)
		}
	}
	if c := check(t, r, doctor.Module, "zfs"); c.State != doctor.Absent || !strings.Contains(c.Fix, "zfs-dkms") {
		t.Errorf("%+v", c)
	}
}

func TestWhatIsMissingIsNamedWithWhatToDo(t *testing.T) {
	for _, c := range []struct {
		name    string
		change  func(host)
		ability string
		lacks   string
	}{
		{"a program", func(h host) { delete(h.programs, "cryptsetup") }, "LUKS", "program cryptsetup: absent; install the package cryptsetup-bin"},
		{"a program that is old", func(h host) { h.programs["drbdadm"] = "DRBDADM_VERSION=8.9.10\n" }, "DRBD", "program drbdadm: too old; version 9 or later is needed"},
		{"a program that hangs", func(h host) { h.programs["lvm"] = "hangs" }, "LVM", "program lvm: unknown; run it by hand: lvm version"},
		{"a module that is old", func(h host) { h.files["sys/module/drbd/version"] = "8.4.11\n" }, "DRBD", "module drbd: too old; version 9 or later is needed"},
		{"the version of a program", func(h host) { h.programs["lvm"] = "LVM" }, "LVM", "program lvm: unknown; version 2.03 or later is needed"},
		{"a module that is old and not loaded", func(h host) { h.unload("8.4.11\n") }, "DRBD", "module drbd: too old; version 9 or later is needed"},
		{"the version of a module that is not loaded", func(h host) { h.unload("!") }, "DRBD", "module drbd: unknown; version 9 or later is needed"},
		{"a module", func(h host) { delete(h.files, "sys/module/drbd/version") }, "DRBD", "module drbd: absent; install the package drbd-dkms"},
		{"a module that is old, while another is installed", func(h host) { h.files["sys/module/drbd/version"] = "8.4.11\n"; h.programs["modinfo"] = "9.2.18\n" }, "DRBD", "module drbd: too old; version 9 or later is needed: 9.2.18 is installed, and an earlier one is loaded: unload it with modprobe -r drbd"},
		{"the transport of DRBD", func(h host) { delete(h.files, "sys/module/drbd_transport_tcp/refcnt") }, "DRBD", "module drbd_transport_tcp: absent; install the package drbd-dkms"},
		{"the kernel's part of DRBD's tools", func(h host) { h.programs["drbdsetup"] = "DRBDADM_VERSION=8.9.10\n" }, "DRBD", "program drbdsetup: too old; version 9 or later"},
		{"drbd-utils", func(h host) { delete(h.programs, "drbdsetup") }, "DRBD", "program drbdsetup: absent; install the package drbd-utils"},
		{"LVM's version", func(h host) { h.programs["lvm"] = "  LVM version:     2.02.187(2)\n" }, "LVM", "program lvm: too old; version 2.03 or later is needed: install it from the package lvm2"},
		{"LVM", func(h host) { delete(h.programs, "lvm") }, "LVM_THIN", "program lvm: absent; install the package lvm2"},
		{"the tools of device mapper", func(h host) { delete(h.programs, "dmsetup") }, "LVM", "program dmsetup: absent; install the package dmsetup"},
		{"the device of device mapper", func(h host) { delete(h.files, "dev/mapper/control") }, "LVM", "device /dev/mapper/control: absent; load the module: modprobe dm_mod"},
		{"the tools of thin pools", func(h host) { delete(h.programs, "thin_check") }, "LVM_THIN", "program thin_check: absent; install the package thin-provisioning-tools"},
		{"old tools of thin pools", func(h host) { h.programs["thin_check"] = "0.2.8" }, "LVM_THIN", "program thin_check: too old; version 0.5 or later"},
		{"the module of thin pools", func(h host) { h.files[dep] = "kernel/drivers/md/dm-crypt.ko:\n" }, "LVM_THIN", "module dm_thin_pool: absent; use a kernel that has it"},
		{"an old cryptsetup", func(h host) { h.programs["cryptsetup"] = "cryptsetup 2.3.7" }, "LUKS", "program cryptsetup: too old; version 2.4 or later is needed: install it from the package cryptsetup-bin"},
		{"the module of LUKS", func(h host) { h.files[dep] = "kernel/drivers/md/dm-thin-pool.ko.xz:\n" }, "LUKS", "module dm_crypt: absent; use a kernel that has it"},
		{"the module of ZFS", zfsHost(func(h host) { delete(h.files, "sys/module/zfs/version") }), "ZFS", "module zfs: absent; install the package zfs-dkms"},
		{"an old module of ZFS", zfsHost(func(h host) { h.files["sys/module/zfs/version"] = "0.8.6-1\n" }), "ZFS", "module zfs: too old; version 2.0 or later"},
		{"the tools of ZFS", zfsHost(func(h host) { delete(h.programs, "zpool") }), "ZFS", "program zpool: absent; install the package zfsutils-linux"},
		{"old tools of ZFS", zfsHost(func(h host) { h.programs["zfs"] = "zfs-0.8.6-1\nzfs-kmod-2.1.11-1\n" }), "ZFS", "program zfs: too old; version 2.0 or later"},
		{"root for ZFS", zfsHost(func(h host) { h.files[status] = "Uid:\t1\t1\t1\t1\nCapEff:\t0\n" }), "ZFS", "right root: absent"},
		{"the program that wipes devices", func(h host) {
			h.programs["lsblk"], h.programs["blkid"] = "lsblk from util-linux 2.38.1", "blkid from util-linux 2.38.1"
		}, "devices", "program wipefs: absent; install the package util-linux"},
		{"modules of this kernel", func(h host) { h.files[kernel] = "6.9.9\n" }, "LUKS", "module dm_crypt: unknown; load it: modprobe dm_crypt"},
		{"a device", func(h host) { delete(h.files, "dev/loop-control") }, "FILE", "device /dev/loop-control: absent; load the module: modprobe loop"},
		{"root", func(h host) { h.files[status] = "Uid:\t1000\t1000\t1000\t1000\nCapEff:\t0000000000000000\n" }, "FILE", "right root: absent; run it as root"},
		{"the capability", func(h host) { h.files[status] = "Uid:\t0\t0\t0\t0\nCapEff:\t00000000a80425fb\n" }, "ext4", "right CAP_SYS_ADMIN: absent;"},
		{"proc", func(h host) { delete(h.files, status) }, "FILE", "right root: unknown"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := storageHost()
			c.change(h)
			r := h.examine(t)
			i := slices.IndexFunc(r.Abilities, func(a doctor.Ability) bool { return a.Name == c.ability })
			if a := r.Abilities[i]; a.Usable || !strings.Contains(strings.Join(a.Lacks, "\n"), c.lacks) {
				t.Errorf("%+v", a)
			} else if unknown := strings.Contains(c.lacks, ": unknown"); unknown == strings.Contains(strings.Join(a.Missing, "\n"), c.lacks) {
				t.Errorf("what is not known counts as missing, or the other way round: %+v", a)
			}
		})
	}
}

func TestPartsOfAKernelWithoutModulesAreFound(t *testing.T) {
	h := host{files: map[string]string{kernel: "6.18.44\n", "proc/devices": "Block devices:\n  7 loop\n253 device-mapper\n", "proc/filesystems": "nodev\tnfs\n"}}
	r := h.examine(t)
	for _, name := range []string{"loop", "dm_mod", "nfs"} {
		if c := check(t, r, doctor.Module, name); c.State != doctor.Present || c.Detail != "built in" {
			t.Errorf("%+v", c)
		}
	}
}

func TestZFSIsUsableWithToolsAndModuleOfItsVersion(t *testing.T) {
	h := storageHost()
	zfsHost(func(host) {})(h)
	r := h.examine(t)
	if !slices.Contains(able(r), "ZFS") {
		t.Errorf("able to do %v", able(r))
	}
	for _, kind := range []doctor.Kind{doctor.Program, doctor.Module} {
		if c := check(t, r, kind, "zfs"); c.State != doctor.Present || !strings.HasPrefix(c.Version, "2.1.11") {
			t.Errorf("%+v", c)
		}
	}
}

func TestOnlyWhatAnAbilityNeedsIsLookedAt(t *testing.T) {
	h := storageHost()
	var ran []string
	run := command.RunnerFunc(func(_ context.Context, c command.Command) (command.Result, error) {
		ran = append(ran, c.Program)
		return command.Result{Stdout: []byte(h.programs[c.Program])}, nil
	})
	root := fstest.MapFS{}
	for name, content := range h.files {
		root[name] = &fstest.MapFile{Data: []byte(content)}
	}
	at := doctor.Host{Root: root, Runner: run}
	got, err := doctor.Able(t.Context(), at, "LUKS", "LVM_THIN")
	if err != nil || len(got) != 2 || !got[0].Usable || !got[1].Usable || got[0].Name != "LVM_THIN" {
		t.Errorf("%+v, %v", got, err)
	}
	if slices.Sort(ran); !slices.Equal(ran, []string{"cryptsetup", "dmsetup", "lvm", "thin_check"}) {
		t.Errorf("it ran %q", ran)
	}
	if _, err := doctor.Able(t.Context(), at, "LVM", "magic"); err == nil {
		t.Error("an ability that there is not was looked at")
	}
}

func TestAnEmptyHostCanDoNothing(t *testing.T) {
	if got := able(host{}.examine(t)); len(got) != 0 {
		t.Errorf("able to do %v", got)
	}
}

func TestTheEndOfTheContextEndsTheExamination(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	run := command.RunnerFunc(func(context.Context, command.Command) (command.Result, error) { return command.Result{}, nil })
	if _, err := doctor.Examine(ctx, doctor.Host{Root: fstest.MapFS{}, Runner: run}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestThisHostCanBeExamined(t *testing.T) {
	r, err := doctor.Examine(t.Context(), doctor.This())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("/proc/self/status"); err == nil && check(t, r, doctor.Right, "root").State == doctor.Unknown {
		t.Error("it is not known whether this is root")
	}
}
