// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package luks_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-storage/holdfast/internal/agent/luks"
	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/file"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/freeze"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/pooltest"
	"github.com/holdfast-storage/holdfast/internal/command"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == freeze.HelperName {
		os.Exit(freeze.HelperMain(os.Args[2:]))
	}
	goleak.VerifyTestMain(m)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// needCrypt skips a test where the kernel does not encrypt.
func needCrypt(t *testing.T) {
	t.Helper()
	if os.Getenv("HOLDFAST_LAB_LUKS") == "" {
		t.Skip("needs device mapper with dm-crypt: set HOLDFAST_LAB_LUKS, as in the lab")
	}
	pooltest.NeedHost(t, "cryptsetup", "losetup", "mkfs.ext4")
}

// keys gives keys, or none.
type keys struct {
	key    atomic.Pointer[[]byte]
	locked atomic.Bool
}

func newKeys() *keys {
	k := &keys{}
	k.set('k')
	return k
}

func (k *keys) set(letter byte) {
	key := bytes.Repeat([]byte{letter, 0, '\n'}, 16) // With bytes that no text has.
	k.key.Store(&key)
}

func (k *keys) of(_ context.Context, id pool.ID) ([]byte, error) {
	if k.locked.Load() {
		return nil, &luks.LockedError{ID: id}
	}
	return *k.key.Load(), nil
}

// folder makes a pool's directory on a filesystem of its own.
func folder(t *testing.T, mount string) string {
	t.Helper()
	dir, err := os.MkdirTemp(mount, "pool-") //nolint:usetesting // On that filesystem.
	must(t, err)
	return dir
}

// open returns the encrypted pool and the one below as an agent has them that has just started.
func open(t *testing.T, dir string, k *keys) (above, below pool.Driver) {
	t.Helper()
	below, err := file.New(file.Config{Name: "p", Node: "n", Dir: dir, Thin: true})
	must(t, err)
	return luks.Over(below, luks.Config{Key: k.of, Runner: &command.Exec{}}), below
}

func TestDriver(t *testing.T) {
	needCrypt(t)
	mount := pooltest.Mount(t, "ext4", 900<<20)
	pooltest.Suite{
		New: func(t *testing.T) pooltest.Fixture {
			t.Helper()
			dir, k := folder(t, mount), newKeys()
			return pooltest.Fixture{
				Open: func(t *testing.T) pool.Driver { t.Helper(); d, _ := open(t, dir, k); return d },
				Uses: pooltest.DeviceUses(),
			}
		},
		Granularity: file.Granularity, Thin: true, RealDevices: true, Encrypted: true, Slow: true,
	}.Run(t)
}

// filled makes a finished volume whose device begins with a text.
func filled(t *testing.T, d pool.Driver, id pool.ID, text string) pool.Device {
	t.Helper()
	must(t, d.Create(t.Context(), id, 32<<20))
	device, err := d.Open(t.Context(), id)
	must(t, err)
	must(t, os.WriteFile(device.Path, []byte(text), 0))
	must(t, d.Finish(t.Context(), id))
	return device
}

func begins(t *testing.T, path, text string) bool {
	t.Helper()
	got := make([]byte, len(text))
	f, err := os.Open(path)
	must(t, err)
	defer func() { _ = f.Close() }()
	_, err = f.ReadAt(got, 0)
	must(t, err)
	return string(got) == text
}

func TestContentIsEncryptedBelow(t *testing.T) {
	needCrypt(t)
	d, below := open(t, folder(t, pooltest.Mount(t, "ext4", 256<<20)), newKeys())
	id, text := pool.ID{Resource: "db"}, strings.Repeat("plain text ", 1000)
	device := filled(t, d, id, text)
	v, _, err := pool.Find(t.Context(), below, id)
	must(t, err)
	if v.Size != 32<<20+luks.HeaderSize || device.Size != 32<<20 {
		t.Errorf("%d bytes are usable of %d", device.Size, v.Size)
	}
	content, err := os.ReadFile(v.Device.Path)
	must(t, err)
	if bytes.Contains(content, []byte("plain text")) {
		t.Error("the device below has what was written above")
	}
	if !begins(t, device.Path, text) {
		t.Error("the device above does not have what was written")
	}
	must(t, d.Remove(t.Context(), id))
}

func TestVolumeStaysShutUntilThereIsAKey(t *testing.T) {
	needCrypt(t)
	k := newKeys()
	d, _ := open(t, folder(t, pooltest.Mount(t, "ext4", 256<<20)), k)
	id := pool.ID{Resource: "db"}
	filled(t, d, id, "content")
	must(t, d.Close(t.Context(), id))
	k.locked.Store(true)
	_, err := d.Open(t.Context(), id)
	if e, ok := errors.AsType[*luks.LockedError](err); !ok || e.ID != id || !strings.Contains(err.Error(), "enter the passphrase") {
		t.Errorf("open without a key: %v", err)
	}
	if v, ok, err := pool.Find(t.Context(), d, id); err != nil || !ok || v.Device.Path != "" || v.Size != 32<<20 {
		t.Errorf("%+v, %t, %v", v, ok, err)
	}
	must(t, d.Grow(t.Context(), id, 40<<20)) // Closed volumes grow without a key.
	k.locked.Store(false)
	device, err := d.Open(t.Context(), id)
	must(t, err)
	if device.Size != 40<<20 || !begins(t, device.Path, "content") {
		t.Errorf("%+v", device)
	}
	k.locked.Store(true)
	must(t, d.Close(t.Context(), id))
	must(t, d.Remove(t.Context(), id))
}

func TestWrongKeyIsToldFromABrokenHeader(t *testing.T) {
	needCrypt(t)
	k := newKeys()
	d, below := open(t, folder(t, pooltest.Mount(t, "ext4", 256<<20)), k)
	id := pool.ID{Resource: "db"}
	filled(t, d, id, "content")
	must(t, d.Close(t.Context(), id))

	k.set('w')
	_, err := d.Open(t.Context(), id)
	if _, ok := errors.AsType[*luks.WrongKeyError](err); !ok {
		t.Errorf("open with another key: %v", err)
	}
	if v, _, err := pool.Find(t.Context(), below, id); err != nil || v.Device.Path != "" {
		t.Errorf("after a refused open, the device below is %+v, %v", v.Device, err)
	}
	k.set('k')
	device, err := d.Open(t.Context(), id)
	must(t, err)
	if !begins(t, device.Path, "content") {
		t.Error("the content is another after a wrong key")
	}
	must(t, d.Close(t.Context(), id))

	lower, err := below.Open(t.Context(), id)
	must(t, err)
	header := make([]byte, luks.HeaderSize)
	f, err := os.OpenFile(lower.Path, os.O_RDWR, 0)
	must(t, err)
	_, err = f.ReadAt(header, 0)
	must(t, err)
	_, err = f.WriteAt(make([]byte, 1<<20), 0)
	must(t, errors.Join(err, f.Sync()))
	_, err = d.Open(t.Context(), id)
	if _, ok := errors.AsType[*luks.HeaderError](err); !ok {
		t.Errorf("open without a header: %v", err)
	}
	after := make([]byte, 1<<20)
	_, err = f.ReadAt(after, 0)
	must(t, err)
	if len(bytes.Trim(after, "\x00")) > 0 {
		t.Error("a finished volume got a new header")
	}
	_, err = f.WriteAt(header, 0) // From a backup.
	must(t, errors.Join(err, f.Close()))
	device, err = d.Open(t.Context(), id)
	must(t, err)
	if !begins(t, device.Path, "content") {
		t.Error("the content is another with the old header")
	}
	must(t, d.Remove(t.Context(), id))
}

func TestNewVolumeOfAnEarlierKeyIsEncryptedAnew(t *testing.T) {
	needCrypt(t)
	k := newKeys()
	dir := folder(t, pooltest.Mount(t, "ext4", 256<<20))
	d, _ := open(t, dir, k)
	id := pool.ID{Resource: "db"}
	must(t, d.Create(t.Context(), id, 32<<20))
	_, err := d.Open(t.Context(), id)
	must(t, err)
	must(t, d.Close(t.Context(), id))
	k.set('n') // The agent ended before it told anyone, and the controller chose another key.
	d, _ = open(t, dir, k)
	_, err = d.Open(t.Context(), id)
	must(t, err)
	must(t, d.Remove(t.Context(), id))
}

func TestKeyIsNoArgumentOfAnyProgram(t *testing.T) {
	needCrypt(t)
	k := newKeys()
	below, err := file.New(file.Config{Name: "p", Node: "n", Dir: folder(t, pooltest.Mount(t, "ext4", 256<<20)), Thin: true})
	must(t, err)
	key, _ := k.of(t.Context(), pool.ID{})
	runs := 0
	runner := command.RunnerFunc(func(ctx context.Context, c command.Command) (command.Result, error) {
		runs++
		if text := c.Program + strings.Join(c.Args, " ") + strings.Join(c.Env, " "); strings.Contains(text, string(key)) {
			t.Errorf("the key is in %q", text)
		}
		return (&command.Exec{}).Run(ctx, c)
	})
	d := luks.Over(below, luks.Config{Key: k.of, Runner: runner})
	id := pool.ID{Resource: "db"}
	filled(t, d, id, "content")
	must(t, d.Grow(t.Context(), id, 48<<20))
	must(t, d.Remove(t.Context(), id))
	if runs < 4 {
		t.Errorf("%d programs ran", runs)
	}
}
