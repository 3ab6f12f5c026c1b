// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package job_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/pooltest"
)

// NFS has no rename that refuses to replace, and no fallocate in older versions.
func TestNFSImagesGoOutAndComeBack(t *testing.T) {
	export := os.Getenv("HOLDFAST_LAB_NFS")
	if export == "" {
		t.Skip("needs an NFS server: set HOLDFAST_LAB_NFS to server:/export, as in the lab")
	}
	pooltest.NeedHost(t, "losetup")
	for version := range strings.FieldsSeq(os.Getenv("HOLDFAST_LAB_NFS_VERSIONS")) {
		t.Run(version, func(t *testing.T) {
			at, err := os.MkdirTemp("/tmp", "nfs-") //nolint:usetesting // Removed only when it was unmounted.
			must(t, err)
			pooltest.Run(t, "mount", "-t", "nfs", "-o", version, export, at)
			t.Cleanup(func() {
				must(t, pooltest.Unmount(at))
				must(t, os.Remove(at))
			})
			r := newRigIn(t, filepath.Join(at, "jobs"))
			content := noise(4 * mib)
			r.volume("a", 4*mib, content)
			to := r.volume("b", 6*mib, nil)
			file := "out/a.img"
			r.done(&agentpb.Job{Id: "out", Kind: agentpb.Job_EXPORT, From: end("a"), To: inPool(file)}, hexsum(content))
			r.done(&agentpb.Job{Id: "in", Kind: agentpb.Job_IMPORT, From: inPool(file), To: end("b"), Checksum: hexsum(content)}, hexsum(content))
			r.has(to, content)
			r.fails(&agentpb.Job{Id: "again", Kind: agentpb.Job_EXPORT, From: end("a"), To: inPool(file)}, "is there already")
			must(t, os.RemoveAll(filepath.Join(r.dir, "out")))
		})
	}
}
