// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package held_test

import (
	"bytes"
	"os"
	"testing"
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent/hold"
	"github.com/holdfast-storage/holdfast/internal/agent/mount/mounttest"
	"github.com/holdfast-storage/holdfast/internal/agent/pool"
)

func onNFS(lab *mounttest.Lab, options string) properties {
	return properties{"StorDriver/Mount/Source": lab.Export, "StorDriver/Mount/Options": options}
}

func TestNFSPoolServesVolumes(t *testing.T) {
	lab := mounttest.NFS(t)
	for _, version := range lab.Versions {
		t.Run(version, func(t *testing.T) {
			r := newRig(t)
			r.c.Linger = time.Millisecond
			s := spec(t, "p", onNFS(lab, version))
			p := r.open(t, s)
			id := pool.ID{Resource: "db"}
			must(t, p.Create(t.Context(), id, 8<<20))
			must(t, p.Finish(t.Context(), id))
			d, err := p.Open(t.Context(), id)
			must(t, err)
			content := bytes.Repeat([]byte("holdfast"), 1<<17)
			f, err := os.OpenFile(d.Path, os.O_RDWR, 0)
			must(t, err)
			_, err = f.WriteAt(content, 0)
			must(t, err)
			must(t, f.Sync())
			must(t, f.Close())
			must(t, p.Grow(t.Context(), id, 16<<20))
			await(t, "only the volume holds it", func() bool { return len(r.status(t, "p").Holds) == 1 })
			must(t, p.Close(t.Context(), id))
			await(t, "it is taken down", func() bool { return !r.mounted(t, s) })
			d, err = p.Open(t.Context(), id)
			must(t, err)
			have := make([]byte, len(content))
			f, err = os.Open(d.Path)
			must(t, err)
			_, err = f.Read(have)
			must(t, err)
			must(t, f.Close())
			if d.Size != 16<<20 || !bytes.Equal(have, content) {
				t.Errorf("the volume came back with %d bytes, and the same content is %v", d.Size, bytes.Equal(have, content))
			}
			must(t, p.Remove(t.Context(), id))
			await(t, "it is taken down again", func() bool { return !r.mounted(t, s) })
		})
	}
}

func TestNFSServerThatHangsMakesItsPoolFaultyUntilItAnswers(t *testing.T) {
	lab := mounttest.NFS(t)
	r := newRig(t)
	r.down(t)
	r.limits.Probe, r.limits.ProbeEvery, r.limits.Mount = 2*time.Second, 500*time.Millisecond, 30*time.Second
	r.boot(t)
	r.c.Quick, r.c.Watch, r.c.Farewell = 10*time.Second, 100*time.Millisecond, time.Second
	bad := r.open(t, spec(t, "bad", onNFS(lab, lab.Versions[0]+",hard,timeo=10,retrans=1")))
	good := r.open(t, spec(t, "good", bound(mounttest.Mkdir(t, r.dir, "share"))))
	id := pool.ID{Resource: "db"}
	must(t, bad.Create(t.Context(), id, 1<<20))
	must(t, bad.Finish(t.Context(), id))
	_, err := bad.Open(t.Context(), id)
	must(t, err)
	lab.Stop(t)
	var fault *pool.FaultyError
	await(t, "it is faulty", func() bool {
		began := time.Now()
		_, err := bad.Space(t.Context())
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("a call took %s", took)
		}
		return asFaulty(err, &fault)
	})
	began := time.Now()
	st := r.status(t, "bad")
	if took := time.Since(began); took > 100*time.Millisecond || st.State != hold.StateSuspect {
		t.Errorf("inspected in %s: %s", took, st.State)
	}
	if _, err := good.Space(t.Context()); err != nil {
		t.Errorf("another pool: %v", err)
	}
	lab.Start(t)
	await(t, "it works again", func() bool {
		_, err := bad.Space(t.Context())
		return err == nil
	})
	must(t, bad.Remove(t.Context(), id))
}
