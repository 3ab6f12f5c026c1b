// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package host_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
)

const (
	snapshots = "/v1/resource-definitions/vol/snapshots"
	plain     = `{"name":"group","select_filter":{"place_count":1,"storage_pool_list":["data"],"layer_stack":["STORAGE"]}}`
)

// disk mounts a filesystem of a type on a folder.
func (s *system) disk(name, size, fstype string) string {
	s.t.Helper()
	img := filepath.Join(s.dir, name+".img")
	s.sh("truncate", "-s", size, img)
	s.sh("mkfs."+fstype, "-q", img)
	dir := s.folder(name)
	s.sh("mount", "-o", "loop", img, dir)
	s.t.Cleanup(func() { _ = exec.Command("umount", dir).Run() })
	return dir
}

// serving starts a controller and a node with a thin pool on a filesystem of a type, and makes a group.
func serving(t *testing.T, fstype, size, group string) (s *system, dir string) {
	t.Helper()
	s = start(t)
	s.node("n1")
	dir = filepath.Join(s.disk("disk", size, fstype), "pool")
	s.sh("mkdir", dir)
	s.pool("n1", "data", "FILE_THIN", dir)
	s.must("POST", "/v1/resource-groups", group)
	return s, dir
}

// restore makes a resource from a snapshot, as linstor-csi does.
func (s *system) restore(from, snapshot, to string) {
	s.t.Helper()
	s.must("POST", "/v1/resource-definitions", fmt.Sprintf(`{"resource_definition":{"name":%q,"resource_group_name":"group"}}`, to))
	body := fmt.Sprintf(`{"to_resource":%q}`, to)
	s.must("POST", "/v1/resource-definitions/"+from+"/snapshot-restore-volume-definition/"+snapshot, body)
	s.must("POST", "/v1/resource-definitions/"+from+"/snapshot-restore-resource/"+snapshot, body)
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		if e.Name() != "lost+found" {
			list = append(list, e.Name())
		}
	}
	return list
}

func write(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// fill writes noise to some places of a device, and returns the checksum of all of it.
func (s *system) fill(device string, seed uint64, mib int) [32]byte {
	s.t.Helper()
	f, err := os.OpenFile(device, os.O_WRONLY, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	noise, piece := rand.NewChaCha8([32]byte{byte(seed)}), make([]byte, 1<<20)
	for i := range mib {
		_, _ = noise.Read(piece)
		if _, err := f.WriteAt(piece, int64(i)<<20); err != nil {
			s.t.Fatal(err)
		}
	}
	if err := f.Sync(); err != nil {
		s.t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		s.t.Fatal(err)
	}
	return s.checksum(device)
}

func (s *system) checksum(device string) [32]byte {
	s.t.Helper()
	is, err := sum(device)
	if err != nil {
		s.t.Fatal(err)
	}
	return is
}

func sum(device string) ([32]byte, error) {
	f, err := os.Open(device)
	if err != nil {
		return [32]byte{}, err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return [32]byte(h.Sum(nil)), err
}

func (s *system) cloneState(from, to string) string {
	var answer struct{ Status string }
	a := s.call("GET", "/v1/resource-definitions/"+from+"/clone/"+to, "")
	_ = json.Unmarshal([]byte(a.text), &answer)
	return answer.Status
}

func (s *system) gone(resource string) {
	s.t.Helper()
	s.until(resource+" to be gone", func() bool { return s.call("GET", "/v1/resource-definitions/"+resource, "").status == 404 })
}

func TestASnapshotHasWhatWasWrittenBeforeIt(t *testing.T) {
	for _, fstype := range []string{"ext4", "xfs"} { // copies, and shared blocks
		t.Run(fstype, func(t *testing.T) {
			s, dir := serving(t, fstype, "1G", group)
			s.must("POST", "/v1/resource-groups/group/spawn", spawn("vol", 64<<10))
			mnt := s.mount(s.device("vol", "n1"))
			write(t, filepath.Join(mnt, "before"))
			s.must("POST", snapshots, `{"name":"s1"}`)
			write(t, filepath.Join(mnt, "after"))

			s.restore("vol", "s1", "web")
			restored := s.mount(s.device("web", "n1"))
			if got := files(t, restored); !slices.Equal(got, []string{"before"}) {
				t.Errorf("the restore has %v", got)
			}
			s.refused("POST", "/v1/resource-definitions/vol/snapshot-rollback/s1", "{}", "in use")
			s.unmount(restored)
			s.unmount(mnt)
			s.must("POST", "/v1/resource-definitions/vol/snapshot-rollback/s1", "{}")
			mnt = s.mount(s.device("vol", "n1"))
			if got := files(t, mnt); !slices.Equal(got, []string{"before"}) {
				t.Errorf("after the roll-back there is %v", got)
			}
			s.unmount(mnt)

			s.must("DELETE", snapshots+"/s1", "")
			s.must("DELETE", "/v1/resource-definitions/vol", "")
			s.gone("vol")
			s.must("DELETE", "/v1/resource-definitions/web", "")
			s.gone("web")
			if got := files(t, dir); !slices.Equal(got, []string{".holdfast-pool"}) {
				t.Errorf("left in the pool: %v", got)
			}
		})
	}
}

func TestManyClonesOfOneVolumeAtOnce(t *testing.T) {
	const clones = 20
	for _, fstype := range []string{"ext4", "xfs"} {
		t.Run(fstype, func(t *testing.T) {
			s, dir := serving(t, fstype, "2G", plain)
			s.must("POST", "/v1/resource-groups/group/spawn", spawn("vol", 32<<10))
			want := s.fill(s.device("vol", "n1"), 1, 24)
			var calls sync.WaitGroup
			for i := range clones {
				calls.Go(func() {
					if a := s.call("POST", "/v1/resource-definitions/vol/clone", fmt.Sprintf(`{"name":"clone-%d"}`, i)); a.status != 201 {
						t.Errorf("clone %d: %d %s", i, a.status, a.text)
					}
				})
			}
			calls.Wait()
			for i := range clones {
				name := fmt.Sprintf("clone-%d", i)
				s.until(name+" to be complete", func() bool { return s.cloneState("vol", name) == "COMPLETE" })
				if s.checksum(s.device(name, "n1")) != want {
					t.Errorf("%s has another content", name)
				}
			}
			for i := range clones {
				calls.Go(func() { s.must("DELETE", fmt.Sprintf("/v1/resource-definitions/clone-%d", i), "") })
			}
			calls.Wait()
			s.must("DELETE", "/v1/resource-definitions/vol", "")
			s.gone("vol")
			s.until("the pool to be empty", func() bool { return slices.Equal(files(t, dir), []string{".holdfast-pool"}) })
		})
	}
}

func TestManySnapshotsAreDeletedAtOnce(t *testing.T) {
	const many = 30
	s, dir := serving(t, "xfs", "1G", plain)
	s.must("POST", "/v1/resource-groups/group/spawn", spawn("vol", 16<<10))
	device := s.device("vol", "n1")
	for i := range many {
		s.fill(device, uint64(i), 2)
		s.must("POST", snapshots, fmt.Sprintf(`{"name":"s%d"}`, i))
	}
	var calls sync.WaitGroup
	for _, i := range rand.Perm(many) {
		calls.Go(func() {
			if a := s.call("DELETE", fmt.Sprintf("%s/s%d", snapshots, i), ""); a.status != 200 {
				t.Errorf("delete snapshot %d: %d %s", i, a.status, a.text)
			}
		})
	}
	calls.Wait()
	s.until("the snapshots to be gone", func() bool { return s.must("GET", snapshots, "") == "[]" })
	if got := files(t, dir); len(got) != 2 {
		t.Errorf("left in the pool: %v", got)
	}
	s.must("DELETE", "/v1/resource-definitions/vol", "")
	s.gone("vol")
}

// TestWhoIsKilledWhileItIsCopiedLeavesNoHalfCopy kills the agent, or the controller, in the middle of what is done for snapshots, clones and roll-backs, on a filesystem that has to
// copy. What comes of each is whole or gone, and the host has no leftovers.
func TestWhoIsKilledWhileItIsCopiedLeavesNoHalfCopy(t *testing.T) {
	for _, victim := range []string{"n1", "controller"} {
		t.Run(victim, func(t *testing.T) {
			s, dir := serving(t, "ext4", "4G", plain)
			s.must("POST", "/v1/resource-groups/group/spawn", spawn("vol", 512<<10))
			k := killing{system: s, dir: dir, victim: victim, content: s.fill(s.device("vol", "n1"), 1, 400)}
			k.snapshot()
			k.clone()
			k.rollBack()
			s.must("DELETE", snapshots+"/s2", "")
			s.must("DELETE", "/v1/resource-definitions/vol", "")
			s.gone("vol")
			s.until("the pool to be empty", func() bool { return slices.Equal(files(t, dir), []string{".holdfast-pool"}) })
		})
	}
}

type killing struct {
	*system

	dir     string
	victim  string
	content [32]byte // of the volume
}

func (k killing) copying() bool {
	return slices.ContainsFunc(files(k.t, k.dir), func(name string) bool { return strings.HasSuffix(name, ".copy") })
}

// during makes a call, kills the victim while the host copies, and starts it again.
func (k killing) during(what, path, body string) {
	k.t.Helper()
	answers := make(chan answer, 1)
	go func() { answers <- k.call("POST", path, body) }()
	k.until(what+" to be under way", k.copying)
	k.end(k.victim, syscall.SIGKILL)
	a := <-answers
	k.t.Logf("%s was answered with %d %.300s", what, a.status, a.text)
	if k.victim != "controller" {
		k.agent(k.victim)
		return
	}
	k.controller()
	k.until("the node to be back", func() bool { return strings.Contains(k.call("GET", "/v1/nodes/n1", "").text, `"ONLINE"`) })
}

func (k killing) snapshot() {
	k.t.Helper()
	k.during("the snapshot", snapshots, `{"name":"s1"}`)
	k.until("no copy to be left", func() bool { return !k.copying() })
	k.until("the snapshot to be gone", func() bool {
		k.call("DELETE", snapshots+"/s1", "")
		return k.call("GET", snapshots+"/s1", "").status == 404
	})
	k.until("its files to be gone", func() bool { return len(files(k.t, k.dir)) == 2 })
}

func (k killing) clone() {
	k.t.Helper()
	k.must("POST", snapshots, `{"name":"s2"}`)
	k.during("the clone", "/v1/resource-definitions/vol/clone", `{"name":"web"}`)
	ended := func() bool {
		state := k.cloneState("vol", "web")
		return state == "COMPLETE" || state == "FAILED"
	}
	if k.call("GET", "/v1/resource-definitions/web", "").status == 404 {
		return // It had not been acknowledged.
	}
	k.until("the clone to end", ended)
	if k.cloneState("vol", "web") == "COMPLETE" && k.checksum(k.device("web", "n1")) != k.content {
		k.t.Error("the clone has another content")
	}
	k.must("DELETE", "/v1/resource-definitions/web", "")
	k.gone("web")
}

// rollBack begins with another content than that of the snapshot.
func (k killing) rollBack() {
	k.t.Helper()
	k.until("the copies to end", func() bool { return !k.copying() })
	other := k.fill(k.device("vol", "n1"), 2, 400)
	k.during("the roll-back", "/v1/resource-definitions/vol/snapshot-rollback/s2", "{}")
	k.until("no copy to be left", func() bool { return !k.copying() })
	// The device may be another one from one moment to the next, as long as it is not done.
	k.until("the volume to have what it had, or what the snapshot has", func() bool {
		text := k.call("GET", "/v1/resource-definitions/vol/resources/n1/volumes/0", "").text
		var v struct {
			Path string `json:"device_path"`
		}
		if json.Unmarshal([]byte(text), &v) != nil || v.Path == "" {
			return false
		}
		is, err := sum(v.Path)
		return err == nil && (is == k.content || is == other)
	})
}

// TestSnapshotsOfOneRequestAreOfOneMoment has a program that writes the same number to two volumes in turn. At no moment do they differ by more than one, and so at the moment of
// the snapshots.
func TestSnapshotsOfOneRequestAreOfOneMoment(t *testing.T) {
	for _, fstype := range []string{"ext4", "xfs"} {
		t.Run(fstype, func(t *testing.T) {
			s, _ := serving(t, fstype, "1G", group)
			mounts := map[string]string{}
			for _, name := range []string{"vol-a", "vol-b"} {
				s.must("POST", "/v1/resource-groups/group/spawn", spawn(name, 32<<10))
				mounts[name] = s.mount(s.device(name, "n1"))
			}
			writer := exec.Command("sh", "-c", `i=0; while true; do i=$((i+1)); echo $i > "$1/n"; sync "$1/n"; echo $i > "$2/n"; sync "$2/n"; done`,
				"sh", mounts["vol-a"], mounts["vol-b"])
			writer.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			if err := writer.Start(); err != nil {
				t.Fatal(err)
			}
			stop := sync.OnceFunc(func() {
				_ = syscall.Kill(-writer.Process.Pid, syscall.SIGKILL)
				_ = writer.Wait()
			})
			defer stop()
			s.until("the writer to write", func() bool {
				_, err := os.Stat(filepath.Join(mounts["vol-b"], "n"))
				return err == nil
			})
			for i := range 3 {
				snapshot := fmt.Sprintf("s%d", i)
				s.must("POST", "/v1/actions/snapshot/multi", fmt.Sprintf(
					`{"snapshots":[{"name":%q,"resource_name":"vol-a"},{"name":%q,"resource_name":"vol-b"}]}`, snapshot, snapshot))
				var numbers [2]int
				for k, name := range []string{"vol-a", "vol-b"} {
					to := fmt.Sprintf("%s-%d", name, i)
					s.restore(name, snapshot, to)
					restored := s.mount(s.device(to, "n1"))
					numbers[k], _ = strconv.Atoi(s.sh("cat", filepath.Join(restored, "n")))
					s.unmount(restored)
					s.must("DELETE", "/v1/resource-definitions/"+to, "")
				}
				if d := numbers[0] - numbers[1]; numbers[0] == 0 || d < 0 || d > 1 {
					t.Errorf("the volumes have %v", numbers)
				}
			}
			stop()
			for name, mnt := range mounts {
				s.until("what the writer had begun to end", func() bool { return exec.Command("umount", mnt).Run() == nil })
				for i := range 3 {
					s.must("DELETE", fmt.Sprintf("/v1/resource-definitions/%s/snapshots/s%d", name, i), "")
				}
				s.must("DELETE", "/v1/resource-definitions/"+name, "")
				s.gone(name)
			}
		})
	}
}

func TestAMountedFilesystemGrowsWithItsVolumeWhenAsked(t *testing.T) {
	s, dir := serving(t, "ext4", "2G",
		`{"name":"group","props":{"FileSystem/Type":"xfs"},"select_filter":{"place_count":1,"storage_pool_list":["data"],"layer_stack":["STORAGE"]}}`)
	s.must("POST", "/v1/resource-groups/group/spawn", spawn("vol", 320<<10))
	mnt := s.mount(s.device("vol", "n1"))
	blocks := func() int {
		n, err := strconv.Atoi(s.sh("stat", "-f", "-c", "%b", mnt))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := blocks()
	s.must("PUT", "/v1/resource-definitions/vol/volume-definitions/0", `{"size_kib":491520}`)
	if got := blocks(); got != before {
		t.Errorf("it grew from %d to %d blocks though nobody asked", before, got)
	}
	s.must("PUT", "/v1/resource-definitions/vol", `{"override_props":{"FileSystem/AutoGrow":"true"}}`)
	s.until("the filesystem to grow", func() bool { return blocks() > before*14/10 })
	s.must("PUT", "/v1/resource-definitions/vol/volume-definitions/0", `{"size_kib":655360}`)
	s.until("the filesystem to grow again", func() bool { return blocks() > before*19/10 })
	s.unmount(mnt)
	s.must("DELETE", "/v1/resource-definitions/vol", "")
	s.nothingLeft(dir, "vol")
}

func TestADeactivatedResourceHasNoDeviceAndKeepsItsData(t *testing.T) {
	s, dir := serving(t, "xfs", "1G", plain)
	s.must("POST", "/v1/resource-groups/group/spawn", spawn("vol", 32<<10))
	device := s.device("vol", "n1")
	want := s.fill(device, 1, 8)
	loops := func() string { return s.sh("losetup", "--noheadings", "--output", "NAME,BACK-FILE") }
	const one = "/v1/resource-definitions/vol/resources/n1"
	s.must("POST", one+"/deactivate", "")
	s.until("the device to be gone", func() bool { return !strings.Contains(loops(), dir+"/vol") })
	s.must("POST", one+"/activate", "")
	s.until("the device to be back", func() bool { return strings.Contains(loops(), dir+"/vol") })
	if s.checksum(s.device("vol", "n1")) != want {
		t.Error("it has another content")
	}
	s.must("DELETE", "/v1/resource-definitions/vol", "")
	s.nothingLeft(dir, "vol")
}
