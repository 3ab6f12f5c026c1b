// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package host_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

const group = `{"name":"group","props":{"FileSystem/Type":"ext4"},"select_filter":{"place_count":1,"storage_pool_list":["data"],"layer_stack":["STORAGE"]}}`

func spawn(name string, kib int64) string {
	return fmt.Sprintf(`{"resource_definition_name":%q,"volume_sizes":[%d]}`, name, kib)
}

func TestAVolumeIsMadeUsedRefusedAndDeleted(t *testing.T) {
	for _, provider := range []string{"FILE", "FILE_THIN"} {
		t.Run(provider, func(t *testing.T) {
			s := start(t)
			s.node("n1")
			dir := s.folder("pool")
			s.pool("n1", "data", provider, dir)
			s.must("POST", "/v1/resource-groups", group)
			s.must("POST", "/v1/resource-groups/group/spawn", spawn("vol", 64<<10))
			device := s.device("vol", "n1")
			mnt := s.mount(device)
			if err := os.WriteFile(filepath.Join(mnt, "file"), []byte("content"), 0o600); err != nil {
				t.Fatal(err)
			}
			s.refused("DELETE", "/v1/resource-definitions/vol", "", "in use", mnt)
			s.refused("DELETE", "/v1/resource-definitions/vol/resources/n1", "", "in use", mnt)
			s.refused("DELETE", "/v1/resource-definitions/vol/volume-definitions/0", "", "in use", mnt)
			s.must("PUT", "/v1/resource-definitions/vol/volume-definitions/0", `{"size_kib":131072}`)
			if got := s.sh("blockdev", "--getsize64", device); got != "134217728" {
				t.Errorf("the device has %s bytes after it grew, want 134217728", got)
			}
			s.unmount(mnt)
			s.sh("mount", device, mnt)
			if text, err := os.ReadFile(filepath.Join(mnt, "file")); err != nil || string(text) != "content" {
				t.Errorf("read %q, %v", text, err)
			}
			s.unmount(mnt)
			s.must("DELETE", "/v1/resource-definitions/vol", "")
			s.nothingLeft(dir, "vol")
		})
	}
}

func TestAPoolThatCannotWorkIsRefusedWithItsReason(t *testing.T) {
	s := start(t)
	s.node("n1")
	file := filepath.Join(s.folder("some"), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	readOnly := s.smallDisk("readonly", "16M")
	s.sh("mount", "-o", "remount,ro", readOnly)
	create := func(provider, dir string) string {
		return fmt.Sprintf(`{"storage_pool_name":"data","provider_kind":%q,"props":{"StorDriver/StorPoolName":%q}}`, provider, dir)
	}
	for name, tt := range map[string]struct{ provider, dir, want string }{
		"missing folder":   {"FILE", "/nonexistent/pool", "/nonexistent/pool"},
		"not a folder":     {"FILE", file, file},
		"read-only":        {"FILE_THIN", readOnly, "read-only"},
		"relative path":    {"FILE", "pool", "absolute"},
		"no path":          {"FILE", "", "StorDriver/StorPoolName"},
		"unknown provider": {"FLOPPY", "/srv", "FLOPPY"},
		"undriven":         {"LVM", "vg", "LVM"},
	} {
		t.Run(name, func(t *testing.T) {
			s.refused("POST", "/v1/nodes/n1/storage-pools", create(tt.provider, tt.dir), tt.want)
			if a := s.call("GET", "/v1/nodes/n1/storage-pools/data", ""); a.status != 404 {
				t.Errorf("the pool is there: %s", a.text)
			}
		})
	}
	s.refused("POST", "/v1/nodes/nowhere/storage-pools", create("FILE", "/srv"), "nowhere")
	s.must("POST", "/v1/nodes", `{"name":"down","type":"Satellite","net_interfaces":[{"name":"default","address":"127.0.0.1"}]}`)
	s.refused("POST", "/v1/nodes/down/storage-pools", create("FILE", "/srv"), "down", "agent")
}

func TestAFullDiskFailsTheSpawnAndLeavesNothing(t *testing.T) {
	s := start(t)
	s.node("n1")
	dir := s.smallDisk("pool", "64M")
	s.pool("n1", "data", "FILE", dir)
	s.must("POST", "/v1/resource-groups", group)
	s.refused("POST", "/v1/resource-groups/group/spawn", spawn("vol", 128<<10), "not enough space")
	s.nothingLeft(dir, "vol")

	// The disk fills after its space was reported: the host is the one to notice.
	free := s.sh("stat", "-f", "-c", "%a", dir)
	s.sh("fallocate", "-l", "40M", filepath.Join(dir, "other"))
	s.refused("POST", "/v1/resource-groups/group/spawn", spawn("vol", 32<<10), "room")
	s.nothingLeft(dir, "vol")
	s.sh("rm", filepath.Join(dir, "other"))
	if after := s.sh("stat", "-f", "-c", "%a", dir); after != free {
		t.Errorf("the failed spawn has left something: %s blocks were free, %s are", free, after)
	}
}

func TestAVolumeOutlivesItsAgentAndController(t *testing.T) {
	s := start(t)
	s.node("n1")
	dir := s.folder("pool")
	s.pool("n1", "data", "FILE_THIN", dir)
	s.must("POST", "/v1/resource-groups", group)
	s.must("POST", "/v1/resource-groups/group/spawn", spawn("vol", 64<<10))
	device := s.device("vol", "n1")
	mnt := s.mount(device)
	s.sh("sh", "-c", "echo content > "+mnt+"/file && sync")

	s.end("n1", syscall.SIGKILL)
	s.until("the node to be offline", func() bool {
		return strings.Contains(s.call("GET", "/v1/nodes/n1", "").text, `"OFFLINE"`)
	})
	s.refused("POST", "/v1/resource-groups/group/spawn", spawn("other", 1024), "offline")
	s.agent("n1")
	if again := s.device("vol", "n1"); again != device {
		t.Errorf("the device was %s and is %s", device, again)
	}
	s.refused("DELETE", "/v1/resource-definitions/vol", "", mnt)

	s.end("controller", syscall.SIGKILL)
	s.run("controller", "controller", "--data", filepath.Join(s.dir, "controller"), "--listen", s.api, "--agent-listen", s.agents)
	s.until("the node to be back", func() bool {
		return strings.Contains(s.call("GET", "/v1/nodes/n1", "").text, `"ONLINE"`)
	})
	if text := s.sh("cat", mnt+"/file"); text != "content" {
		t.Errorf("read %q", text)
	}
	s.unmount(mnt)
	s.must("DELETE", "/v1/resource-definitions/vol", "")
	s.nothingLeft(dir, "vol")
}

func TestADeletionWaitsForAnAgentThatIsAway(t *testing.T) {
	s := start(t)
	s.node("n1")
	dir := s.folder("pool")
	s.pool("n1", "data", "FILE_THIN", dir)
	s.must("POST", "/v1/resource-groups", group)
	s.must("POST", "/v1/resource-groups/group/spawn", spawn("vol", 1024))
	s.end("n1", syscall.SIGKILL)
	s.until("the node to be offline", func() bool {
		return strings.Contains(s.call("GET", "/v1/nodes/n1", "").text, `"OFFLINE"`)
	})
	if text := s.must("DELETE", "/v1/resource-definitions/vol", ""); !strings.Contains(text, "not connected") {
		t.Errorf("the answer does not say that the node is away: %s", text)
	}
	if text := s.must("GET", "/v1/resource-definitions/vol", ""); !strings.Contains(text, "DELETE") {
		t.Errorf("the definition is not shown as being deleted: %s", text)
	}
	s.agent("n1")
	s.until("the volume to be gone", func() bool { return s.call("GET", "/v1/resource-definitions/vol", "").status == 404 })
	s.nothingLeft(dir, "vol")
}

func TestManyVolumesAtOnceOnTwoAgentsOfOneHost(t *testing.T) {
	const volumes = 24
	s := start(t)
	dirs := map[string]string{}
	for _, n := range []string{"n1", "n2"} {
		s.node(n)
		dirs[n] = s.folder("pool-" + n)
		s.pool(n, "data", "FILE_THIN", dirs[n])
	}
	s.must("POST", "/v1/resource-groups", strings.Replace(group, "ext4", "xfs", 1))
	var calls sync.WaitGroup
	for i := range volumes {
		calls.Go(func() {
			a := s.call("POST", "/v1/resource-groups/group/spawn", spawn(fmt.Sprintf("vol-%d", i), 320<<10))
			if a.status != 201 {
				t.Errorf("spawn %d: %d %s", i, a.status, a.text)
			}
		})
	}
	calls.Wait()
	devices := map[string]bool{}
	for i := range volumes {
		name := fmt.Sprintf("vol-%d", i)
		for n := range dirs {
			if s.call("GET", "/v1/resource-definitions/"+name+"/resources/"+n, "").status == 200 {
				devices[s.device(name, n)] = true
			}
		}
	}
	if len(devices) != volumes {
		t.Errorf("%d volumes have %d devices", volumes, len(devices))
	}
	for i := range volumes {
		calls.Go(func() { s.must("DELETE", fmt.Sprintf("/v1/resource-definitions/vol-%d", i), "") })
	}
	calls.Wait()
	for _, dir := range dirs {
		s.nothingLeft(dir, "vol-")
	}
}

// TestAnAgentKilledWhileItMakesVolumesLeavesNoHalfVolume kills the agent in the middle of many spawns: each is then whole, or
// gone without a trace.
func TestAnAgentKilledWhileItMakesVolumesLeavesNoHalfVolume(t *testing.T) {
	const volumes = 12
	s := start(t)
	s.node("n1")
	dir := s.folder("pool")
	s.pool("n1", "data", "FILE_THIN", dir)
	s.must("POST", "/v1/resource-groups", group)
	answers := make([]answer, volumes)
	var calls sync.WaitGroup
	for i := range volumes {
		calls.Go(func() {
			answers[i] = s.call("POST", "/v1/resource-groups/group/spawn", spawn(fmt.Sprintf("vol-%d", i), 64<<10))
		})
	}
	s.until("the first volumes to be under way", func() bool {
		entries, err := os.ReadDir(dir)
		return err == nil && len(entries) > 3
	})
	s.end("n1", syscall.SIGKILL)
	calls.Wait()
	s.agent("n1")
	for i, a := range answers {
		name := fmt.Sprintf("vol-%d", i)
		if a.status == 201 {
			s.sh("fsck.ext4", "-f", "-n", s.device(name, "n1"))
			s.must("DELETE", "/v1/resource-definitions/"+name, "")
		}
		s.until(name+" to be gone", func() bool { return s.call("GET", "/v1/resource-definitions/"+name, "").status == 404 })
	}
	s.nothingLeft(dir, "vol-")
}
