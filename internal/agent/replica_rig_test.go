// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/agent"
	"github.com/holdfast-storage/holdfast/internal/agent/drbd"
	"github.com/holdfast-storage/holdfast/internal/agent/drbd/drbdtest"
	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/pooltest"
	"github.com/holdfast-storage/holdfast/internal/command"
	"github.com/holdfast-storage/holdfast/internal/model"
)

const (
	drbdDevice = "/dev/drbd1000"
	generation = "A000000000000002"
)

// replicas is some hosts with DRBD, whose pools are in memory. The device of DRBD has one content on
// all of them.
type replicas struct {
	*testing.T
	cluster  *drbdtest.Cluster
	hosts    map[string]*replicaHost
	now      time.Time
	contents map[string]*memoryDisk // by host and path; those of DRBD by path
	formats  []string               // devices, as often as they were formatted
}

// replicaHost is one of them. It keeps its volumes over agents.
type replicaHost struct {
	r       *replicas
	name    string
	node    *drbdtest.Node
	memory  *pooltest.Memory
	notes   string
	machine *agent.Machine

	mu    sync.Mutex
	steps int             // that were done
	kill  func(int) error // what becomes of a step; nil: it is done
	after bool            // the step is done all the same
}

func newReplicas(t *testing.T, names ...string) *replicas {
	t.Helper()
	r := &replicas{
		T: t, cluster: drbdtest.NewCluster(t, names...), hosts: map[string]*replicaHost{}, now: time.Unix(1000, 0),
		contents: map[string]*memoryDisk{},
	}
	for _, name := range names {
		h := &replicaHost{
			r: r, name: name, node: r.cluster.Node(name), notes: t.TempDir(),
			memory: pooltest.NewMemory(pooltest.MemoryConfig{Name: "pool1", Total: 1 << 30}),
		}
		h.restart()
		r.hosts[name] = h
	}
	t.Cleanup(func() {
		for _, d := range r.cluster.Disasters() {
			t.Errorf("disaster: %s", d)
		}
	})
	return r
}

// restart begins a new agent on the host.
func (h *replicaHost) restart() {
	h.machine = agent.NewMachine(func(agent.Pool) (pool.Driver, error) { return hostPool{h.memory, h}, nil }, h)
	h.machine.Replicate(agent.Replication{
		DRBD: drbd.New(drbd.Settings{
			Runner: h, Users: h.node.Users, Folder: h.node.Folder, Notes: h.r.TempDir(), Now: func() time.Time { return h.r.now },
		}),
		Uname: h.name, Notes: filepath.Join(h.notes, "formatting"), Open: h.open,
	})
}

var errKilled = errors.New("the agent was killed")

// step counts a step that changes something, and tells whether it is to be killed.
func (h *replicaHost) step() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.steps++
	if h.kill == nil {
		return nil
	}
	return h.kill(h.steps)
}

// Run implements command.Runner.
func (h *replicaHost) Run(ctx context.Context, c command.Command) (command.Result, error) {
	if c.Program == "drbdsetup" && len(c.Args) > 0 && c.Args[0] == "status" || slices.Contains(c.Args, "--dry-run") || slices.Contains(c.Args, "get-gi") {
		return h.node.Run(ctx, c)
	}
	killed := h.step()
	if killed != nil && !h.after {
		return command.Result{}, killed
	}
	if strings.HasPrefix(c.Program, "mkfs.") {
		device := c.Args[len(c.Args)-1]
		h.r.formats = append(h.r.formats, h.name+" "+device)
		disk := h.disk(device)
		copy(disk.bytes[4096:], "group descriptors")
		if killed != nil {
			return command.Result{}, killed // it had not come to its end
		}
		disk.bytes[1080], disk.bytes[1081] = 0x53, 0xEF
		return command.Result{}, nil
	}
	result, err := h.node.Run(ctx, c)
	return result, errors.Join(err, killed)
}

// disk is the content of a device.
func (h *replicaHost) disk(path string) *memoryDisk {
	key := path
	if !strings.HasPrefix(path, "/dev/drbd") {
		key = h.name + path
	}
	h.r.contents[key] = cmpOr(h.r.contents[key], &memoryDisk{bytes: make([]byte, 2*mib)})
	return h.r.contents[key]
}

func cmpOr(a, b *memoryDisk) *memoryDisk {
	if a != nil {
		return a
	}
	return b
}

func (h *replicaHost) open(path string) (agent.Disk, error) { return h.disk(path), nil }

// memoryDisk is a device in memory.
type memoryDisk struct{ bytes []byte }

func (d *memoryDisk) ReadAt(p []byte, at int64) (int, error) {
	return bytes.NewReader(d.bytes).ReadAt(p, at)
}
func (d *memoryDisk) WriteAt(p []byte, at int64) (int, error) { return copy(d.bytes[at:], p), nil }
func (d *memoryDisk) Sync() error                             { return nil }
func (d *memoryDisk) Close() error                            { return nil }

var _ io.ReaderAt = (*memoryDisk)(nil)

// hostPool is the pool of a host, whose devices DRBD knows of.
type hostPool struct {
	*pooltest.Memory
	h *replicaHost
}

func (p hostPool) change(do func() error) error {
	killed := p.h.step()
	if killed != nil && !p.h.after {
		return killed
	}
	return errors.Join(do(), killed)
}

func (p hostPool) Create(ctx context.Context, id pool.ID, size int64) error {
	return p.change(func() error { return p.Memory.Create(ctx, id, size) })
}

func (p hostPool) Finish(ctx context.Context, id pool.ID) error {
	return p.change(func() error { return p.Memory.Finish(ctx, id) })
}

func (p hostPool) Remove(ctx context.Context, id pool.ID) error {
	return p.change(func() error { return p.Memory.Remove(ctx, id) })
}

func (p hostPool) Open(ctx context.Context, id pool.ID) (pool.Device, error) {
	d, err := p.Memory.Open(ctx, id)
	if err == nil {
		p.h.node.Disk(d.Path, d.Size)
	}
	return d, err
}

func (p hostPool) Grow(ctx context.Context, id pool.ID, size int64) error {
	if err := p.Memory.Grow(ctx, id, size); err != nil {
		return err
	}
	v, _, err := p.Find(ctx, id)
	if err == nil && v.Device.Path != "" {
		p.h.node.Disk(v.Device.Path, v.Device.Size)
	}
	return err
}

// replicaWant is the wish for a replica of r1 on a host: the hosts are numbered by their names, and the
// first one starts the volume.
func (r *replicas) want(name string, size int64, change ...func(*agent.Want)) agent.Want {
	names := slices.Sorted(maps.Keys(r.hosts))
	address := func(of string) string { return fmt.Sprintf("10.0.0.%d:7000", slices.Index(names, of)+1) }
	w := agent.Want{
		Resource: "r1", Layers: []model.Layer{model.DRBD, model.Storage},
		DRBD: &agentpb.Drbd{NodeId: int32(slices.Index(names, name)), Secret: "marker"},
		Volumes: []agent.VolumeWant{{
			Pool: &agent.Pool{Name: "pool1", Provider: model.File}, Size: size, DRBD: &agentpb.DrbdVolume{Minor: 1000, Generation: generation},
		}},
	}
	for _, peer := range names {
		if peer != name {
			w.DRBD.Peers = append(w.DRBD.Peers, &agentpb.DrbdPeer{
				Node: peer, NodeId: int32(slices.Index(names, peer)), Paths: []*agentpb.DrbdPath{{Local: address(name), Remote: address(peer)}},
			})
		}
	}
	if name == names[0] {
		w.Volumes[0].Filesystem = &agentpb.Filesystem{Type: "ext4"}
	}
	for _, f := range change {
		f(&w)
	}
	return w
}

func diskless(w *agent.Want) { w.DRBD.Diskless, w.Volumes[0].Pool = true, nil }

// peersDiskless makes some peers ones without disks.
func peersDiskless(names ...string) func(*agent.Want) {
	return func(w *agent.Want) {
		for _, p := range w.DRBD.GetPeers() {
			p.Diskless = slices.Contains(names, p.GetNode())
		}
	}
}

// settle applies wishes again and again, as the agents do, until all are fulfilled.
func (r *replicas) settle(wants map[string]agent.Want) map[string]agent.Result {
	r.Helper()
	results := map[string]agent.Result{}
	var last error
	for range 40 {
		pending := false
		last = nil
		for _, name := range slices.Sorted(maps.Keys(wants)) {
			result, err := r.hosts[name].machine.Apply(r.Context(), wants[name])
			if err != nil {
				last = fmt.Errorf("%s: %w", name, err)
				if errors.Is(err, errKilled) {
					r.hosts[name].restart()
				}
			}
			pending = pending || err != nil || result.Pending
			results[name] = result
		}
		if !pending {
			return results
		}
		r.now = r.now.Add(time.Second)
	}
	r.Fatalf("it does not settle: %v; %v", last, results)
	return nil
}

// wants is the wishes for all hosts.
func (r *replicas) wants(size int64, change ...func(*agent.Want)) map[string]agent.Want {
	all := map[string]agent.Want{}
	for name := range r.hosts {
		all[name] = r.want(name, size, change...)
	}
	return all
}

func (r *replicas) wantVolume(name string, result agent.Result, path, disk string, size int64) {
	r.Helper()
	if len(result.Volumes) != 1 {
		r.Fatalf("%s has the volumes %v", name, result.Volumes)
	}
	v := result.Volumes[0]
	if v.GetDevicePath() != path || v.GetDiskState() != disk || v.GetUsable() < size {
		r.Errorf("%s: %v, want %s %s of %d bytes", name, v, path, disk, size)
	}
}
