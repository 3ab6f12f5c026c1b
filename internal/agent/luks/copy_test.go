// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package luks_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent/luks"
	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/file"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/freeze"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/pooltest"
	"github.com/holdfast-storage/holdfast/internal/command"
)

// copied makes a NEW copy of a finished volume.
func copied(t *testing.T, d pool.Driver, from, to pool.ID) {
	t.Helper()
	must(t, d.(pool.Cloner).Clone(t.Context(), to, 32<<20, pool.SnapshotID{Resource: from.Resource}, nil)) //nolint:forcetypeassert // Files can be copied.
}

// What was copied has a header already: it is finished without a key, and opens when there is one.
func TestACopyIsFinishedWithoutItsKey(t *testing.T) {
	needCrypt(t)
	k := newKeys()
	d, _ := open(t, folder(t, pooltest.Mount(t, "ext4", 256<<20)), k)
	id, to := pool.ID{Resource: "db"}, pool.ID{Resource: "copy"}
	filled(t, d, id, "content")
	k.locked.Store(true)
	copied(t, d, id, to)
	must(t, d.Finish(t.Context(), to))
	if v, ok, err := pool.Find(t.Context(), d, to); err != nil || !ok || v.New || v.Device.Path != "" {
		t.Errorf("%+v, %t, %v", v, ok, err)
	}
	_, err := d.Open(t.Context(), to)
	if _, ok := errors.AsType[*luks.LockedError](err); !ok {
		t.Errorf("open without a key: %v", err)
	}
	k.locked.Store(false)
	device, err := d.Open(t.Context(), to)
	must(t, err)
	if !begins(t, device.Path, "content") {
		t.Error("the copy has another content")
	}
	must(t, errors.Join(d.Remove(t.Context(), to), d.Remove(t.Context(), id)))
}

// A copy that does not open with the key that is given for it keeps its header, and so its content.
func TestACopyNeverGetsANewHeader(t *testing.T) {
	needCrypt(t)
	k := newKeys()
	d, _ := open(t, folder(t, pooltest.Mount(t, "ext4", 256<<20)), k)
	id, finished, lent := pool.ID{Resource: "db"}, pool.ID{Resource: "copy"}, pool.ID{Resource: "lent"}
	filled(t, d, id, "content")
	copied(t, d, id, finished)
	copied(t, d, id, lent)
	k.set('w')
	must(t, d.Finish(t.Context(), finished))
	asCopy := luks.CopyOf(t.Context(), id)
	for to, try := range map[pool.ID]func() (pool.Device, error){
		finished: func() (pool.Device, error) { return d.Open(t.Context(), finished) },
		lent:     func() (pool.Device, error) { return d.Open(asCopy, lent) },
	} {
		_, err := try()
		if _, ok := errors.AsType[*luks.WrongKeyError](err); !ok {
			t.Errorf("open %s with another key: %v", to, err)
		}
	}
	k.set('k')
	device, err := d.Open(asCopy, lent)
	must(t, err)
	if !begins(t, device.Path, "content") {
		t.Error("the copy has another content")
	}
	for _, id := range []pool.ID{lent, finished, id} {
		must(t, d.Remove(t.Context(), id))
	}
}

// A volume of another pool that has the same name is not shut by the removal of this one.
func TestAVolumeOfTheSameNameInAnotherPoolStaysOpen(t *testing.T) {
	needCrypt(t)
	mount, k := pooltest.Mount(t, "ext4", 256<<20), newKeys()
	d, _ := open(t, folder(t, mount), k)
	other, below := open(t, folder(t, mount), k)
	id := pool.ID{Resource: "db"}
	device := filled(t, d, id, "content")
	must(t, below.Create(t.Context(), id, 32<<20))
	_, err := below.Open(t.Context(), id)
	must(t, err)
	must(t, other.Remove(t.Context(), id))
	if !begins(t, device.Path, "content") {
		t.Error("the device of the other volume has another content")
	}
	must(t, d.Remove(t.Context(), id))
}

// Filesystems on several encrypted volumes stand still while their snapshots are taken.
func TestSnapshotsOfSeveralVolumesAreOfOneMoment(t *testing.T) {
	needCrypt(t)
	mount, k := pooltest.Mount(t, "ext4", 512<<20), newKeys()
	below, err := file.New(file.Config{Name: "p", Node: "n", Dir: folder(t, mount), Thin: true})
	must(t, err)
	d := luks.Over(below, luks.Config{
		Key: k.of, Runner: &command.Exec{}, Freezer: freeze.New(freeze.Config{Runner: &command.Exec{}, Notes: t.TempDir()}),
	})
	var ids []pool.ID
	stop := make(chan struct{})
	ended := make(chan error, 2)
	for number := range 2 {
		id := pool.ID{Resource: "db", Volume: number}
		device := filled(t, d, id, "")
		ids = append(ids, id)
		dir := filepath.Join(t.TempDir(), "mnt")
		must(t, os.Mkdir(dir, 0o700))
		for _, args := range [][]string{{"mkfs.ext4", "-q", device.Path}, {"mount", device.Path, dir}} {
			if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
				t.Fatalf("%v: %v: %s", args, err, out)
			}
		}
		go func() { ended <- writeUntil(stop, filepath.Join(dir, "file")) }()
		t.Cleanup(func() {
			if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
				t.Errorf("unmount: %v: %s", err, out)
			}
			if err := d.Remove(context.WithoutCancel(t.Context()), id); err != nil {
				t.Error(err)
			}
		})
	}
	held, err := d.(pool.Suspender).Suspend(t.Context(), ids, 20*time.Second) //nolint:forcetypeassert // Files can.
	must(t, err)
	for _, id := range ids {
		s := d.(pool.Snapshotter) //nolint:forcetypeassert // Files can.
		must(t, s.TakeSnapshot(t.Context(), pool.SnapshotID{Resource: id.Resource, Volume: id.Volume, Snapshot: "snap"}, nil))
	}
	written, err := held.Resume()
	if err != nil || len(written) > 0 {
		t.Errorf("%v were written meanwhile, %v", written, err)
	}
	close(stop)
	must(t, errors.Join(<-ended, <-ended))
}

// writeUntil writes to a file, a little at a time, until it is told to stop.
func writeUntil(stop <-chan struct{}, path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	for {
		select {
		case <-stop:
			return f.Close()
		default:
		}
		if _, err := f.WriteAt([]byte("text"), 0); err != nil {
			return errors.Join(err, f.Close())
		}
		if err := f.Sync(); err != nil {
			return errors.Join(err, f.Close())
		}
	}
}
