// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The requests of ioctl that package unix does not name.
const (
	ext4IocResizeFS   = 0x40086610
	xfsIocFSGeometry  = 0x80705864 // Of the first version, which all kernels have.
	xfsIocFSGrowData  = 0x4010586E
	btrfsIocResize    = 0x50009403
	btrfsNameLen      = 4088
	btrfsGrowToDevice = "max"
)

// xfsGeometry is what XFS tells of its layout.
type xfsGeometry struct {
	blockSize, rtExtSize, agBlocks, agCount, logBlocks, sectSize, inodeSize, maxPercent uint32
	dataBlocks, rtBlocks, rtExtents, logStart                                           uint64
	uuid                                                                                [16]byte
	sunit, swidth                                                                       uint32
	version                                                                             int32
	flags, logSectSize, rtSectSize, dirBlockSize                                        uint32
	_                                                                                   uint32
}

type xfsGrowData struct {
	newBlocks  uint64
	maxPercent uint32
	_          uint32
}

type btrfsArgs struct {
	fd   int64
	name [btrfsNameLen]byte
}

func ioctl(f *os.File, request uintptr, arg unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), request, uintptr(arg)); errno != 0 {
		return errno
	}
	return nil
}

func blkZeroOut(f *os.File, span [2]uint64) error {
	return ioctl(f, unix.BLKZEROOUT, unsafe.Pointer(&span)) //nolint:gosec // The kernel reads it.
}
