// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package held_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent/hold"
	"github.com/holdfast-storage/holdfast/internal/agent/mount"
	"github.com/holdfast-storage/holdfast/internal/agent/mount/mounttest"
	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/file"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/freeze"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/held"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/pooltest"
	"github.com/holdfast-storage/holdfast/internal/agent/worker"
	"github.com/holdfast-storage/holdfast/internal/command"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == freeze.HelperName {
		syscall.Exit(freeze.HelperMain(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == worker.Name {
		syscall.Exit(worker.Main(os.Args[2:], map[string]worker.Kind{held.KindName: held.Kind()}))
	}
	os.Exit(mounttest.Main(m))
}

// rig is the holds of a host, on this machine's kernel.
type rig struct {
	*hold.Set

	dir    string
	kernel *mount.Kernel
	files  *hold.Files
	stop   context.CancelFunc
	hosts  []*held.Host
	c      held.Config
	limits hold.Limits
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{dir: mounttest.Scratch(t)}
	r.limits = hold.Limits{
		ProbeEvery: -1, Mount: 5 * time.Second, Grace: 200 * time.Millisecond,
		UnmountRetry: hold.Backoff{First: 50 * time.Millisecond, Last: 200 * time.Millisecond},
	}
	var err error
	if r.kernel, err = mount.New(mount.Config{Base: filepath.Join(r.dir, "mnt"), Run: filepath.Join(r.dir, "run"), Runner: &command.Exec{}}); err != nil {
		t.Fatal(err)
	}
	if err := r.kernel.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.boot(t)
	t.Cleanup(func() {
		r.down(t)
		if err := r.kernel.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *rig) boot(t *testing.T) {
	t.Helper()
	var err error
	if r.files, err = hold.OpenFiles(filepath.Join(r.dir, "journal"), ""); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	changes, err := mount.Watch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	r.Set, err = hold.Open(hold.Config{
		Driver: r.kernel, Journal: r.files, Changes: changes,
		Liveness: map[hold.HolderKind]hold.Liveness{hold.Job: hold.Processes{}},
		Limits:   r.limits,
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (r *rig) down(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for _, h := range r.hosts {
		h.Close(ctx)
	}
	r.hosts = nil
	if err := r.Close(ctx); err != nil {
		t.Error(err)
	}
	r.stop()
	if err := r.files.Close(); err != nil {
		t.Error(err)
	}
}

// host returns the pools of this host as an agent that has just started has them.
func (r *rig) host(t *testing.T) *held.Host {
	t.Helper()
	c := r.c
	c.Node, c.Holds, c.Runner = "n1", r.Set, &command.Exec{}
	h, err := held.New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	r.hosts = append(r.hosts, h)
	return h
}

// properties of a pool.
type properties map[string]string

func spec(t *testing.T, name string, p properties) held.Spec {
	t.Helper()
	s, ok, err := held.Parse(name, "n1", p.full)
	if err != nil || !ok {
		t.Fatalf("parse: %v, %v", ok, err)
	}
	return s
}

func bound(dir string) properties {
	return properties{"StorDriver/Mount/Type": "bind", "StorDriver/Mount/Source": dir}
}

func (r *rig) open(t *testing.T, s held.Spec) *held.Pool {
	t.Helper()
	p, err := r.host(t).Open(s, true, "")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (r *rig) status(t *testing.T, name string) hold.Status {
	t.Helper()
	s, err := r.Inspect(t.Context(), name)
	if err != nil && !hold.IsKind(err, hold.Unknown) {
		t.Fatal(err)
	}
	return s
}

func (r *rig) mounted(t *testing.T, s held.Spec) bool {
	t.Helper()
	table, err := r.kernel.Table()
	if err != nil {
		t.Fatal(err)
	}
	_, ok := table.At(r.kernel.Target(s.Pool.Spec.Source))
	return ok
}

// await waits until a condition holds.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("waited too long until %s", what)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func TestDriver(t *testing.T) {
	for _, tc := range []struct {
		fstype string
		thin   bool
	}{{"ext4", true}, {"xfs", false}} {
		t.Run(tc.fstype, func(t *testing.T) {
			pooltest.NeedHost(t, "losetup", "mkfs.ext4", "mkfs."+tc.fstype)
			r := newRig(t)
			r.c.Linger = time.Hour // Others look for loop devices over what is mounted.
			below := pooltest.Mount(t, tc.fstype, 1<<30)
			pooltest.Suite{
				New: func(t *testing.T) pooltest.Fixture {
					t.Helper()
					dir, err := os.MkdirTemp(below, "source-") //nolint:usetesting // On that filesystem.
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() {
						for _, h := range r.hosts {
							h.Close(context.Background())
						}
						r.hosts = nil
					})
					return pooltest.Fixture{
						Open: func(t *testing.T) pool.Driver {
							t.Helper()
							p, err := r.host(t).Open(spec(t, "p", bound(dir)), tc.thin, "")
							if err != nil {
								t.Fatal(err)
							}
							return p
						},
						Uses: pooltest.DeviceUses(),
					}
				},
				Granularity: file.Granularity, Thin: tc.thin, RealDevices: true, Shares: tc.fstype == "xfs",
			}.Run(t)
		})
	}
}

func TestAPoolIsMountedForItsFirstVolumeAndTakenDownAfterItsLast(t *testing.T) {
	pooltest.NeedHost(t, "losetup")
	r := newRig(t)
	r.c.Linger = time.Millisecond
	s := spec(t, "p", bound(mounttest.Mkdir(t, r.dir, "share")))
	p := r.open(t, s)
	ids := []pool.ID{{Resource: "db"}, {Resource: "db", Volume: 1}, {Resource: "web"}}
	for _, id := range ids {
		must(t, p.Create(t.Context(), id, 1<<20))
		must(t, p.Finish(t.Context(), id))
		device, err := p.Open(t.Context(), id)
		must(t, err)
		if device.Size != 1<<20 {
			t.Errorf("%s has %d bytes", device.Path, device.Size)
		}
	}
	for i, id := range ids {
		await(t, "the agent works no more", func() bool { return len(r.status(t, "p").Holds) == len(ids)-i })
		if !r.mounted(t, s) {
			t.Fatalf("it is not mounted while %d volumes are open", len(ids)-i)
		}
		must(t, p.Close(t.Context(), id))
	}
	await(t, "it is taken down", func() bool { return !r.mounted(t, s) })
	if _, err := os.Stat(filepath.Join(r.dir, "share/holdfast/n1/p/db_00000.volume")); err != nil {
		t.Errorf("the volume is not where it belongs: %v", err)
	}
	must(t, p.Remove(t.Context(), ids[0]))
	await(t, "it is taken down again", func() bool { return !r.mounted(t, s) })
}

func TestVolumesHoldTheirPoolOverARestart(t *testing.T) {
	pooltest.NeedHost(t, "losetup")
	r := newRig(t)
	r.c.Linger = time.Millisecond
	s := spec(t, "p", bound(mounttest.Mkdir(t, r.dir, "share")))
	p := r.open(t, s)
	kept, lost := pool.ID{Resource: "kept"}, pool.ID{Resource: "lost"}
	for _, id := range []pool.ID{kept, lost} {
		must(t, p.Create(t.Context(), id, 1<<20))
		must(t, p.Finish(t.Context(), id))
		_, err := p.Open(t.Context(), id)
		must(t, err)
	}
	r.down(t)
	// A volume is closed while no agent runs.
	v, _, err := pool.Find(t.Context(), fileDriver(t, r, s), lost)
	must(t, err)
	pooltest.Run(t, "losetup", "-d", v.Device.Path)
	r.boot(t)
	if !r.mounted(t, s) {
		t.Fatal("it is not mounted any more")
	}
	p = r.open(t, s)
	all, err := p.List(t.Context())
	must(t, err)
	if len(all) != 2 {
		t.Errorf("%d volumes are there", len(all))
	}
	await(t, "only what is open holds it", func() bool {
		return len(slices.DeleteFunc(r.status(t, "p").Holds, func(h hold.Hold) bool { return h.ID == "volume/p/kept/0" })) == 0
	})
	must(t, p.Close(t.Context(), kept))
	await(t, "it is taken down", func() bool { return !r.mounted(t, s) })
}

// fileDriver is the pool in the mounted folder.
func fileDriver(t *testing.T, r *rig, s held.Spec) pool.Driver {
	t.Helper()
	d, err := file.New(file.Config{Name: "p", Node: "n1", Dir: filepath.Join(r.kernel.Target(s.Pool.Spec.Source), s.Folder), Thin: true})
	must(t, err)
	return d
}

func TestAPoolThatNobodyUsesIsNotMountedToBeLookedAt(t *testing.T) {
	r := newRig(t)
	r.c.Linger = time.Millisecond
	s := spec(t, "p", bound(mounttest.Mkdir(t, r.dir, "share")))
	p := r.open(t, s)
	first, err := p.Space(t.Context())
	must(t, err)
	_, err = p.List(t.Context())
	must(t, err)
	_, err = p.Snapshots(t.Context(), "")
	must(t, err)
	id, err := p.Identity(t.Context())
	must(t, err)
	await(t, "it is taken down", func() bool { return !r.mounted(t, s) })
	for range 3 {
		if again, err := p.Space(t.Context()); err != nil || again != first {
			t.Errorf("its space is %v, %v instead of %v", again, err, first)
		}
		if all, err := p.List(t.Context()); err != nil || len(all) != 0 {
			t.Errorf("its volumes are %v, %v", all, err)
		}
		for _, resource := range []string{"", "db"} {
			if all, err := p.Snapshots(t.Context(), resource); err != nil || len(all) != 0 {
				t.Errorf("its snapshots are %v, %v", all, err)
			}
		}
		if again, err := p.Identity(t.Context()); err != nil || again != id {
			t.Errorf("its identity is %q, %v", again, err)
		}
		if r.mounted(t, s) {
			t.Fatal("it was mounted to be looked at")
		}
	}
}

func TestAResidentPoolStaysMountedForTheTimeOfItsLease(t *testing.T) {
	r := newRig(t)
	r.c.Linger, r.c.Lease = time.Millisecond, time.Hour
	props := bound(mounttest.Mkdir(t, r.dir, "share"))
	props["StorDriver/Mount/Residency"] = "always"
	s := spec(t, "p", props)
	p := r.open(t, s)
	_, err := p.Space(t.Context())
	must(t, err)
	await(t, "nobody holds it", func() bool { return len(r.status(t, "p").Holds) == 0 })
	if st := r.status(t, "p"); !r.mounted(t, s) || !st.Desired {
		t.Errorf("it is not resident: %+v", st)
	}
	r.c.Lease = 300 * time.Millisecond
	_, err = r.open(t, s).Space(t.Context())
	must(t, err)
	await(t, "its lease is over", func() bool { return !r.mounted(t, s) })
}

func TestAServerThatHangsMakesItsPoolFaultyAlone(t *testing.T) {
	r := newRig(t)
	r.c.Quick, r.c.Farewell = 300*time.Millisecond, 300*time.Millisecond
	at := mounttest.Mkdir(t, r.dir, "fuse")
	server := mounttest.Serve(t, at)
	bad := r.open(t, spec(t, "bad", properties{
		"StorDriver/Mount/Type": "existing", "StorDriver/Mount/Source": at, "StorDriver/Mount/Options": "ro", "StorDriver/StorPoolName": "/",
	}))
	good := r.open(t, spec(t, "good", bound(mounttest.Mkdir(t, r.dir, "share"))))
	var fault *pool.FaultyError
	if _, err := bad.Space(t.Context()); !asFaulty(err, &fault) { // It serves an empty folder, in which no mark can be made.
		t.Fatalf("the error is %v", err)
	}
	server.Hang()
	began := time.Now()
	if _, err := bad.Space(t.Context()); !asFaulty(err, &fault) || time.Since(began) > 5*time.Second {
		t.Fatalf("after %s the error is %v", time.Since(began), err)
	}
	// The worker is killed when it does not end what was cancelled; from then on nothing is begun.
	await(t, "it is known to hang", func() bool {
		_, err := bad.Space(t.Context())
		return asFaulty(err, &fault) && fault.Detail != ""
	})
	if _, err := good.Space(t.Context()); err != nil {
		t.Errorf("another pool: %v", err)
	}
	began = time.Now()
	r.status(t, "bad")
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("Inspect took %s", took)
	}
	server.Resume()
	await(t, "it works as before", func() bool {
		_, err := bad.Space(t.Context())
		return asFaulty(err, &fault) && fault.Reason == pool.NotWritable
	})
}
