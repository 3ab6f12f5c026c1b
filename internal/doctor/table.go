// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

// program is one that the agent runs.
type program struct {
	name    string
	version []string // arguments with which it says its version
	pattern string   // of the version in what it prints; empty: the first thing that looks like one
	least   string   // version that is needed; empty: any
	pkg     string   // Debian's package
}

// module is a part of the kernel.
type module struct {
	name  string
	least string // version that is needed; empty: any
	fix   string
	list  string // file with a word on a line of its own when it is part of the kernel
	word  string
}

// device is a file through which the kernel is asked.
type device struct{ path, fix string }

// ability is what a host can do, by the names of the checks that it needs.
type ability struct {
	name, what string
	needs      []string
}

func programs() []program {
	return []program{
		{name: "mount", version: []string{"--version"}, pkg: "mount"},
		{name: "mkfs.ext4", version: []string{"-V"}, pkg: "e2fsprogs"},
		{name: "resize2fs", version: []string{"-V"}, pkg: "e2fsprogs"},
		{name: "mkfs.xfs", version: []string{"-V"}, pkg: "xfsprogs"},
		{name: "xfs_growfs", version: []string{"-V"}, pkg: "xfsprogs"},
		{name: "mkfs.btrfs", version: []string{"--version"}, pkg: "btrfs-progs"},
		{name: "blkid", version: []string{"--version"}, pkg: "util-linux"},
		{name: "lsblk", version: []string{"--version"}, pkg: "util-linux"},
		{name: "lvm", version: []string{"version"}, least: "2.03", pkg: "lvm2"},
		{name: "dmsetup", version: []string{"--version"}, pkg: "dmsetup"},
		{name: "wipefs", version: []string{"--version"}, pkg: "util-linux"},
		{name: "thin_check", version: []string{"-V"}, least: "0.5", pkg: "thin-provisioning-tools"},
		{name: "zfs", version: []string{"version"}, least: "2.0", pkg: "zfsutils-linux"},
		{name: "zpool", version: []string{"version"}, least: "2.0", pkg: "zfsutils-linux"},
		{name: "cryptsetup", version: []string{"--version"}, least: "2.4", pkg: "cryptsetup-bin"}, // It prints headers as JSON.
		{name: "drbdadm", version: []string{"--version"}, pattern: `DRBDADM_VERSION=(\S+)`, least: "9", pkg: "drbd-utils"},
		{name: "drbdsetup", version: []string{"--version"}, pattern: `DRBDADM_VERSION=(\S+)`, least: "9", pkg: "drbd-utils"},
		{name: "mount.nfs", version: []string{"-V"}, pkg: "nfs-common"},
		{name: "qemu-img", version: []string{"--version"}, pkg: "qemu-utils"},
	}
}

func modules() []module {
	const drbd = "install the package drbd-dkms of LINBIT; the kernel's own is 8.4"
	const kernel = "use a kernel that has it; in Debian it is in the package linux-image-amd64"
	return []module{
		{name: "loop", fix: kernel, list: "proc/devices", word: "loop"},
		{name: "dm_mod", fix: kernel, list: "proc/devices", word: "device-mapper"},
		{name: "dm_thin_pool", fix: kernel},
		{name: "dm_snapshot", fix: kernel},
		{name: "dm_crypt", fix: kernel},
		{name: "zfs", least: "2.0", fix: "install the package zfs-dkms"},
		{name: "drbd", least: "9", fix: drbd},
		{name: "drbd_transport_tcp", fix: drbd}, // There is none with 8.4.
		{name: "nfs", fix: kernel, list: "proc/filesystems", word: "nfs"},
	}
}

func devices() []device {
	return []device{
		{"/dev/loop-control", "load the module: modprobe loop"},
		{"/dev/mapper/control", "load the module: modprobe dm_mod"},
		{"/dev/kvm", "enable virtualization in the firmware, and load kvm_intel or kvm_amd"},
		{"/run/libvirt/libvirt-sock", "install the package libvirt-daemon-system, and start libvirtd"},
	}
}

func abilities() []ability {
	base := func(more ...string) []string { return append([]string{"root", "CAP_SYS_ADMIN"}, more...) }
	mapper := func(more ...string) []string {
		return base(append([]string{"dm_mod", "/dev/mapper/control"}, more...)...)
	}
	return []ability{
		{"FILE", "pools of files, thick and thin (FILE_THIN)", base("loop", "/dev/loop-control")},
		{"LVM", "pools in a volume group", mapper("lvm", "dmsetup")},
		{"LVM_THIN", "pools in a thin pool of LVM, with snapshots", mapper("lvm", "dmsetup", "thin_check", "dm_thin_pool")},
		{"ZFS", "pools in ZFS, thick and thin (ZFS_THIN), with snapshots", base("zfs", "zpool")},
		{"LUKS", "encrypted volumes", mapper("cryptsetup", "dmsetup", "dm_crypt")},
		{"DRBD", "replicas on several hosts", base("drbd", "drbd_transport_tcp", "drbdadm", "drbdsetup")},
		{"ext4", "volumes with an ext4 filesystem", base("mkfs.ext4", "resize2fs", "mount")},
		{"xfs", "volumes with an XFS filesystem", base("mkfs.xfs", "xfs_growfs", "mount")},
		{"btrfs", "volumes with a Btrfs filesystem", base("mkfs.btrfs", "mount")},
		{"NFS", "pools on an NFS server", base("mount.nfs", "nfs", "mount")},
		{"devices", "pools made on unused disks", base("lsblk", "blkid", "wipefs")},
		{"images", "importing and exporting disk images", base("qemu-img")},
		{"KVM", "virtual machines of libvirt as users of volumes", []string{"/dev/kvm", "/run/libvirt/libvirt-sock"}},
	}
}
