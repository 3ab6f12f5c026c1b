// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package host_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The flows of linstor-csi on a pool of files, with mounts and checksums: what its calls promise to a pod.

// csiVolume makes a volume as CreateVolume does, and returns its device.
func (s *system) csiVolume(name string, kib int64) string {
	s.t.Helper()
	s.must("POST", "/v1/resource-definitions", fmt.Sprintf(`{"resource_definition":{"name":%q,"resource_group_name":"group"}}`, name))
	s.must("POST", "/v1/resource-definitions/"+name+"/volume-definitions",
		fmt.Sprintf(`{"volume_definition":{"volume_number":0,"size_kib":%d,"props":{"FileSystem/Type":"ext4"}}}`, kib))
	s.must("POST", "/v1/resource-definitions/"+name+"/autoplace", `{"select_filter":{}}`)
	s.must("PUT", "/v1/resource-definitions/"+name, `{"override_props":{"Aux/csi-provisioning-completed-by":"linstor-csi/v1"}}`)
	return s.csiPublish(name)
}

// csiPublish makes a volume available as ControllerPublishVolume does, and returns its device.
func (s *system) csiPublish(name string) string {
	s.t.Helper()
	s.must("POST", "/v1/resource-definitions/"+name+"/resources/n1/make-available", "{}")
	return s.device(name, "n1")
}

// csiSnapshot takes a snapshot as CreateSnapshot does.
func (s *system) csiSnapshot(snapshot string, names ...string) {
	s.t.Helper()
	var list []string
	for _, n := range names {
		list = append(list, fmt.Sprintf(`{"resource_name":%q,"name":%q}`, n, snapshot))
	}
	s.must("POST", "/v1/actions/snapshot/multi", `{"snapshots":[`+strings.Join(list, ",")+`]}`)
	view := s.must("GET", "/v1/view/snapshots?offset=0&limit=0", "")
	for _, n := range names {
		if !strings.Contains(s.must("GET", "/v1/resource-definitions/"+n+"/snapshots/"+snapshot, ""), `"SUCCESSFUL"`) {
			s.t.Errorf("snapshot %s of %s is not there: %s", snapshot, n, view)
		}
	}
}

// csiRestore makes a volume from a snapshot as CreateVolume does.
func (s *system) csiRestore(source, snapshot, name string) string {
	s.t.Helper()
	s.must("POST", "/v1/resource-definitions", fmt.Sprintf(`{"resource_definition":{"name":%q,"resource_group_name":"group"}}`, name))
	s.must("POST", "/v1/resource-definitions/"+source+"/snapshot-restore-volume-definition/"+snapshot, fmt.Sprintf(`{"to_resource":%q}`, name))
	s.must("POST", "/v1/resource-definitions/"+source+"/snapshot-restore-resource/"+snapshot, fmt.Sprintf(`{"to_resource":%q,"nodes":["n1"]}`, name))
	s.must("POST", "/v1/resource-definitions/"+name+"/autoplace", `{"select_filter":{}}`)
	return s.csiPublish(name)
}

// csiClone begins a clone as CreateVolume does.
func (s *system) csiClone(source, name string) {
	s.t.Helper()
	if a := s.call("GET", "/v1/resource-definitions/"+source+"/clone/"+name, ""); a.status != 404 {
		s.t.Errorf("the status of a clone that nobody asked for is %d %s", a.status, a.text)
	}
	s.must("POST", "/v1/resource-definitions/"+source+"/clone",
		fmt.Sprintf(`{"name":%q,"resource_group":"group","delete_props":["Aux/csi-provisioning-completed-by"]}`, name))
}

func (s *system) csiCloned(source, name string) string {
	s.t.Helper()
	s.until("clone "+name, func() bool {
		text := s.must("GET", "/v1/resource-definitions/"+source+"/clone/"+name, "")
		if strings.Contains(text, "FAILED") {
			s.t.Fatalf("clone %s of %s: %s", name, source, text)
		}
		return strings.Contains(text, "COMPLETE")
	})
	return s.csiPublish(name)
}

// csiDelete deletes a volume as DeleteVolume does.
func (s *system) csiDelete(name string) {
	s.t.Helper()
	s.must("DELETE", "/v1/resource-definitions/"+name+"/resources/n1?keep_tiebreaker=false", "")
	s.must("DELETE", "/v1/resource-definitions/"+name+"/volume-definitions/0", "")
	if strings.TrimSpace(s.must("GET", "/v1/resource-definitions/"+name+"/snapshots", "")) == "[]" {
		s.must("DELETE", "/v1/resource-definitions/"+name, "")
	}
}

// write writes a file into the filesystem of a device, and returns the checksum of all files there.
func (s *system) csiWrite(device, file string) string {
	s.t.Helper()
	mnt := s.mount(device)
	s.sh("dd", "if=/dev/urandom", "of="+filepath.Join(mnt, file), "bs=1M", "count=4", "status=none")
	sums := s.sums(mnt)
	s.unmount(mnt)
	return sums
}

func (s *system) sums(mnt string) string {
	s.t.Helper()
	return s.sh("sh", "-c", "cd "+mnt+" && sha256sum *[!d]")
}

// contains fails the test unless the filesystem of a device has exactly the files of these checksums, and is sound.
func (s *system) contains(device, want string) {
	s.t.Helper()
	s.sh("e2fsck", "-fn", device)
	mnt := s.mount(device)
	defer s.unmount(mnt)
	if got := s.sums(mnt); got != want {
		s.t.Errorf("%s holds\n%s\nand not\n%s", device, got, want)
	}
}

func TestWhatWasWrittenBeforeASnapshotIsInTheRestoreAndNothingElse(t *testing.T) {
	for _, filesystem := range []string{"xfs", "ext4"} {
		t.Run(filesystem, func(t *testing.T) {
			s, dir := serving(t, filesystem, "2G", group)
			device := s.csiVolume("vol", 256<<10)
			before := s.csiWrite(device, "before")
			s.csiSnapshot("snap", "vol")
			after := s.csiWrite(device, "after")
			restored := s.csiRestore("vol", "snap", "restored")
			s.contains(restored, before)
			s.contains(device, after)
			both := s.csiWrite(restored, "more")

			s.must("PUT", "/v1/resource-definitions/restored/volume-definitions/0", fmt.Sprintf(`{"size_kib":%d}`, 384<<10))
			if got := s.sh("blockdev", "--getsize64", restored); got != fmt.Sprint(384<<20) {
				t.Errorf("the device has %s bytes after it grew", got)
			}
			s.sh("sh", "-c", "e2fsck -fp "+restored+"; resize2fs "+restored)
			s.contains(restored, both)

			s.csiClone("restored", "cloned")
			s.contains(s.csiCloned("restored", "cloned"), both)

			mnt := s.mount(device)
			s.refused("POST", "/v1/resource-definitions/vol/snapshot-rollback/snap", "", "in use", mnt)
			s.unmount(mnt)
			s.must("POST", "/v1/resource-definitions/vol/snapshot-rollback/snap", "")
			s.contains(s.csiPublish("vol"), before)

			if text := s.must("GET", "/v1/view/resources?offset=0&limit=0", ""); !strings.Contains(text, "restored") || !strings.Contains(text, "cloned") {
				t.Errorf("not all volumes are listed: %s", text)
			}
			if text := s.must("GET", "/v1/view/storage-pools?cached=true", ""); !strings.Contains(text, `"free_capacity"`) || !strings.Contains(text, `"supports_snapshots":true`) {
				t.Errorf("the capacity is not told: %s", text)
			}
			s.csiDelete("vol")
			if text := s.must("GET", "/v1/resource-definitions/vol/snapshots/snap", ""); !strings.Contains(text, "SUCCESSFUL") {
				t.Errorf("the snapshot of a deleted volume is %s", text)
			}
			late := s.csiRestore("vol", "snap", "late")
			s.contains(late, before)
			s.must("DELETE", "/v1/resource-definitions/vol/snapshots/snap", "")
			s.must("DELETE", "/v1/resource-definitions/vol", "")
			for _, name := range []string{"restored", "cloned", "late"} {
				s.csiDelete(name)
			}
			for _, name := range []string{"vol", "restored", "cloned", "late"} {
				s.nothingLeft(dir, name)
			}
		})
	}
}

func TestSnapshotCallsOfAnOfflineNode(t *testing.T) {
	s, _ := serving(t, "xfs", "1G", group)
	s.csiVolume("vol", 64<<10)
	s.csiSnapshot("snap", "vol")
	s.end("n1", syscall.SIGKILL)
	s.until("the node to be offline", func() bool {
		return strings.Contains(s.call("GET", "/v1/nodes/n1", "").text, `"OFFLINE"`)
	})
	for _, c := range []struct{ method, path, body string }{
		{"POST", "/v1/actions/snapshot/multi", `{"snapshots":[{"resource_name":"vol","name":"late"}]}`},
		{"POST", "/v1/resource-definitions/vol/clone", `{"name":"late"}`},
		{"POST", "/v1/resource-definitions/vol/snapshot-rollback/snap", ""},
		{"PUT", "/v1/resource-definitions/vol/volume-definitions/0", `{"size_kib":131072}`},
	} {
		s.refused(c.method, c.path, c.body, "n1")
	}
	if text := s.must("DELETE", "/v1/resource-definitions/vol/snapshots/snap", ""); !strings.Contains(text, "not connected") {
		t.Errorf("the answer is %s", text)
	}
	s.agent("n1")
	s.until("the snapshot to be gone", func() bool {
		return s.call("GET", "/v1/resource-definitions/vol/snapshots/snap", "").status == 404
	})
	if a := s.call("GET", "/v1/resource-definitions/late", ""); a.status != 404 {
		t.Errorf("a refused clone has left a definition: %s", a.text)
	}
	s.csiDelete("vol")
}
