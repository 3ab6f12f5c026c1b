// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/agent"
	"github.com/holdfast-storage/holdfast/internal/agent/fakecontroller"
	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/file"
	"github.com/holdfast-storage/holdfast/internal/command"
	"github.com/holdfast-storage/holdfast/internal/model"
)

// TestVolumeOnARealFilePool goes the whole way once: controller, agent, loop device, mkfs.
func TestVolumeOnARealFilePool(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, for loop devices")
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		t.Skipf("needs loop devices: %v", err)
	}
	defer goleak.VerifyNone(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	ctrl := fakecontroller.Start()
	defer ctrl.Stop()
	dir, state := t.TempDir(), t.TempDir()
	open := func(p agent.Pool) (pool.Driver, error) {
		place, err := agent.Place(p)
		if err != nil {
			return nil, err
		}
		return file.New(file.Config{
			Name: p.Name, Node: node, Dir: place, Thin: p.Provider == model.FileThin, Identity: p.Identity,
		})
	}
	stop := runReal(t, ctx, ctrl, open, state)
	defer func() { stop() }()
	r := resource("r1", "pool1", 1)
	r.Volumes[0].Size, r.Volumes[0].Filesystem = 16*mib, &agentpb.Filesystem{Type: "ext4"}
	set := full("1", r)
	set.Pools = []*agentpb.Pool{{Name: "pool1", Provider: "FILE_THIN", Props: map[string]string{"StorDriver/FileDir": dir}}}
	send(t, ctx, ctrl, set)
	n := awaitReal(t, ctx, ctrl, func(n fakecontroller.Node) bool {
		return n.Resources["r1"].GetState() == ready && n.Pools["pool1"].GetTotal() > 0
	})
	device := n.Resources["r1"].GetVolumes()[0].GetDevicePath()
	super := readAt(t, device, 1080, 2)
	if !strings.HasPrefix(device, "/dev/loop") || super != "\x53\xef" {
		t.Errorf("device %s has %x where ext4 has its mark", device, super)
	}

	// A restart without a controller finds the same device, and leaves it.
	ctrl.Refuse(errAway)
	stop()
	if got := readAt(t, device, 1080, 2); got != super {
		t.Errorf("the device is gone with the agent: %x", got)
	}
	ctrl.Forget()
	stop = runReal(t, ctx, ctrl, open, state)
	ctrl.Refuse(nil)
	set.Resources[0] = destroyed(resource("r1", "pool1", 2))
	send(t, ctx, ctrl, set)
	awaitReal(t, ctx, ctrl, func(n fakecontroller.Node) bool { return n.Resources["r1"].GetState() == destroyedGone })
	left, err := os.ReadDir(dir)
	for _, e := range left {
		if strings.HasPrefix(e.Name(), "r1") {
			t.Errorf("left behind: %s", e.Name())
		}
	}
	if err != nil {
		t.Error(err)
	}
}

func runReal(
	t *testing.T, ctx context.Context, ctrl *fakecontroller.Controller, open func(agent.Pool) (pool.Driver, error), state string,
) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- agent.Run(ctx, agent.Config{
			Node: node, Dial: func(a string) (agent.Conn, error) { return ctrl.Dial(a) },
			Host: agent.NewMachine(open, &command.Exec{}), StateDir: state, Providers: providers(), Layers: layers(),
		})
	}()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		ended <- nil // It may be called again.
	}
}

func send(t *testing.T, ctx context.Context, ctrl *fakecontroller.Controller, m *agentpb.Assignments) {
	t.Helper()
	s, err := ctrl.Accept(ctx)
	if err == nil {
		err = s.Send(ctx, m)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func awaitReal(
	t *testing.T, ctx context.Context, ctrl *fakecontroller.Controller, ok func(fakecontroller.Node) bool,
) fakecontroller.Node {
	t.Helper()
	n, err := ctrl.Await(ctx, node, ok)
	if err != nil {
		t.Fatalf("%v: %v", err, n)
	}
	return n
}

func readAt(t *testing.T, path string, at int64, n int) string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	b := make([]byte, n)
	if _, err := f.ReadAt(b, at); err != nil {
		t.Fatal(err)
	}
	return string(b)
}
