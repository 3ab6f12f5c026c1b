// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package file is the pool driver for a directory: each volume is a file in it, and an open volume is a loop device over its file.
//
// Its two providers differ in one thing. FILE reserves the blocks of a volume when it is created or grown, and keeps them: discards are
// switched off on its devices. FILE_THIN makes sparse files, which take blocks as they are written and give them back when they are discarded.
//
// # On disk
//
//	<dir>/.holdfast-pool           the pool's identity: its name, its node and a uuid, in JSON
//	<dir>/<resource>_<nnnnn>.new     a NEW volume
//	<dir>/<resource>_<nnnnn>.volume  a finished volume
//
// A regular file with such a name is ours; everything else is not, and is left alone. Names are lower-case. The directory is never made by the
// driver: one that is missing is most likely on a file system that is not mounted. Its identity is made at the first use and compared at every
// later one; so two pools or two agents never share a directory, and a directory that something else was mounted over, or whose file system is
// gone, is noticed. Give the uuid back in Config.Identity after a restart: only then is a bare directory noticed from the first call on.
//
// Every call opens the directory anew, by a path without symbolic links, and works below that descriptor on single names that it does not follow
// out of the directory. No descriptor stays open between calls, so the driver never keeps the directory's file system busy; an open volume does.
//
// # Loop devices
//
// Devices are bound by ioctl with direct I/O where the file system can, without partitions: the content of a volume is never interpreted. The
// kernel keeps a mark on each with the uuid of the pool; mark and inode together say which device belongs to which volume, also after a restart
// of the agent. A loop device that someone else put over a volume's file, and whoever opened that file
// past the device, are users of the volume: they keep it from being removed, but not from being closed.
//
// Newer kernels keep it when discards were switched off on a loop device, also for whoever gets the device after a FILE volume. A FILE_THIN pool
// replaces such a device before it uses it. Where sysfs cannot be written, discards on FILE volumes do give blocks back; Allocated shows it.
//
// # What is durable when
//
//   - Create promises nothing: a NEW volume that a power cut takes away is made again.
//   - Finish flushes the device, and thereby the file, then renames the file, then flushes the directory.
//   - Grow flushes the file with its new size before the device gets it.
//   - Remove flushes the directory after the file was unlinked, so that a removed volume does not come back.
//
// The directory must be on a file system that does not hang: calls are made in this process and can be cancelled only between system calls.
package file
