// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package file_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/file"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/freeze"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/pooltest"
	"github.com/holdfast-storage/holdfast/internal/command"
)

// moment is a FILE_THIN pool with volumes db/0 and db/1 of 32 MiB that are open.
type moment struct {
	*file.Pool
	dir     string
	notes   string
	devices [2]string
	mounts  [2]string
}

var both = []pool.ID{db, {Resource: "db", Volume: 1}}

func newMoment(t *testing.T, fstype string, config func(*moment, *file.Config)) *moment {
	t.Helper()
	pooltest.NeedHost(t, "losetup", "mkfs."+fstype, "mkfs.ext4", "e2fsck")
	m := &moment{dir: folder(t, pooltest.Mount(t, fstype, 512*pooltest.MiB)), notes: t.TempDir()}
	c := file.Config{Dir: m.dir, Thin: true}
	if config != nil {
		config(m, &c)
	}
	m.Pool = open(t, c)
	for i, id := range both {
		must(t, m.Create(t.Context(), id, 32*pooltest.MiB))
		d, err := m.Open(t.Context(), id)
		must(t, err)
		must(t, m.Finish(t.Context(), id))
		m.devices[i] = d.Path
	}
	t.Cleanup(func() {
		last := open(t, file.Config{Dir: m.dir, Thin: true})
		volumes, err := last.List(context.Background())
		must(t, err)
		for _, v := range volumes {
			must(t, last.Remove(context.Background(), v.ID))
		}
	})
	return m
}

// freezing gives the pool a freezer.
func freezing(m *moment, c *file.Config) {
	c.Freezer = freeze.New(freeze.Config{Runner: &command.Exec{}, Notes: m.notes})
}

// mount makes a filesystem on each volume and mounts it.
func (m *moment) mount(t *testing.T) {
	t.Helper()
	for i, device := range m.devices {
		pooltest.Run(t, "mkfs.ext4", "-q", "-F", device)
		m.mounts[i] = filepath.Join(t.TempDir(), "mnt")
		must(t, os.Mkdir(m.mounts[i], 0o700))
		pooltest.Run(t, "mount", device, m.mounts[i])
		t.Cleanup(func() { must(t, pooltest.Unmount(m.mounts[i])) })
	}
}

// count has a process that writes one number after the other, each to the first filesystem and then to the second.
func (m *moment) count(t *testing.T) (stop func()) {
	t.Helper()
	return pooltest.InShell(t, `n=1; while :; do
		for d in $1; do echo $n > $d/next && mv $d/next $d/now || exit 1; done
		if [ $n = 3 ]; then echo ready > "$2"; fi
		n=$((n+1)); done`, m.mounts[0]+" "+m.mounts[1])
}

// wantOneMoment looks at the numbers in two filesystems.
func wantOneMoment(t *testing.T, devices [2]string) {
	t.Helper()
	var numbers [2]int
	for i, device := range devices {
		dir := t.TempDir()
		pooltest.Run(t, "mount", device, dir)
		text, err := os.ReadFile(filepath.Join(dir, "now"))
		must(t, err)
		numbers[i], err = strconv.Atoi(strings.TrimSpace(string(text)))
		must(t, err)
		must(t, pooltest.Unmount(dir))
	}
	if first, second := numbers[0], numbers[1]; first < 3 || first != second && first != second+1 {
		t.Errorf("the first has %d and the second %d", first, second)
	}
}

func TestSnapshotsOfMountedVolumesAreOfOneMoment(t *testing.T) {
	t.Parallel()
	for _, fstype := range []string{"ext4", "xfs", "btrfs"} {
		t.Run(fstype, func(t *testing.T) {
			t.Parallel()
			m := newMoment(t, fstype, freezing)
			m.mount(t)
			stop := m.count(t)
			s, err := m.Suspend(t.Context(), both, time.Minute)
			must(t, err)
			must(t, errors.Join(m.take(t, 0), m.take(t, 1)))
			if written, err := s.Resume(); len(written) != 0 || err != nil {
				t.Errorf("written: %v, %v", written, err)
			}
			stop()
			for i, device := range m.restored(t) {
				// Nothing is to be recovered: it was written whole before it was taken.
				if out := pooltest.Run(t, "dumpe2fs", "-h", device); strings.Contains(out, "needs_recovery") {
					t.Errorf("volume %d was not frozen", i)
				}
				pooltest.Run(t, "e2fsck", "-fn", device)
			}
			wantOneMoment(t, m.restored(t))
		})
	}
}

func (m *moment) take(t *testing.T, volume int) error {
	t.Helper()
	return m.TakeSnapshot(t.Context(), pool.SnapshotID{Resource: "db", Volume: volume, Snapshot: "snap"}, nil)
}

// restored returns the devices of clones of the snapshots.
func (m *moment) restored(t *testing.T) (devices [2]string) {
	t.Helper()
	for i := range both {
		from, to := pool.SnapshotID{Resource: "db", Volume: i, Snapshot: "snap"}, pool.ID{Resource: "restored", Volume: i}
		must(t, m.FinishSnapshot(t.Context(), from))
		if _, ok, err := m.Find(t.Context(), to); err != nil || !ok {
			must(t, m.Clone(t.Context(), to, 32*pooltest.MiB, from, nil))
		}
		d, err := m.Open(t.Context(), to)
		must(t, err)
		devices[i] = d.Path
	}
	return devices
}

// record is one write of a counter.
const record = 4096

// counter writes numbers to records of a device, one after the other and each for good, until it is stopped. Next waits until one more was written.
func counter(t *testing.T, device string, records int) (next, stop func()) {
	t.Helper()
	var written atomic.Int64
	f, err := os.OpenFile(device, os.O_RDWR|unix.O_DIRECT, 0)
	must(t, err)
	page, err := unix.Mmap(-1, 0, record, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE) // Aligned.
	must(t, err)
	done, ended, begun := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for n := 1; ; n++ {
			select {
			case <-done:
				return
			default:
			}
			binary.LittleEndian.PutUint64(page, uint64(n))
			if _, err := f.WriteAt(page, int64(n%records*record)); err != nil {
				t.Error(err)
				return
			}
			written.Store(int64(n))
			if n == 3*records {
				close(begun)
			}
		}
	}()
	<-begun
	var once sync.Once
	stop = func() {
		once.Do(func() {
			close(done)
			<-ended
			must(t, errors.Join(f.Close(), unix.Munmap(page)))
		})
	}
	t.Cleanup(stop)
	next = func() {
		for seen := written.Load(); written.Load() == seen; {
			runtime.Gosched()
		}
	}
	return next, stop
}

// TestSharedSnapshotOfARawDeviceIsOfOneMoment takes a snapshot of a device that is written without a pause, past any filesystem.
func TestSharedSnapshotOfARawDeviceIsOfOneMoment(t *testing.T) {
	t.Parallel()
	for _, fstype := range []string{"xfs", "btrfs"} {
		t.Run(fstype, func(t *testing.T) {
			t.Parallel()
			const records = 1000
			m := newMoment(t, fstype, nil)
			_, stop := counter(t, m.devices[0], records)
			for range 3 {
				must(t, m.take(t, 0))
				must(t, m.RemoveSnapshot(t.Context(), snap))
			}
			must(t, m.take(t, 0))
			stop()
			must(t, m.FinishSnapshot(t.Context(), snap))
			text, err := os.ReadFile(filepath.Join(m.dir, "db_00000@snap.snapshot"))
			must(t, err)
			last := uint64(0)
			number := func(i int) uint64 { return binary.LittleEndian.Uint64(text[i*record:]) }
			for i := range records {
				last = max(last, number(i))
			}
			for n := last; n > last-records; n-- {
				if got := number(int(n % records)); got != n {
					t.Fatalf("%d was written last, and in the place of %d is %d", last, n, got)
				}
			}
		})
	}
}

func wantChanged(t *testing.T, err error, text string) {
	t.Helper()
	e, ok := errors.AsType[*pool.ChangedError](err)
	if !ok || e.ID != db || len(e.Holders) == 0 || !strings.Contains(err.Error(), text) {
		t.Errorf("got %v, want a change with %q", err, text)
	}
}

func TestCopyOfAVolumeThatIsWrittenIsRefused(t *testing.T) {
	m := newMoment(t, "ext4", freezing)
	idle := pooltest.OpenElsewhere(t, m.devices[0])
	must(t, m.take(t, 0)) // Whoever only has it open is not in the way.
	idle()
	next, stop := counter(t, m.devices[0], 10)
	progress := func(pool.Copied) { next() }
	wantChanged(t, m.TakeSnapshot(t.Context(), snap, progress), "stop the writers, or use a pool on XFS or Btrfs")
	wantChanged(t, m.Clone(t.Context(), clone, 32*pooltest.MiB, pool.SnapshotID{Resource: "db"}, progress), "file.test (pid ")
	stop()
	wantNames(t, m.dir, finishedName, "db_00001.volume")
	must(t, m.take(t, 0))
}

// TestWriteDuringACopyIsNoticed has exactly one write, at some time of the copy.
func TestWriteDuringACopyIsNoticed(t *testing.T) {
	m := newMoment(t, "ext4", nil)
	must(t, os.WriteFile(m.devices[0], bytes.Repeat([]byte("x"), 32*pooltest.MiB), 0o600))
	must(t, flush(m.devices[0]))
	write := func(path string) {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		must(t, err)
		_, err = f.WriteAt([]byte("y"), 31*pooltest.MiB)
		must(t, errors.Join(err, f.Sync(), f.Close()))
	}
	file := filepath.Join(m.dir, finishedName)
	for name, path := range map[string]string{"device": m.devices[0], "file": file, "device, and the time of the file set back": m.devices[0]} {
		for at := range 4 {
			wrote := false
			info, err := os.Stat(file)
			must(t, err)
			err = m.TakeSnapshot(t.Context(), snap, func(c pool.Copied) {
				if c.Done >= int64(at)*8*pooltest.MiB && !wrote {
					wrote = true
					write(path)
					if strings.Contains(name, "time") { // As if the clock were too coarse to show it.
						must(t, os.Chtimes(file, time.Time{}, info.ModTime()))
					}
				}
			})
			if e, ok := errors.AsType[*pool.ChangedError](err); !ok {
				t.Errorf("a write to the %s after %d pieces: %v, %v", name, at, e, err)
			}
		}
	}
	// A write before the copy is in it, also when it is still in the cache of the device.
	f, err := os.OpenFile(m.devices[0], os.O_WRONLY, 0)
	must(t, err)
	defer func() { must(t, f.Close()) }()
	_, err = f.WriteAt([]byte("in the cache"), 12345)
	must(t, err)
	must(t, m.take(t, 0))
	text, err := os.ReadFile(filepath.Join(m.dir, "db_00000@snap.new"))
	must(t, err)
	if !bytes.HasPrefix(text[12345:], []byte("in the cache")) {
		t.Error("what was written before is not in the snapshot")
	}
}

func TestFilesystemThatCannotBeFrozenIsNamed(t *testing.T) {
	m := newMoment(t, "ext4", func(m *moment, c *file.Config) {
		c.Freezer = freeze.New(freeze.Config{Runner: &command.Exec{}, Notes: m.notes, Helper: []string{"false"}})
	})
	m.mount(t)
	s, err := m.Suspend(t.Context(), both, time.Minute)
	must(t, err)
	err = m.TakeSnapshot(t.Context(), snap, func(c pool.Copied) {
		if c.Done == 0 {
			must(t, os.WriteFile(filepath.Join(m.mounts[0], "file"), []byte("written"), 0o600))
			must(t, flush(filepath.Join(m.mounts[0], "file")))
		}
	})
	wantChanged(t, err, "could not be frozen: freeze the filesystem on "+m.devices[0]+": start the guard: false guard "+m.devices[0]+": exit code 1")
	if written, err := s.Resume(); len(written) != 1 || written[0] != db || err != nil {
		t.Errorf("written: %v, %v", written, err)
	}
}

func TestLargeCopyOfAFrozenVolumeIsRefused(t *testing.T) {
	m := newMoment(t, "ext4", func(m *moment, c *file.Config) {
		freezing(m, c)
		c.StillMost = pooltest.MiB
	})
	m.mount(t)
	s, err := m.Suspend(t.Context(), both, time.Minute)
	must(t, err)
	err = m.take(t, 0)
	if h := holder(t, err); h.Kind != pool.Mounted || !strings.Contains(err.Error(), "would have to wait while") {
		t.Errorf("%v", err)
	}
	if written, err := s.Resume(); len(written) != 0 || err != nil {
		t.Errorf("written: %v, %v", written, err)
	}
	must(t, m.take(t, 0)) // While nobody has to wait for it.
}

// TestFreezeOfAKilledProcessIsUndone kills a process while it copies from frozen filesystems, alone and together with their guards.
func TestFreezeOfAKilledProcessIsUndone(t *testing.T) {
	for _, guards := range []bool{false, true} {
		m := newMoment(t, "ext4", freezing)
		m.mount(t)
		must(t, os.WriteFile(filepath.Join(m.mounts[0], "data"), bytes.Repeat([]byte("x"), 16*pooltest.MiB), 0o600))
		self, err := os.Executable()
		must(t, err)
		text, err := json.Marshal(victim{Dir: m.dir, Call: "take", Ready: "READY", Notes: m.notes})
		must(t, err)
		kill := pooltest.InShell(t, fmt.Sprintf(`%s="$(echo '%s' | sed "s:READY:$2:")" exec "$1"`, victimEnv, text), self)
		if notes, err := os.ReadDir(m.notes); err != nil || len(notes) != 2 {
			t.Errorf("%v, %v", notes, err)
		}
		if guards {
			killGuards(t, m.notes)
		}
		kill()
		next := open(t, file.Config{Dir: m.dir, Thin: true, Freezer: freeze.New(freeze.Config{Runner: &command.Exec{}, Notes: m.notes})})
		if _, err := next.List(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i, mnt := range m.mounts {
			must(t, os.WriteFile(filepath.Join(mnt, "file"), []byte("written"), 0o600)) // Hangs if it is still frozen.
			pooltest.Run(t, "umount", mnt)
			pooltest.Run(t, "mount", m.devices[i], mnt)
		}
		if notes, err := os.ReadDir(m.notes); err != nil || len(notes) != 0 {
			t.Errorf("%v, %v", notes, err)
		}
		wantNames(t, m.dir, finishedName, "db_00001.volume")
	}
}

// killGuards kills the guards that the notes in a folder tell of.
func killGuards(t *testing.T, dir string) {
	t.Helper()
	notes, err := filepath.Glob(dir + "/*.json")
	must(t, err)
	for _, path := range notes {
		text, err := os.ReadFile(path)
		must(t, err)
		var note struct{ Guard struct{ PID int } }
		must(t, json.Unmarshal(text, &note))
		must(t, unix.Kill(note.Guard.PID, unix.SIGKILL))
	}
}
