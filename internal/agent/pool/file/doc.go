// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package file is the pool driver for a directory: each volume is a file in it, and an open volume is a loop device over its file.
//
// Its two providers differ in one thing. FILE reserves the blocks of a volume when it is created or grown, and keeps them: discards are
// switched off on its devices. FILE_THIN makes sparse files, which take blocks as they are written and give them back when they are discarded.
//
// # On disk
//
//	<dir>/.holdfast-pool                             the pool's identity: its name, its node and a uuid, in JSON
//	<dir>/<resource>_<nnnnn>.volume                  a finished volume
//	<dir>/<resource>_<nnnnn>.new                     a NEW volume
//	<dir>/<resource>_<nnnnn>.clone                   a NEW volume with the whole content of its source
//	<dir>/<resource>_<nnnnn>.rolled                  which roll-back the volume had last
//	<dir>/<resource>_<nnnnn>@<snapshot>.snapshot     a finished snapshot
//	<dir>/<resource>_<nnnnn>@<snapshot>.new          a NEW snapshot
//	<dir>/<resource>_<nnnnn>[@<snapshot>].copy       on the way to become a clone, a snapshot, or a volume that is rolled back
//
// A regular file with such a name is ours; everything else is not, and is left alone. Names are lower-case. The directory is never made by the
// driver: one that is missing is most likely on a file system that is not mounted. Its identity is made at the first use and compared at every
// later one; so two pools or two agents never share a directory, and a directory that something else was mounted over, or whose file system is
// gone, is noticed. Give the uuid back in Config.Identity after a restart: only then is a bare directory noticed from the first call on.
//
// Every call opens the directory anew, by a path without symbolic links, and works below that descriptor on single names that it does not follow
// out of the directory. No descriptor stays open between calls, except in a suspension, so the driver does not keep the directory's file system busy; an open
// volume does.
//
// # Loop devices
//
// Devices are bound by ioctl with direct I/O where the file system can, without partitions: the content of a volume is never interpreted. The
// kernel keeps a mark on each with the uuid of the pool; mark and inode together say which device belongs to which volume, also after a restart
// of the agent. A loop device that someone else put over a volume's file, and whoever opened that file
// past the device, are users of the volume: they keep it from being removed, but not from being closed.
//
// The sectors of all devices are 512 bytes. The kernel would choose larger ones by what lies below, among others for a file that shares blocks; so a volume
// would come back with other sectors after its first snapshot, and what was made on it before could not be mounted. Where the file system cannot do direct I/O
// in such small pieces, the device goes through the page cache.
//
// Newer kernels keep it when discards were switched off on a loop device, also for whoever gets the device after a FILE volume. A FILE_THIN pool
// replaces such a device before it uses it. Where sysfs cannot be written, discards on FILE volumes do give blocks back; Allocated shows it.
//
// # Snapshots and clones
//
// Where the file system can share blocks between files (XFS, Btrfs), a snapshot, a clone and the content of a roll-back are made by FICLONE: in one step, with
// all writers locked out by the kernel, in a time that does not grow with the size. All writes that were done before are in, and none that began later. There is
// no need to stop anyone for one volume.
//
// Elsewhere (ext4) the data is copied, holes are left out, and the copy is good only if nobody wrote meanwhile. That is not assumed but proven: the kernel counts
// the sectors that are written to a device, and notes the time of a write to a file. A copy that someone wrote into is given up at the next piece, with a
// pool.ChangedError. A filesystem that is mounted from the volume can be frozen for the time of the copy, by Suspend; but not if more than Config.StillMost would
// have to be copied, because everyone who writes there waits so long.
//
// Suspend freezes what is mounted from its volumes, by package freeze, and watches for writes by the same counters; Resume tells which volumes were written. Who
// writes to a device past a filesystem, such as a virtual machine, cannot be stopped here.
//
// A copy is made under a name of its own, which no other call takes for a volume or snapshot, and renamed when it is whole. It is locked by flock while someone works
// on it: the first call of a new agent removes those that nobody has locked. A volume or snapshot that is being read for a copy is in use.
//
// A FILE volume that shares blocks needs new ones when it is written. So snapshots and clones in a FILE pool are refused when there is not room for all blocks
// that all volumes may need, and Space tells that room as not free.
//
// # What is durable when
//
//   - Create promises nothing: a NEW volume that a power cut takes away is made again.
//   - Finish flushes the device, and thereby the file, then renames the file, then flushes the directory.
//   - Grow flushes the file with its new size before the device gets it.
//   - Remove flushes the directory after the file was unlinked, so that a removed volume does not come back.
//   - FinishSnapshot flushes the file, renames it, then flushes the directory. TakeSnapshot and Clone promise nothing.
//   - RollBack flushes the new file, notes the token with the number of that file, puts it in the volume's place by a rename, and flushes the directory. The
//     note is true from that very rename on, so that no crash can make a roll-back be done twice.
//
// The directory must be on a file system that does not hang: calls are made in this process and can be cancelled only between system calls.
package file
