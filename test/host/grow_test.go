// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package host_test

import (
	"fmt"
	"strconv"
	"testing"
)

// TestADeviceHasItsNewSizeWhenTheCallReturns grows a volume many times, and asks the kernel for its size as soon as each call is
// answered: hypervisors resize their disks then.
func TestADeviceHasItsNewSizeWhenTheCallReturns(t *testing.T) {
	const rounds, step = 30, 1 << 10 // KiB
	s := start(t)
	s.node("n1")
	s.pool("n1", "data", "FILE_THIN", s.folder("pool"))
	s.must("POST", "/v1/resource-groups", group)
	s.must("POST", "/v1/resource-groups/group/spawn", spawn("vol", 16<<10))
	device := s.device("vol", "n1")
	for i := range rounds {
		kib := int64(16<<10 + (i+1)*step)
		s.must("PUT", "/v1/resource-definitions/vol/volume-definitions/0", fmt.Sprintf(`{"size_kib":%d}`, kib))
		size, err := strconv.ParseInt(s.sh("blockdev", "--getsize64", device), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if size < kib<<10 {
			t.Errorf("round %d: the device has %d bytes, and the call for %d was answered", i, size, kib<<10)
		}
	}
	s.refused("PUT", "/v1/resource-definitions/vol/volume-definitions/0", `{"size_kib":16384}`, "cannot be made smaller")
	s.must("DELETE", "/v1/resource-definitions/vol", "")
}
