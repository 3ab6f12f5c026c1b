// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package mount

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"unsafe"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"
)

// This file holds what helpers do inside of a mount.

// MarkerName is the file in the root of a source that says which file system it is: a JSON object with the field uuid.
const MarkerName = ".holdfast-source"

const markerLimit = 4096 // Bytes; ours has less than 100.

type marker struct {
	UUID string `json:"uuid"`
}

// inside is how files of a mount are reached: nothing leads out of it.
const inside = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV

// root opens the root of e and makes sure that it is the very mount e.
func root(e Entry) (*os.File, error) {
	f, err := openFolder(e.Target, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	if err := isRoot(f, e); err != nil {
		_ = f.Close()
		return nil, err
	}
	if e.Unique == 0 { // Its number alone may be that of a later mount.
		if err := stillThere(e); err != nil {
			_ = f.Close()
			return nil, err
		}
	}
	return f, nil
}

// stillThere makes sure that the table has e at its place, as it was.
func stillThere(e Entry) error {
	t, err := ownTable()
	if err != nil {
		return err
	}
	if top, ok := t.At(e.Target); !ok || !top.Same(e) {
		return refuse(NotMounted, nil, "something else is at its place instead of mount %d", e.ID)
	}
	return nil
}

func isRoot(f *os.File, e Entry) error {
	mask := unix.STATX_MNT_ID
	if e.Unique != 0 {
		mask = unix.STATX_MNT_ID_UNIQUE
	}
	var st unix.Statx_t
	const flags = unix.AT_EMPTY_PATH | unix.AT_STATX_DONT_SYNC
	if err := unix.Statx(int(f.Fd()), "", flags, mask, &st); err != nil {
		return refuse(Failed, err, "look at %s", e.Target)
	}
	want := uint64(e.ID)
	if e.Unique != 0 {
		want = e.Unique
	}
	if int(st.Mask)&mask != 0 && st.Mnt_id != want || st.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0 && st.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0 {
		return refuse(NotMounted, nil, "mount %d is at its place instead of %d", st.Mnt_id, want)
	}
	return nil
}

// verify makes sure that e is at its place and carries the identity that is wanted, and returns what it has.
func verify(e Entry, spec Spec) (answer, error) {
	f, err := root(e)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = f.Close() }()
	var st unix.Statx_t
	if err := unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_INO, &st); err != nil {
		return answer{}, refuse(Failed, err, "look at the root")
	}
	id, err := identify(f, spec.Identity)
	return answer{Identity: id, Inode: st.Ino}, err
}

// identify returns the uuid of the marker in a root, which is made when it is missing and wanted.
func identify(root *os.File, want Identity) (string, error) {
	m, err := readMarker(root, 0)
	if errors.Is(err, unix.ENOENT) {
		switch {
		case want.Create:
			if m, err = makeMarker(root, want.UUID); errors.Is(err, unix.EROFS) {
				return "", refuse(ReadOnly, err, "make %s", MarkerName)
			} else if err != nil {
				return "", refuse(Failed, err, "make %s", MarkerName)
			}
		case want.UUID == "":
			return "", nil
		default:
			return "", &refusal{Fault: WrongIdentity, Marker: [2]string{want.UUID, ""}}
		}
	}
	if err != nil {
		return "", refuse(Failed, err, "read %s", MarkerName)
	}
	if want.UUID != "" && m.UUID != want.UUID {
		return "", &refusal{Fault: WrongIdentity, Marker: [2]string{want.UUID, m.UUID}}
	}
	return m.UUID, nil
}

// readMarker reads the marker in the folder dir; flags are added to those of opening it.
func readMarker(dir *os.File, flags int) (marker, error) {
	fd, err := openAt(int(dir.Fd()), MarkerName, unix.O_RDONLY|unix.O_NOFOLLOW|flags, 0, inside)
	if err != nil {
		return marker{}, err
	}
	f := os.NewFile(uintptr(fd), MarkerName)
	defer func() { _ = f.Close() }()
	text := aligned(markerLimit)
	n, err := f.Read(text) // Once: a second read past the cache would not begin where it must.
	if err != nil && !errors.Is(err, io.EOF) {
		return marker{}, err
	}
	return parseMarker(text[:n])
}

func parseMarker(text []byte) (marker, error) {
	var m marker
	if err := json.Unmarshal(text, &m); err != nil {
		return marker{}, fmt.Errorf("it is not our marker: %w", err)
	}
	if m.UUID == "" {
		return marker{}, errors.New("it is not our marker: it has no uuid")
	}
	return m, nil
}

// aligned returns n bytes that begin at a multiple of n, as reads past the cache want it. n is a power of two.
func aligned(n int) []byte {
	b := make([]byte, 2*n)
	off := 0
	if over := int(uintptr(unsafe.Pointer(&b[0])) & uintptr(n-1)); over != 0 { //nolint:gosec // Only the address is looked at.
		off = n - over
	}
	return b[off : off+n : off+n]
}

// makeMarker gives the file system a marker, or returns the one that another host gave it at the same time. It appears whole or not at all.
func makeMarker(dir *os.File, id string) (marker, error) {
	m := marker{UUID: id}
	if id == "" {
		m.UUID = uuid.NewString()
	}
	text, err := json.Marshal(m)
	if err != nil {
		return marker{}, err
	}
	draft := MarkerName + "-" + uuid.NewString()
	at := int(dir.Fd())
	fd, err := openAt(at, draft, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, 0o644, inside)
	if err != nil {
		return marker{}, err
	}
	f := os.NewFile(uintptr(fd), draft)
	_, err = f.Write(append(text, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = unix.Linkat(at, draft, at, MarkerName, 0)
		if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EOPNOTSUPP) { // A file system without links.
			err = unix.Renameat2(at, draft, at, MarkerName, unix.RENAME_NOREPLACE)
		}
	}
	if gone := unix.Unlinkat(at, draft, 0); !errors.Is(gone, unix.ENOENT) {
		err = errors.Join(err, gone)
	}
	if errors.Is(err, unix.EEXIST) {
		return readMarker(dir, 0)
	}
	return m, errors.Join(err, dir.Sync())
}

// probe asks the file system for what only its server or device can answer.
func probe(e Entry, spec Spec) error {
	f, err := root(e)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &fs); err != nil {
		return refuse(Failed, err, "ask for the free space")
	}
	var st unix.Statx_t
	if err := unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH|unix.AT_STATX_FORCE_SYNC, unix.STATX_BASIC_STATS, &st); err != nil {
		return refuse(Failed, err, "look at the root")
	}
	if spec.Identity.UUID == "" {
		return nil
	}
	m, err := readMarker(f, unix.O_DIRECT)
	if errors.Is(err, unix.EINVAL) { // A file system that always caches.
		m, err = readMarker(f, 0)
	}
	if errors.Is(err, unix.ENOENT) {
		return &refusal{Fault: WrongIdentity, Marker: [2]string{spec.Identity.UUID, ""}}
	}
	if err != nil {
		return refuse(Failed, err, "read %s", MarkerName)
	}
	if m.UUID != spec.Identity.UUID {
		return &refusal{Fault: WrongIdentity, Marker: [2]string{spec.Identity.UUID, m.UUID}}
	}
	return nil
}
