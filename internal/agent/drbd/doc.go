// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package drbd replicates volumes between hosts with DRBD 9, through drbdadm, drbdsetup and drbdmeta.
//
// [DRBD] is a layer as package stack understands it, on top of whatever gives it backing devices: it looks at a resource, and plans the steps from there to what is
// wanted. Its configuration is written by package config, its state read by package kernel, and its share of a device computed by package metadata.
// [Watcher] follows what happens to all resources.
//
// # What it promises
//
//   - drbdadm is asked what it would do before it does it, and does nothing that takes anything away: it deletes peers and
//     volumes that its file does not name, and the kernel lets it delete a device that is mounted, which hangs the host. What is to go is named by the wish, and goes by steps
//     of its own, after a look at who uses it. What runs and is named by nobody is an [UnwantedError].
//   - Metadata is made on NEW volumes alone, by [DRBD.CreateMetadata]. A finished volume whose metadata is not found is an error: new metadata would give up its data.
//   - A new volume gets its first content once, from the one host that is told to start it. The kernel's data generation says whether it had any before.
//   - Force is used for nothing but that start. A split brain is shown, and solved by nobody here.
//   - An exit code proves nothing where DRBD was seen to lie: what was to change is looked at.
//   - A size is never given: DRBD would shrink a mounted device. A volume grows when the backing devices of all its hosts have grown, and it is asked again until then.
//   - The last copy that is known is not given up.
//   - Secrets are in the configuration, which root alone can read, and in no error.
//
// # How it is composed
//
// From the bottom: a pool makes the volume, LUKS opens it where that is wanted, and DRBD lies on that device. For a replica with storage, whoever composes them
//
//  1. asks the pool for metadata.Backing(usable, peers) bytes, and for what LUKS adds to that;
//  2. calls CreateMetadata, where a plain volume would be formatted, on a NEW volume: after LUKS opened it and before the pool finishes it, with the device below as
//     Volume.Disk. A volume that is made from a snapshot is treated the same, for it has the metadata of its source on it. Disks that read as zeros, and copies of
//     one snapshot, get one generation of data on all hosts; under LUKS with a key of its own for each host, and on thick volumes that are not wiped, disks differ,
//     and one host is told StartHere;
//  3. brings the wish about with stack.Converge, with the devices below as Volume.Disk, and is called again when the Watcher or a timer says so;
//  4. formats the DRBD device, not the one below, where a filesystem is wanted, on the host that starts the volume, when [Waiting] returns nothing
//     for the first time and before it tells anyone.
//
// A volume grows from below: the pool's, LUKS, then DRBD by the wish's Size. It goes from above: DRBD by Volume.Destroy or Want.Down, which refuse while anyone uses the
// device, then LUKS, then the pool's. Who uses a replica is asked of its DRBD devices, [DRBD.Holders]: below them the kernel alone is a user.
//
// A replica that gets a disk: its peers are told first that it is not diskless any more, then it makes metadata and names the disk in its wish. One that gives its
// disk up names none in its wish, and its peers are told; then its volume below goes.
//
// Snapshots are taken of the volumes below, on all hosts, while the I/O of the host that is Primary is held back, by [DRBD.Suspend].
package drbd
