// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package luks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/inuse"
	"github.com/holdfast-storage/holdfast/internal/command"
	"github.com/holdfast-storage/holdfast/internal/model"
)

const (
	// HeaderSize is what LUKS takes at the beginning of a volume, in bytes.
	HeaderSize = model.LUKSHeader

	sector = 512
	limit  = 2 * time.Minute
	prefix = "holdfast-luks-"

	// Exit codes of cryptsetup.
	exitWrongKey = 2
	exitBusy     = 5
)

// LockedError says that there is no key yet.
type LockedError struct {
	ID  pool.ID
	Why string // Empty: the passphrase of the cluster has not been entered.
}

func (e *LockedError) Error() string {
	if e.Why != "" {
		return fmt.Sprintf("volume %s is encrypted, and there is no key to open it: %s", e.ID, e.Why)
	}
	return fmt.Sprintf("volume %s is encrypted, and its key is locked: enter the passphrase of the cluster", e.ID)
}

// WrongKeyError says that a key does not open a volume.
type WrongKeyError struct {
	ID     pool.ID
	Device string // What lies below.
}

func (e *WrongKeyError) Error() string {
	return fmt.Sprintf("the key of volume %s does not open %s: the key is another, or the part of the header that keeps keys is damaged", e.ID, e.Device)
}

// HeaderError says that a volume that was finished has no LUKS header, or a broken one.
type HeaderError struct {
	ID     pool.ID
	Device string // What lies below.
	Err    error
}

func (e *HeaderError) Error() string {
	return fmt.Sprintf("volume %s: %s has no LUKS header that can be read: restore the header from a backup with cryptsetup luksHeaderRestore: %v", e.ID, e.Device, e.Err)
}

// Unwrap returns the cause.
func (e *HeaderError) Unwrap() error { return e.Err }

// mapping is the name of the device of an open volume.
func mapping(id pool.ID) string { return prefix + id.Name() }

func mappingPath(id pool.ID) string { return filepath.Join("/dev/mapper", mapping(id)) }

// crypt runs cryptsetup with a key on its standard input. It ends when the program does: one that is killed may leave a device suspended.
func (d *Driver) crypt(ctx context.Context, key []byte, args ...string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	_, err := d.c.Runner.Run(context.WithoutCancel(ctx), command.Command{Program: "cryptsetup", Args: append([]string{"--batch-mode"}, args...), Stdin: key, Limit: limit})
	return err
}

func exited(err error, code int) bool {
	failed, ok := errors.AsType[*command.Error](err)
	return ok && failed.Kind == command.Exited && failed.Code == code
}

// format makes a header.
func (d *Driver) format(ctx context.Context, device string, key []byte) error {
	args := []string{
		"luksFormat", "--type", "luks2", "--sector-size", strconv.Itoa(sector), "--offset", strconv.Itoa(HeaderSize / sector),
		"--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000", "--key-file", "-",
	}
	args = append(args, d.c.FormatOptions...)
	return d.crypt(ctx, key, append(args, device)...)
}

// unlock makes the mapping of a volume whose device below is open.
func (d *Driver) unlock(ctx context.Context, id pool.ID, device string, key []byte) error {
	args := []string{"open", "--type", "luks2", "--allow-discards", "--key-file", "-"}
	args = append(args, d.c.OpenOptions...)
	err := d.crypt(ctx, key, append(args, device, mapping(id))...)
	if exited(err, exitWrongKey) {
		return &WrongKeyError{ID: id, Device: device}
	}
	return err
}

// hasHeader tells whether a device has a LUKS2 header; the reason why not is an error too.
func (d *Driver) hasHeader(ctx context.Context, id pool.ID, device string) error {
	if err := d.crypt(ctx, nil, "luksDump", "--dump-json-metadata", device); err != nil {
		if exited(err, 1) {
			return &HeaderError{ID: id, Device: device, Err: err}
		}
		return err
	}
	return nil
}

// mapped looks for the mapping of a volume, without running anything. It is an error when it does not lie on what lies below, where that is known.
func mapped(id pool.ID, below pool.Device) (pool.Device, bool, error) {
	path := mappingPath(id)
	rdev, ok, err := inuse.Number(path)
	if err != nil || !ok {
		return pool.Device{}, false, err
	}
	dir := sysfs(rdev)
	uuid, err := os.ReadFile(filepath.Join(dir, "dm/uuid"))
	if errors.Is(err, os.ErrNotExist) {
		return pool.Device{}, false, nil // It went just now.
	}
	if err != nil {
		return pool.Device{}, false, fmt.Errorf("look at %s: %w", path, err)
	}
	if !strings.HasPrefix(string(uuid), "CRYPT-LUKS2-") {
		return pool.Device{}, false, fmt.Errorf("device %s is not one of LUKS2: remove it with dmsetup remove", path)
	}
	if below.Path != "" {
		number, ok, err := inuse.Number(below.Path)
		if err != nil {
			return pool.Device{}, false, err
		}
		lies, err := liesOn(dir, number)
		if err != nil {
			return pool.Device{}, false, err
		}
		if !ok || !lies {
			return pool.Device{}, false, fmt.Errorf("device %s does not lie on %s: close it with cryptsetup close", path, below.Path)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "size"))
	if err != nil {
		return pool.Device{}, false, fmt.Errorf("look at the size of %s: %w", path, err)
	}
	sectors, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return pool.Device{}, false, fmt.Errorf("the size of %s is %q: %w", path, text, err)
	}
	return pool.Device{Path: path, Size: sectors * sector}, true, nil
}

// isOver tells whether the mapping of a volume is there and lies on a device.
func isOver(id pool.ID, below pool.Device) (bool, error) {
	rdev, ok, err := inuse.Number(mappingPath(id))
	if err != nil || !ok {
		return false, err
	}
	number, ok, err := inuse.Number(below.Path)
	if err != nil || !ok {
		return false, err
	}
	lies, err := liesOn(sysfs(rdev), number)
	if errors.Is(err, os.ErrNotExist) { // It went just now.
		return false, nil
	}
	return lies, err
}

// liesOn tells whether a device of device mapper lies on another.
func liesOn(dir string, number uint64) (bool, error) {
	below, err := os.ReadDir(filepath.Join(dir, "slaves"))
	if err != nil {
		return false, err
	}
	want := fmt.Sprintf("%d:%d", unix.Major(number), unix.Minor(number))
	for _, b := range below {
		text, err := os.ReadFile(filepath.Join(dir, "slaves", b.Name(), "dev"))
		if err == nil && strings.TrimSpace(string(text)) == want {
			return true, nil
		}
	}
	return false, nil
}

func sysfs(rdev uint64) string {
	return fmt.Sprintf("/sys/dev/block/%d:%d", unix.Major(rdev), unix.Minor(rdev))
}
