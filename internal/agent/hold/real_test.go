// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package hold_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/agent/hold"
	"github.com/holdfast-storage/holdfast/internal/agent/mount"
	"github.com/holdfast-storage/holdfast/internal/agent/mount/mounttest"
	"github.com/holdfast-storage/holdfast/internal/command"
)

// host is a Set on this machine's kernel, in a mount namespace of its own.
type host struct {
	*hold.Set

	t       testing.TB
	dir     string
	journal string
	kernel  *mount.Kernel
	files   *hold.Files
	limits  hold.Limits
	finders []hold.Finder
	stop    context.CancelFunc

	mu     sync.Mutex
	events map[hold.EventKind]int
	told   chan struct{} // Gets a value after events.
}

func newHost(tb testing.TB) *host {
	tb.Helper()
	h := &host{t: tb, dir: mounttest.Scratch(tb), events: map[hold.EventKind]int{}, told: make(chan struct{}, 1)}
	h.journal = filepath.Join(h.dir, "journal")
	h.limits = hold.Limits{ProbeEvery: -1, UnmountRetry: hold.Backoff{First: 50 * time.Millisecond, Last: 200 * time.Millisecond}}
	h.boot()
	tb.Cleanup(func() {
		h.down()
		if err := h.kernel.Close(); err != nil {
			tb.Error(err)
		}
	})
	return h
}

func (h *host) boot() {
	h.t.Helper()
	var err error
	if h.kernel == nil {
		c := mount.Config{Base: filepath.Join(h.dir, "mnt"), Run: filepath.Join(h.dir, "run"), Runner: &command.Exec{}}
		if h.kernel, err = mount.New(c); err != nil {
			h.t.Fatal(err)
		}
		if err := h.kernel.Prepare(h.t.Context()); err != nil {
			h.t.Fatal(err)
		}
	}
	if h.files, err = hold.OpenFiles(h.journal, ""); err != nil {
		h.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	h.stop = stop
	changes, err := mount.Watch(ctx)
	if err != nil {
		h.t.Fatal(err)
	}
	h.Set, err = hold.Open(hold.Config{
		Driver: h.kernel, Journal: h.files, Finders: h.finders, Changes: changes, Limits: h.limits, Observe: h.observe,
		Liveness: map[hold.HolderKind]hold.Liveness{hold.Job: hold.Processes{}},
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) observe(e hold.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events[e.Kind]++
	select {
	case h.told <- struct{}{}:
	default:
	}
}

// down ends the Set in good order.
func (h *host) down() {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := h.Close(ctx); err != nil {
		h.t.Error(err)
	}
	h.stop()
	if err := h.files.Close(); err != nil {
		h.t.Error(err)
	}
}

// die ends the Set as the end of its process would, and starts another.
func (h *host) die() {
	h.t.Helper()
	h.Kill()
	h.stop()
	if err := h.files.Close(); err != nil {
		h.t.Error(err)
	}
	h.boot()
}

// await returns when an event has happened so often.
func (h *host) await(kind hold.EventKind, times int) {
	h.t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		h.mu.Lock()
		n := h.events[kind]
		h.mu.Unlock()
		if n >= times {
			return
		}
		select {
		case <-h.told:
		case <-deadline:
			h.t.Fatalf("event %q happened %d times, not %d", kind, n, times)
		}
	}
}

// folder is a pool on a folder that is bound.
func (h *host) folder(name string) hold.Pool {
	h.t.Helper()
	dir := mounttest.Mkdir(h.t, h.dir, "sources", name)
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte(name), 0o600); err != nil {
		h.t.Fatal(err)
	}
	s, err := mount.ParseSource(mount.Bind, dir)
	if err != nil {
		h.t.Fatal(err)
	}
	return hold.Pool{ID: name, Spec: mount.Spec{Source: s}, Class: hold.Transfer}
}

func (h *host) acquire(p hold.Pool, id string) hold.Hold {
	h.t.Helper()
	got, err := h.Acquire(h.t.Context(), p, req(id))
	if err != nil {
		h.t.Fatal(err)
	}
	return got
}

func (h *host) release(id string) hold.Teardown {
	h.t.Helper()
	td, err := h.Release(h.t.Context(), hold.ID(id))
	if err != nil {
		h.t.Fatal(err)
	}
	return td
}

// mounts returns how often something is mounted at the place of a pool.
func (h *host) mounts(p hold.Pool) int {
	h.t.Helper()
	table, err := h.kernel.Table()
	if err != nil {
		h.t.Fatal(err)
	}
	n := 0
	for _, e := range table {
		if e.Target == h.kernel.Target(p.Spec.Source) {
			n++
		}
	}
	return n
}

func TestRealPoolGoesDownWhenItsLastUserDoes(t *testing.T) {
	h := newHost(t)
	p := h.folder("backup")
	first := h.acquire(p, "a")
	if text, err := os.ReadFile(filepath.Join(first.Path(), "file")); err != nil || string(text) != "backup" {
		t.Errorf("the file says %q, %v", text, err)
	}
	h.acquire(p, "b")
	if td := h.release("a"); td.Outcome != hold.NotNeeded || td.Holders != 1 {
		t.Errorf("the first leaves: %v", td)
	}
	user := mounttest.Use(t, mounttest.OpenFile, filepath.Join(first.Path(), "file"))
	td := h.release("b")
	if td.Outcome != hold.Deferred || len(td.Blockers) != 1 || td.Blockers[0].PID != user.PID || !strings.Contains(td.String(), fmt.Sprintf("(pid %d", user.PID)) {
		t.Errorf("the last leaves, and somebody has a file open: %v", td)
	}
	user.Stop()
	h.await(hold.Unmounted, 1)
	if n := h.mounts(p); n != 0 {
		t.Errorf("%d mounts are left", n)
	}
}

// A virtual machine of libvirt lives in a mount namespace of its own. Where mounts do not propagate, the kernel does not refuse to unmount
// what it uses.
func TestRealPoolIsNotTakenFromOtherNamespaces(t *testing.T) {
	h := newHost(t)
	p := h.folder("vm")
	user := mounttest.Use(t, mounttest.Apart, filepath.Join(h.acquire(p, "a").Path(), "file"))
	if td := h.release("a"); td.Outcome != hold.Deferred || len(td.Blockers) != 1 || !td.Blockers[0].Foreign {
		t.Errorf("teardown %v", td)
	}
	user.Stop()
	h.await(hold.Unmounted, 1)
}

func TestRealMountThatIsTakenAwayIsReplacedAndTheBareFolderStaysEmpty(t *testing.T) {
	h := newHost(t)
	p := h.folder("a")
	first := h.acquire(p, "a")
	if err := unix.Unmount(first.Path(), unix.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	h.await(hold.MountedEvent, 2)
	second := h.acquire(p, "a")
	if second.Mount.Unique != 0 && second.Mount.Same(first.Mount) || h.mounts(p) != 1 {
		t.Errorf("mount %v after %v, %d mounts", second.Mount, first.Mount, h.mounts(p))
	}
	h.release("a")
	err := os.WriteFile(filepath.Join(first.Path(), "image"), []byte("lost"), 0o600)
	if !errors.Is(err, unix.EPERM) {
		t.Errorf("the bare folder can be written: %v", err)
	}
	if names, err := os.ReadDir(first.Path()); err != nil || len(names) != 0 {
		t.Errorf("the bare folder has %v, %v", names, err)
	}
}

func TestRealMountThatIsDetachedUnderItsWriterIsLost(t *testing.T) {
	h := newHost(t)
	device := mounttest.Loop(t, h.dir, 16<<20)
	if _, err := (&command.Exec{}).Run(t.Context(), command.Command{Program: "mkfs.ext4", Args: []string{"-q", device}}); err != nil {
		t.Fatal(err)
	}
	p := hold.Pool{ID: "disk", Spec: mount.Spec{Source: mount.Source{Kind: mount.Block, Path: device}, Identity: mount.Identity{Create: true}}}
	got := h.acquire(p, "a")
	user := mounttest.Use(t, mounttest.OpenFile, filepath.Join(got.Path(), mount.MarkerName))
	if err := unix.Unmount(got.Path(), unix.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	h.await(hold.LostEvent, 2)
	_, err := h.Acquire(t.Context(), p, req("b"))
	if !hold.IsKind(err, hold.Lost) {
		t.Errorf("acquire: %v", err)
	}
	st, err := h.Inspect(t.Context(), "disk")
	if err != nil || st.State != hold.StateLost || len(st.Blockers) != 1 || st.Blockers[0].PID != user.PID {
		t.Errorf("status %+v, %v", st, err)
	}
	user.Stop()
	h.await(hold.Regained, 1)
	h.acquire(p, "b")
}

func TestRealHoldsOutliveTheProcess(t *testing.T) {
	h := newHost(t)
	p := h.folder("a")
	first := h.acquire(p, "a")
	h.die()
	if again := h.acquire(p, "a"); !again.Mount.Same(first.Mount) {
		t.Errorf("mount %v after %v", again.Mount, first.Mount)
	}
	h.die()
	if td := h.release("a"); td.Outcome != hold.Done || h.mounts(p) != 0 {
		t.Errorf("teardown %v", td)
	}
}

func TestRealVirtualMachineIsAHolderAfterARestart(t *testing.T) {
	h := newHost(t)
	p := h.folder("vm")
	disk := filepath.Join(h.acquire(p, "start of the machine").Path(), "file")
	vm := mounttest.Use(t, mounttest.Machine, disk)
	h.limits.CheckEvery = 20 * time.Millisecond
	h.finders = []hold.Finder{hold.Machines{Kernel: h.kernel}}
	h.die()
	if td := h.release("start of the machine"); td.Outcome != hold.NotNeeded || td.Holders != 1 {
		t.Errorf("teardown %v", td)
	}
	st, err := h.Inspect(t.Context(), "vm")
	if err != nil || st.State != hold.Ready || len(st.Holds) != 1 || !st.Holds[0].Derived || st.Holds[0].Holder.Name != "test-vm" || st.Holds[0].Path() != disk {
		t.Errorf("status %+v, %v", st, err)
	}
	vm.Stop()
	h.await(hold.Unmounted, 1)
}

func TestRealRandomChangesLeaveNothing(t *testing.T) {
	h := newHost(t)
	p := h.folder("a")
	random := rand.New(rand.NewPCG(1, 2))
	attached := map[int]bool{}
	for range 100 {
		v := random.IntN(4)
		if attached[v] {
			h.release(fmt.Sprint(v))
		} else {
			h.acquire(p, fmt.Sprint(v))
		}
		attached[v] = !attached[v]
		if n := h.mounts(p); n > 1 || n == 0 && (attached[0] || attached[1] || attached[2] || attached[3]) {
			t.Fatalf("%d mounts, held %v", n, attached)
		}
		if random.IntN(10) == 0 {
			h.die()
		}
	}
	for v := range 4 {
		if attached[v] {
			h.release(fmt.Sprint(v))
		}
	}
	if n := h.mounts(p); n != 0 {
		t.Errorf("%d mounts are left", n)
	}
}

func TestRealStrayMountIsToldAndLeftAlone(t *testing.T) {
	h := newHost(t)
	stray := mounttest.Mkdir(t, h.dir, "mnt", "stray")
	if err := unix.Mount("stray", stray, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	h.await(hold.Stray, 1)
	h.die()
	h.await(hold.Stray, 2)
	if err := unix.Unmount(stray, 0); err != nil {
		t.Errorf("it was unmounted: %v", err)
	}
}

// TestRealServerThatHangsHarmsNobodyElse has a file system whose callers hang in the kernel and cannot be killed.
func TestRealServerThatHangsHarmsNobodyElse(t *testing.T) {
	h := newHost(t)
	h.down()
	h.limits.Probe, h.limits.ProbeEvery = 100*time.Millisecond, 10*time.Millisecond
	h.boot()
	dir := mounttest.Mkdir(t, h.dir, "server")
	server := mounttest.Serve(t, dir)
	p := hold.Pool{ID: "remote", Spec: mount.Spec{Source: mount.Source{Kind: mount.Existing, Path: dir}}}
	h.acquire(p, "a")
	server.Hang()
	h.await(hold.SuspectEvent, 1)
	began := time.Now()
	st, err := h.Inspect(t.Context(), "remote")
	if took := time.Since(began); err != nil || st.State != hold.StateSuspect || took > 100*time.Millisecond {
		t.Errorf("inspected in %s: %+v, %v", took, st, err)
	}
	if _, err := h.Acquire(t.Context(), p, req("b")); !hold.IsKind(err, hold.Suspect) {
		t.Errorf("acquire: %v", err)
	}
	other := h.folder("other")
	h.acquire(other, "c")
	if td := h.release("c"); td.Outcome != hold.Done {
		t.Errorf("another pool: %v", td)
	}
	if td := h.release("a"); td.Outcome != hold.Done || !strings.Contains(td.Reason, "operator") {
		t.Errorf("release: %v", td)
	}
	h.acquireLater(p, server)
}

// acquireLater has the server answer again, and waits until its pool can be had.
func (h *host) acquireLater(p hold.Pool, server *mounttest.Server) {
	h.t.Helper()
	server.Resume()
	deadline := time.Now().Add(20 * time.Second)
	for {
		_, err := h.Acquire(h.t.Context(), p, req("d"))
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			h.t.Fatal(err)
		}
	}
}
