// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package job_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/agent/job"
	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/file"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/pooltest"
	"github.com/holdfast-storage/holdfast/internal/agent/worker"
	"github.com/holdfast-storage/holdfast/internal/command"
)

const mib = 1 << 20

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == worker.Name {
		syscall.Exit(worker.Main(os.Args[2:], map[string]worker.Kind{job.KindName: job.Kind()}))
	}
	goleak.VerifyTestMain(m)
}

// rig is a host with one file pool and its jobs.
type rig struct {
	*job.Service

	t    *testing.T
	dir  string // Of the pool.
	jobs string
	pool *file.Pool
	wait time.Duration

	mu   sync.Mutex
	held map[string]int // How often each hold was taken and not given back.
	ever int
}

func newRig(t *testing.T) *rig {
	t.Helper()
	pooltest.NeedHost(t, "losetup", "mkfs.ext4", "qemu-img")
	return newRigIn(t, filepath.Join(pooltest.Mount(t, "ext4", 512*mib), "pool"))
}

// newRigIn is a rig whose pool is made in a folder.
func newRigIn(t *testing.T, dir string) *rig {
	t.Helper()
	r := &rig{t: t, dir: dir, jobs: t.TempDir(), held: map[string]int{}, wait: time.Millisecond}
	must(t, os.MkdirAll(r.dir, 0o700))
	var err error
	r.pool, err = file.New(file.Config{Name: "p", Node: "n1", Dir: r.dir, Thin: true})
	must(t, err)
	r.boot()
	t.Cleanup(func() {
		r.Close()
		all, err := r.pool.List(context.Background())
		must(t, err)
		for _, v := range all {
			must(t, r.pool.Remove(context.Background(), v.ID))
		}
		if n := r.holds(); n != 0 {
			t.Errorf("%d pools are held in the end", n)
		}
	})
	return r
}

func (r *rig) boot() {
	r.t.Helper()
	var err error
	r.Service, err = job.Open(job.Config{Dir: r.jobs, Host: r, Runner: &command.Exec{}, Again: 10 * time.Millisecond, Wait: r.wait})
	must(r.t, err)
}

func (r *rig) holds() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range r.held {
		n += h
	}
	return n
}

// Pool implements job.Host.
func (r *rig) Pool(ctx context.Context, id pool.ID) (string, pool.Driver, error) {
	_, ok, err := r.pool.Find(ctx, id)
	if err == nil && !ok {
		err = &pool.NotFoundError{Pool: "p", ID: id}
	}
	return "p", r.pool, err
}

// Keeper implements job.Host.
func (r *rig) Keeper(ctx context.Context, id pool.SnapshotID) (string, pool.Driver, error) {
	all, err := r.pool.Snapshots(ctx, id.Resource)
	if err != nil {
		return "", nil, err
	}
	for _, s := range all {
		if s.ID.Compare(id) == 0 {
			return "p", r.pool, nil
		}
	}
	return "", nil, &pool.NotFoundError{Pool: "p", ID: id.Of(), Snapshot: id.Snapshot}
}

// Hold implements job.Host.
func (r *rig) Hold(_ context.Context, _, id string) (func(), error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held[id] = 1
	r.ever++
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.held, id)
	}, nil
}

// Folder implements job.Host.
func (r *rig) Folder(context.Context, string) (worker.Place, error) {
	return worker.Place{Dir: r.dir}, nil
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// volume makes an open volume with some content, and zeros behind it.
func (r *rig) volume(name string, size int64, content []byte) pool.Device {
	r.t.Helper()
	id := pool.ID{Resource: name}
	must(r.t, r.pool.Create(r.t.Context(), id, size))
	must(r.t, r.pool.Finish(r.t.Context(), id))
	d, err := r.pool.Open(r.t.Context(), id)
	must(r.t, err)
	if len(content) > 0 {
		f, err := os.OpenFile(d.Path, os.O_WRONLY, 0)
		must(r.t, err)
		_, err = f.WriteAt(content, 0)
		must(r.t, errors.Join(err, f.Sync(), f.Close()))
	}
	return d
}

// content is what the beginning of a volume has.
func (r *rig) content(d pool.Device, n int) []byte {
	r.t.Helper()
	f, err := os.Open(d.Path)
	must(r.t, err)
	defer func() { _ = f.Close() }()
	b := make([]byte, n)
	_, err = io.ReadFull(f, b)
	must(r.t, err)
	return b
}

// has fails the test unless a volume has a content, and zeros behind it.
func (r *rig) has(d pool.Device, want []byte) {
	r.t.Helper()
	have := r.content(d, int(d.Size))
	if !bytes.Equal(have[:len(want)], want) {
		r.t.Errorf("%s has another content", d.Path)
	}
	if !zeros(have[len(want):]) {
		r.t.Errorf("%s has something behind the image", d.Path)
	}
}

func zeros(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }

// noise is a content that is not compressible, with a hole.
func noise(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{7})
	_, _ = r.Read(b[:n/2])
	_, _ = r.Read(b[min(n, n/2+2*mib):])
	return b
}

func hexsum(b []byte) string {
	h := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(h[:])
}

func end(resource string) *agentpb.JobEnd { return &agentpb.JobEnd{Resource: resource} }

func inPool(path string) *agentpb.JobEnd { return &agentpb.JobEnd{Pool: "p", Path: path} }

// run does a job and returns how it ended.
func (r *rig) run(j *agentpb.Job) *agentpb.JobStatus {
	r.t.Helper()
	_, err := r.Start(r.t.Context(), j)
	must(r.t, err)
	return r.ended(j.GetId())
}

// ended waits for the end of a job.
func (r *rig) ended(id string) *agentpb.JobStatus {
	r.t.Helper()
	return r.await(id, "it has ended", func(st *agentpb.JobStatus) bool { return st.GetEnded() != nil })
}

func (r *rig) await(id, what string, ok func(*agentpb.JobStatus) bool) *agentpb.JobStatus {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 30*time.Second)
	defer cancel()
	var last *agentpb.JobStatus
	r.Watch(ctx, func(st *agentpb.JobStatus) {
		if st.GetJob().GetId() == id && last == nil && ok(st) {
			last = st
			cancel()
		}
	})
	if last == nil {
		st, _ := r.Get(id)
		r.t.Fatalf("waited too long until %s: %v", what, st)
	}
	return last
}

func (r *rig) done(j *agentpb.Job, checksum string) {
	r.t.Helper()
	st := r.run(j)
	if st.GetState() != agentpb.JobStatus_DONE || checksum != "" && st.GetChecksum() != checksum || st.GetDone() != st.GetTotal() {
		r.t.Errorf("the job is %v", st)
	}
	r.nothingLeft(j)
}

// fails does a job that must fail for a reason, and leave nothing.
func (r *rig) fails(j *agentpb.Job, why string) {
	r.t.Helper()
	st := r.run(j)
	if st.GetState() != agentpb.JobStatus_FAILED || !strings.Contains(st.GetFailure().GetMessage(), why) {
		r.t.Errorf("the job is %v, and not failed because of %q", st, why)
	}
	r.nothingLeft(j)
}

// nothingLeft fails the test when there is something that only a job at work has.
func (r *rig) nothingLeft(j *agentpb.Job) {
	r.t.Helper()
	all, err := r.pool.List(r.t.Context())
	must(r.t, err)
	for _, v := range all {
		if v.New {
			r.t.Errorf("the clone %s is left", v.ID)
		}
	}
	if c := r.Clones(); len(c) > 0 {
		r.t.Errorf("clones are told of: %v", c)
	}
	for _, pattern := range []string{filepath.Join(r.dir, "*.part"), filepath.Join(r.dir, ".*.part"), filepath.Join(r.jobs, "*.image")} {
		left, err := filepath.Glob(pattern)
		must(r.t, err)
		if len(left) > 0 {
			r.t.Errorf("job %s leaves %v", j.GetId(), left)
		}
	}
}

func TestAVolumeIsCopiedIntoALargerOne(t *testing.T) {
	r := newRig(t)
	content := noise(10 * mib)
	r.volume("a", 10*mib, content)
	to := r.volume("b", 16*mib, bytes.Repeat([]byte("old"), 5*mib))
	r.done(&agentpb.Job{Id: "j1", Kind: agentpb.Job_COPY, From: end("a"), To: end("b")}, hexsum(content))
	r.has(to, content)
	r.fails(&agentpb.Job{Id: "j2", Kind: agentpb.Job_COPY, From: end("b"), To: end("a")}, "room for 10485760")
	if r.ever < 2 {
		t.Error("no pool was held")
	}
}

func TestASnapshotIsCopiedAndAVolumeInUseToo(t *testing.T) {
	r := newRig(t)
	content := noise(6 * mib)
	d := r.volume("a", 6*mib, content)
	to := r.volume("b", 6*mib, nil)
	snapshot := pool.SnapshotID{Resource: "a", Snapshot: "s1"}
	must(t, r.pool.TakeSnapshot(t.Context(), snapshot, nil))
	must(t, r.pool.FinishSnapshot(t.Context(), snapshot))
	user, err := os.OpenFile(d.Path, os.O_RDWR, 0)
	must(t, err)
	defer func() { _ = user.Close() }()
	_, err = user.WriteAt([]byte("changed"), 0)
	must(t, errors.Join(err, user.Sync()))
	from := end("a")
	from.Snapshot = "s1"
	r.done(&agentpb.Job{Id: "j1", Kind: agentpb.Job_COPY, From: from, To: end("b")}, hexsum(content))
	r.has(to, content)
	copy(content, "changed")
	r.done(&agentpb.Job{Id: "j2", Kind: agentpb.Job_COPY, From: end("a"), To: end("b")}, hexsum(content))
	r.has(to, content)
	r.fails(&agentpb.Job{Id: "j3", Kind: agentpb.Job_COPY, From: end("b"), To: end("a")}, "is in use")
	r.has(d, content)
	must(t, r.pool.RemoveSnapshot(t.Context(), snapshot))
}

func TestImagesGoOutAndComeBackInBothFormats(t *testing.T) {
	r := newRig(t)
	content := noise(8 * mib)
	r.volume("a", 8*mib, content)
	for _, format := range []string{"", "raw", "qcow2"} {
		name := "out/" + format + ".img"
		r.done(&agentpb.Job{Id: "out" + format, Kind: agentpb.Job_EXPORT, From: end("a"), To: inPool(name), Format: format}, "")
		st, _ := r.Get("out" + format)
		text, err := os.ReadFile(filepath.Join(r.dir, name))
		must(t, err)
		if st.GetChecksum() != hexsum(text) {
			t.Errorf("the checksum is %s", st.GetChecksum())
		}
		to := r.volume("b"+format, 12*mib, bytes.Repeat([]byte("old"), 4*mib))
		r.done(&agentpb.Job{
			Id: "in" + format, Kind: agentpb.Job_IMPORT, From: inPool(name), To: end("b" + format), Format: format, Checksum: st.GetChecksum(),
		}, st.GetChecksum())
		r.has(to, content)
		r.fails(&agentpb.Job{Id: "again" + format, Kind: agentpb.Job_EXPORT, From: end("a"), To: inPool(name), Format: format}, "is there already")
		must(t, r.pool.Remove(t.Context(), pool.ID{Resource: "b" + format}))
	}
}

func TestBadImagesAreRefusedAndTheVolumeStaysAsItWas(t *testing.T) {
	r := newRig(t)
	content := noise(4 * mib)
	to := r.volume("a", 4*mib, content)
	write := func(name string, b []byte) { must(t, os.WriteFile(filepath.Join(r.dir, name), b, 0o600)) }
	write("raw.img", noise(mib))
	write("large.img", make([]byte, 4*mib+1))
	pooltest.Run(t, "qemu-img", "create", "-q", "-f", "qcow2", filepath.Join(r.dir, "large.qcow2"), "5M")
	pooltest.Run(t, "qemu-img", "create", "-q", "-f", "qcow2", "-b", filepath.Join(r.dir, "raw.img"), "-F", "raw", filepath.Join(r.dir, "over.qcow2"), "1M")
	must(t, os.Symlink("/etc/passwd", filepath.Join(r.dir, "link.img")))
	must(t, os.Mkdir(filepath.Join(r.dir, "folder"), 0o700))
	for i, tc := range []struct{ file, format, checksum, why string }{
		{"raw.img", "qcow2", "", "not of the format qcow2"},
		{"raw.img", "", hexsum([]byte("x")), "checksum is"},
		{"large.img", "", "", "room for 4194304"},
		{"large.qcow2", "qcow2", "", "room for 4194304"},
		{"over.qcow2", "qcow2", "", "lies on another file"},
		{"link.img", "", "", "cannot be read"},
		{"folder", "", "", "no regular file"},
		{"nothing", "", "", "cannot be read"},
	} {
		r.fails(&agentpb.Job{
			Id: fmt.Sprint("j", i), Kind: agentpb.Job_IMPORT, From: inPool(tc.file), To: end("a"), Format: tc.format, Checksum: tc.checksum,
		}, tc.why)
		r.has(to, content)
	}
	// What looks like qcow2 and is said to be raw is taken as the bytes that it is.
	text, err := os.ReadFile(filepath.Join(r.dir, "over.qcow2"))
	must(t, err)
	r.done(&agentpb.Job{Id: "raw", Kind: agentpb.Job_IMPORT, From: inPool("over.qcow2"), To: end("a"), Format: "raw"}, hexsum(text))
	r.has(to, text)
}

func TestARecordThatCannotBeUnderstoodIsPutAside(t *testing.T) {
	r := newRig(t)
	content := noise(2 * mib)
	r.volume("a", 2*mib, content)
	r.volume("b", 2*mib, nil)
	r.done(&agentpb.Job{Id: "good", Kind: agentpb.Job_COPY, From: end("a"), To: end("b")}, hexsum(content))
	r.Close()
	good, err := os.ReadFile(filepath.Join(r.jobs, "good.job"))
	must(t, err)
	for name, text := range map[string]string{"torn.job": "{", "empty.job": "", "other.job": string(good)} {
		must(t, os.WriteFile(filepath.Join(r.jobs, name), []byte(text), 0o600))
	}
	r.boot()
	if st, ok := r.Get("good"); !ok || st.GetState() != agentpb.JobStatus_DONE {
		t.Errorf("the good one is %v, %v", st, ok)
	}
	aside, err := filepath.Glob(filepath.Join(r.jobs, "*.unreadable"))
	must(t, err)
	if len(aside) != 3 {
		t.Errorf("put aside were %v", aside)
	}
}

func TestStartingAJobAgainJoinsIt(t *testing.T) {
	r := newRig(t)
	content := noise(2 * mib)
	r.volume("a", 2*mib, content)
	r.volume("b", 2*mib, nil)
	j := &agentpb.Job{Id: "j", Kind: agentpb.Job_COPY, From: end("a"), To: end("b")}
	r.done(j, hexsum(content))
	st, err := r.Start(t.Context(), j)
	if err != nil || st.GetState() != agentpb.JobStatus_DONE {
		t.Errorf("got %v, %v", st, err)
	}
	other := &agentpb.Job{Id: "j", Kind: agentpb.Job_COPY, From: end("b"), To: end("a")}
	if st, err := r.Start(t.Context(), other); err == nil {
		t.Errorf("another job of that id was taken: %v", st)
	}
}

func TestImpossibleJobsAreRefused(t *testing.T) {
	r := newRig(t)
	for name, j := range map[string]*agentpb.Job{
		"no id":                {Kind: agentpb.Job_COPY, From: end("a"), To: end("b")},
		"a path as id":         {Id: "../x", Kind: agentpb.Job_COPY, From: end("a"), To: end("b")},
		"no kind":              {Id: "j", From: end("a"), To: end("b")},
		"onto itself":          {Id: "j", Kind: agentpb.Job_COPY, From: end("a"), To: end("A")},
		"a file URL":           {Id: "j", Kind: agentpb.Job_DOWNLOAD, Url: "file:///etc/passwd", To: end("a")},
		"an unknown format":    {Id: "j", Kind: agentpb.Job_EXPORT, From: end("a"), To: inPool("x"), Format: "vmdk"},
		"a path outside":       {Id: "j", Kind: agentpb.Job_EXPORT, From: end("a"), To: inPool("../x")},
		"an absolute path":     {Id: "j", Kind: agentpb.Job_IMPORT, From: inPool("/etc/passwd"), To: end("a")},
		"a volume's file":      {Id: "j", Kind: agentpb.Job_IMPORT, From: inPool("db_00000.volume"), To: end("a")},
		"the pool's mark":      {Id: "j", Kind: agentpb.Job_EXPORT, From: end("a"), To: inPool(".holdfast-pool")},
		"a snapshot as target": {Id: "j", Kind: agentpb.Job_COPY, From: end("a"), To: &agentpb.JobEnd{Resource: "b", Snapshot: "s"}},
		"a short checksum":     {Id: "j", Kind: agentpb.Job_DOWNLOAD, Url: "http://x/y", To: end("a"), Checksum: "sha256:00"},
		"no pool":              {Id: "j", Kind: agentpb.Job_EXPORT, From: end("a"), To: &agentpb.JobEnd{Path: "x"}},
	} {
		if st, err := r.Start(t.Context(), j); err == nil {
			t.Errorf("%s was taken: %v", name, st)
		}
	}
	r.fails(&agentpb.Job{Id: "none", Kind: agentpb.Job_COPY, From: end("none"), To: end("b")}, "none")
}
