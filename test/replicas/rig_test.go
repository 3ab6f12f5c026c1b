// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package replicas_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/holdfast-storage/holdfast/internal/agent"
	"github.com/holdfast-storage/holdfast/internal/agent/drbd"
	"github.com/holdfast-storage/holdfast/internal/agent/drbd/drbdtest"
	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/pooltest"
	"github.com/holdfast-storage/holdfast/internal/inventory"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/test/cluster"
)

// rig is a controller and two hosts, n1 and n2.
type rig struct {
	*testing.T
	*cluster.Cluster
	drbd  *drbdtest.Cluster
	pools map[string]*pooltest.Memory
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{T: t, Cluster: cluster.Start(t, cluster.Options{Patience: 20 * time.Second}), drbd: drbdtest.NewCluster(t, "n1", "n2"), pools: map[string]*pooltest.Memory{}}
	for i, name := range []string{"n1", "n2"} {
		_, err := r.Inventory.CreateNode(t.Context(), inventory.NewNode{
			Name: name, Interfaces: []inventory.NewInterface{{Name: "default", Address: fmt.Sprintf("10.0.0.%d", i+1)}},
		})
		if err != nil {
			t.Fatal(err)
		}
		r.start(name)
		r.AddPool(name, cluster.Pool)
	}
	t.Cleanup(func() {
		for _, d := range r.drbd.Disasters() {
			t.Errorf("disaster: %s", d)
		}
		r.Check()
	})
	return r
}

// start runs the agent of a host until the end of the test.
func (r *rig) start(name string) {
	r.Helper()
	node := r.drbd.Node(name)
	memory := pooltest.NewMemory(pooltest.MemoryConfig{Name: cluster.Pool, Total: 1 << 30, Thin: true})
	r.pools[name] = memory
	machine := agent.NewMachine(func(agent.Pool) (pool.Driver, error) { return disks{memory, node}, nil }, node)
	machine.Replicate(agent.Replication{
		DRBD:  drbd.New(drbd.Settings{Runner: node, Users: node.Users, Folder: node.Folder, Notes: r.TempDir()}),
		Uname: name, Notes: r.TempDir(), Open: func(string) (agent.Disk, error) { return zeros{}, nil },
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- agent.Run(ctx, agent.Config{
			Node: name, Host: machine, Uname: name, Providers: []model.Provider{model.FileThin}, Layers: []model.Layer{model.Storage, model.DRBD},
			Dial: func(string) (agent.Conn, error) {
				return grpc.NewClient(r.AgentAddress, grpc.WithTransportCredentials(insecure.NewCredentials()))
			},
			// Nothing tells of what the model does by itself, so it is looked at often.
			Limits: agent.Limits{Repair: 50 * time.Millisecond, Progress: 10 * time.Millisecond, RetryFirst: 10 * time.Millisecond, RetryMost: 100 * time.Millisecond},
		})
	}()
	r.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			r.Errorf("agent %s ended with: %v", name, err)
		}
		machine.Close()
	})
	r.Until(func() bool { return r.Observed.Node(model.NodeName(name).Key()).Connection == observed.Online })
}

// disks is a pool of a host, whose devices DRBD knows of.
type disks struct {
	*pooltest.Memory
	node *drbdtest.Node
}

func (d disks) Open(ctx context.Context, id pool.ID) (pool.Device, error) {
	device, err := d.Memory.Open(ctx, id)
	if err == nil {
		d.node.Disk(device.Path, device.Size)
	}
	return device, err
}

func (d disks) Grow(ctx context.Context, id pool.ID, size int64) error {
	if err := d.Memory.Grow(ctx, id, size); err != nil {
		return err
	}
	v, _, err := d.Find(ctx, id)
	if err == nil && v.Device.Path != "" {
		d.node.Disk(v.Device.Path, v.Device.Size)
	}
	return err
}

// zeros is a device that reads as zeros.
type zeros struct{}

func (zeros) ReadAt(p []byte, _ int64) (int, error)  { clear(p); return len(p), nil }
func (zeros) WriteAt(p []byte, _ int64) (int, error) { return len(p), nil }
func (zeros) Sync() error                            { return nil }
func (zeros) Close() error                           { return nil }

// call makes a call of the API and returns how it ended.
func (r *rig) call(method, path, body string) (status int, answer string) {
	r.Helper()
	req, err := http.NewRequestWithContext(r.Context(), method, r.URL+path, strings.NewReader(body))
	if err != nil {
		r.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		r.Fatal(err)
	}
	text, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if err != nil {
		r.Fatal(err)
	}
	return res.StatusCode, string(text)
}

func (r *rig) must(method, path, body string) {
	r.Helper()
	if status, answer := r.call(method, path, body); status >= 300 {
		r.Fatalf("%s %s: %d %s", method, path, status, answer)
	}
}

// replicas is what the API says of the replicas of a definition: the state of the disk of each by its node.
func (r *rig) replicas(definition string) map[string]string {
	r.Helper()
	_, answer := r.call(http.MethodGet, "/v1/view/resources?resources="+definition, "")
	var list []struct {
		Node    string `json:"node_name"`
		Volumes []struct {
			State struct {
				Disk string `json:"disk_state"`
			} `json:"state"`
		} `json:"volumes"`
	}
	if err := json.Unmarshal([]byte(answer), &list); err != nil {
		r.Fatalf("%v: %s", err, answer)
	}
	states := map[string]string{}
	for _, x := range list {
		for _, v := range x.Volumes {
			states[x.Node] = v.State.Disk
		}
	}
	return states
}

// nothingIsLeft waits until neither host has a volume, a snapshot or a file of DRBD.
func (r *rig) nothingIsLeft() {
	r.Helper()
	for name, p := range r.pools {
		r.Until(func() bool {
			volumes, err := p.List(r.Context())
			snapshots, err2 := p.Snapshots(r.Context(), "")
			files, err3 := os.ReadDir(r.drbd.Node(name).Folder)
			return err == nil && err2 == nil && err3 == nil && len(volumes)+len(snapshots)+len(files) == 0
		})
	}
}
