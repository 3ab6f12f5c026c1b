// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package freeze

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// The requests of ioctl that freeze and thaw the filesystem of a descriptor.
const (
	fiFreeze = 0xC0045877
	fiThaw   = 0xC0045878
)

// freeze stops writes. EBUSY: they are stopped already.
func freeze(root *os.File) error {
	for {
		if err := unix.IoctlSetInt(int(root.Fd()), fiFreeze, 0); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// thaw lets writes go on. EINVAL: they are not stopped.
func thaw(root *os.File) error { return unix.IoctlSetInt(int(root.Fd()), fiThaw, 0) }

// Open opens the filesystem on a device by the first of mounts that leads to it, and returns its type too. Those that this process sees come first: the
// root of others may be closed to it. It may hang: another filesystem may lie on the way.
func Open(device uint64, mounts []Mount) (*os.File, string, error) {
	own, err := ownMounts(device)
	if err != nil {
		return nil, "", err
	}
	mounts = append(own, mounts...)
	errs := []error{fmt.Errorf("no mount leads to it, of %d that are known", len(mounts))}
	for _, m := range mounts {
		root, fstype, err := openMount(device, m)
		if err == nil {
			return root, fstype, nil
		}
		errs = append(errs, fmt.Errorf("%s as process %d sees it: %w", m.Point, m.PID, err))
	}
	return nil, "", errors.Join(errs...)
}

// ownMounts returns where this process sees a device mounted.
func ownMounts(device uint64) ([]Mount, error) {
	infos, err := mountinfo.GetMounts(func(i *mountinfo.Info) (skip, stop bool) { return numberOf(i) != device, false })
	if err != nil {
		return nil, fmt.Errorf("read the table of mounts: %w", err)
	}
	var mounts []Mount
	for _, i := range infos {
		mounts = append(mounts, Mount{PID: os.Getpid(), Point: i.Mountpoint})
	}
	return mounts, nil
}

// numberOf returns the number of the block device that is mounted, or zero when there is none.
func numberOf(i *mountinfo.Info) uint64 {
	if i.Major != 0 {
		return unix.Mkdev(uint32(i.Major), uint32(i.Minor))
	}
	// btrfs and others show a number of their own; the source then names the device. Only under /dev nothing can hang.
	var st unix.Stat_t
	if !strings.HasPrefix(i.Source, "/dev/") || unix.Stat(i.Source, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFBLK {
		return 0
	}
	return st.Rdev
}

func openMount(device uint64, m Mount) (*os.File, string, error) {
	dir := filepath.Join("/proc", strconv.Itoa(m.PID))
	fd, err := unix.Open(dir+"/root"+m.Point, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, "", err
	}
	root := os.NewFile(uintptr(fd), m.Point)
	fstype, err := mountedType(root, device, dir+"/mountinfo")
	if err != nil {
		_ = root.Close()
		return nil, "", err
	}
	return root, fstype, nil
}

// mountedType returns the type of the filesystem that an open file lies on, if that is the one on a device.
func mountedType(root *os.File, device uint64, table string) (string, error) {
	var st unix.Statx_t
	if err := unix.Statx(int(root.Fd()), "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_MNT_ID, &st); err != nil {
		return "", err
	}
	if st.Mask&unix.STATX_MNT_ID == 0 {
		return "", errors.New("the kernel does not tell which mount it is")
	}
	f, err := os.Open(table)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	infos, err := mountinfo.GetMountsFromReader(f, func(i *mountinfo.Info) (skip, stop bool) { return uint64(i.ID) != st.Mnt_id, uint64(i.ID) == st.Mnt_id })
	if err != nil || len(infos) != 1 {
		return "", fmt.Errorf("mount %d is not in the table: %w", st.Mnt_id, err)
	}
	if numberOf(infos[0]) != device {
		return "", errors.New("something else is mounted over it")
	}
	return infos[0].FSType, nil
}

// deviceName returns the name of a block device as people know it.
func deviceName(device uint64) string {
	link, err := os.Readlink(deviceDir(device))
	if err != nil {
		return fmt.Sprintf("device %d:%d", unix.Major(device), unix.Minor(device))
	}
	return "/dev/" + filepath.Base(link)
}

func deviceDir(device uint64) string {
	return fmt.Sprintf("/sys/dev/block/%d:%d", unix.Major(device), unix.Minor(device))
}

// sequence returns a number of the kernel's that changes when a device gets other content, or "" when there is none.
func sequence(device uint64) string {
	text, err := os.ReadFile(filepath.Join(deviceDir(device), "diskseq"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
