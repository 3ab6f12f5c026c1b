// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package drbd_test

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent/drbd"
	"github.com/holdfast-storage/holdfast/internal/agent/drbd/config"
	"github.com/holdfast-storage/holdfast/internal/agent/drbd/kernel"
	"github.com/holdfast-storage/holdfast/internal/agent/drbd/metadata"
	"github.com/holdfast-storage/holdfast/internal/agent/pool"
)

// three brings a resource of 64 MiB up on three nodes, charlie without a disk.
func three(t *testing.T) *real {
	t.Helper()
	return newReal(t).three()
}

func (r *real) three() *real {
	t := r.t
	t.Helper()
	for _, name := range []string{"alpha", "bravo"} {
		r.create(r.nodes[name], 0, 64*mib)
	}
	r.wish(r.nodes["charlie"], drbd.Volume{Minor: r.nodes["charlie"].minor(0), Size: 64 * mib})
	began := time.Now()
	r.apply("alpha", "bravo", "charlie")
	t.Logf("three nodes are up to date after %s", time.Since(began).Round(10*time.Millisecond))
	return r
}

func TestRealReplicasStartWithoutASyncAndFailOver(t *testing.T) {
	r := three(t)
	for name, n := range r.nodes {
		s := r.state(name)
		if d := s.Devices[0]; d.Size < 64*mib || !d.Quorum || d.Client != (name == "charlie") {
			t.Errorf("%s: %+v", name, s)
		}
		shown, err := kernel.ParseShow([]byte(r.run("drbdsetup", "show", n.want.Name, "--json")))
		if err != nil || len(shown) != 1 || shown[0].NodeID != n.id || len(shown[0].Peers) != 2 || len(shown[0].Peers[0].Paths) != 1 {
			t.Errorf("%s: %+v, %v", name, shown, err)
		}
	}
	if err := r.write("alpha", 0, "a"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"charlie", "bravo"} {
		if got := r.read(name, 0); got != "a" {
			t.Errorf("%s reads %s", name, got)
		}
	}
	if err := r.write("charlie", 0, "c"); err != nil {
		t.Fatal(err)
	}
	if got := r.read("alpha", 0); got != "c" {
		t.Errorf("alpha reads %s", got)
	}
	// Nothing has changed, so nothing is run; then all goes, and leaves nothing.
	r.apply("alpha", "bravo", "charlie")
	for _, n := range r.nodes {
		n.want.Down = true
		if err := r.try(n.name); err != nil {
			t.Errorf("%s: %v", n.name, err)
		}
		if _, err := os.Stat(n.device(0)); err == nil {
			t.Errorf("%s is left", n.device(0))
		}
		if left, _ := os.ReadDir(n.folder); len(left) != 1 { // The test's own.
			t.Errorf("%s: %v is left", n.name, left)
		}
	}
}

func TestRealReplicasAreDeclaredEqual(t *testing.T) {
	r := newReal(t)
	r.generation = ""
	r.three()
	for _, name := range []string{"alpha", "bravo"} {
		if !upToDate(0)(r.state(name)) {
			t.Errorf("%s: %+v", name, r.state(name))
		}
	}
}

func TestRealWatcherFollows(t *testing.T) {
	r := three(t)
	w := r.nodes["alpha"].watcher
	names := watch(t, w)
	until(t, w, names, func(s kernel.Resource) bool {
		return s.MayPromote != nil && *s.MayPromote && len(s.Devices) == 1 && s.Devices[0].Disk == kernel.UpToDate
	})
	f, err := os.OpenFile(r.nodes["alpha"].device(0), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	until(t, w, names, func(s kernel.Resource) bool { return s.Name == "r0-alpha" && s.Role == kernel.Primary })
	got, ok := w.Resource("r0-alpha")
	want := r.state("alpha")
	if !ok || got.Role != want.Role || len(got.Connections) != len(want.Connections) || got.Connections[0].State != want.Connections[0].State {
		t.Errorf("%+v, and the status is %+v", got, want)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	until(t, w, names, func(s kernel.Resource) bool { return s.Name == "r0-alpha" && s.Role == kernel.Secondary })
}

func TestRealUseIsRespected(t *testing.T) {
	r := three(t)
	alpha := r.nodes["alpha"]
	mount := t.TempDir()
	r.run("mkfs.ext4", "-q", alpha.device(0))
	r.run("mount", alpha.device(0), mount)
	for _, name := range []string{"alpha", "bravo"} {
		r.create(r.nodes[name], 1, 16*mib)
	}
	r.wish(r.nodes["charlie"], drbd.Volume{Number: 1, Minor: r.nodes["charlie"].minor(1), Size: 16 * mib})
	r.apply("alpha", "bravo", "charlie")

	refused := func(what string) {
		t.Helper()
		err := r.try("alpha")
		if used := new(pool.InUseError); !errors.As(err, &used) || len(used.Holders) == 0 {
			t.Errorf("%s: %v", what, err)
		}
		if s := r.state("alpha"); len(s.Devices) != 2 || s.Devices[0].Disk != kernel.UpToDate || s.Devices[1].Disk != kernel.UpToDate {
			t.Errorf("%s: %+v", what, s)
		}
		if err := os.WriteFile(mount+"/f", []byte(what), 0o600); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	alpha.want.Down = true
	refused("down while it is mounted")
	alpha.want.Down = false
	alpha.want.Volumes[1].Destroy = true
	refused("a volume removed while the other is mounted")
	r.run("umount", mount)
	f, err := os.Open(alpha.device(1)) // To read alone: that makes no Primary.
	if err != nil {
		t.Fatal(err)
	}
	err = r.try("alpha")
	if !errors.As(err, new(*pool.InUseError)) {
		t.Errorf("a volume removed while it is read: %v", err)
	}
	_ = f.Close()
	for _, name := range []string{"alpha", "bravo", "charlie"} {
		r.nodes[name].want.Volumes[1].Destroy = true
		if err := r.try(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if s := r.state(name); len(s.Devices) != 1 {
			t.Errorf("%s: %+v", name, s)
		}
	}
	r.run("mount", alpha.device(0), mount) // Nodes may become Primary again.
	r.run("umount", mount)
}

func TestRealVolumeGrowsWhileItIsMounted(t *testing.T) {
	r := three(t)
	mount := t.TempDir()
	r.run("mkfs.ext4", "-q", r.nodes["alpha"].device(0))
	r.run("mount", r.nodes["alpha"].device(0), mount)
	for _, name := range []string{"alpha", "bravo"} {
		n := r.nodes[name]
		r.run("lvextend", "-L", strconv.FormatInt(metadata.Backing(128*mib, room), 10)+"b", r.group+"/"+name+"-0")
		n.want.Volumes[0].Size = 128 * mib
		if name == "alpha" {
			if err := r.try(name); err != nil {
				t.Error(err)
			}
			if got := r.state(name).Devices[0].Size; got >= 128*mib {
				t.Errorf("it grew to %d without bravo", got)
			}
		}
	}
	r.nodes["charlie"].want.Volumes[0].Size = 128 * mib
	r.apply("bravo", "alpha", "charlie")
	for name, n := range r.nodes {
		text, err := os.ReadFile("/sys/block/drbd" + strconv.Itoa(n.minor(0)) + "/size")
		if sectors, _ := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err != nil || sectors*512 < 128*mib {
			t.Errorf("%s: %d bytes, %v", name, sectors*512, err)
		}
	}
	r.run("resize2fs", r.nodes["alpha"].device(0))
	r.run("umount", mount)
}

// toCharlie tells charlie's peers whether it has a disk.
func (r *real) toCharlie(diskless bool) {
	for _, name := range []string{"alpha", "bravo"} {
		for i := range r.nodes[name].want.Peers {
			if r.nodes[name].want.Peers[i].Name == "charlie" {
				r.nodes[name].want.Peers[i].Diskless = diskless
			}
		}
	}
}

func TestRealClientGetsADiskAndGivesItBack(t *testing.T) {
	r := three(t)
	if err := r.write("charlie", 0, "x"); err != nil {
		t.Fatal(err)
	}
	r.create(r.nodes["charlie"], 0, 64*mib)
	r.toCharlie(false)
	began := time.Now()
	r.apply("alpha", "bravo", "charlie")
	r.until("charlie", "up to date", upToDate(0))
	t.Logf("64 MiB were synced in %s", time.Since(began).Round(10*time.Millisecond))
	for _, name := range []string{"alpha", "bravo"} {
		r.nodes[name].want.Volumes[0].Disk = ""
	}
	if err := r.try("alpha"); err != nil {
		t.Error(err)
	}
	if got := r.read("charlie", 0); got != "x" {
		t.Errorf("charlie reads %s", got)
	}
	r.until("charlie", "up to date", upToDate(0))
	// Now alpha gets its disk back, and charlie gives its up.
	r.nodes["alpha"].want.Volumes[0].Disk = "/dev/mapper/" + r.group + "-alpha--0"
	r.nodes["bravo"].want.Volumes[0].Disk = "/dev/mapper/" + r.group + "-bravo--0"
	r.apply("alpha", "bravo")
	r.until("alpha", "up to date", upToDate(0))
	r.toCharlie(true)
	r.nodes["charlie"].want.Volumes[0].Disk = ""
	r.apply("charlie", "alpha", "bravo")
	if s := r.state("charlie"); s.Devices[0].Disk != kernel.Diskless || !s.Devices[0].Client {
		t.Errorf("%+v", s)
	}
	if got := r.read("charlie", 0); got != "x" {
		t.Errorf("charlie reads %s", got)
	}
	r.run("lvremove", "-fy", r.group+"/charlie-0") // Nothing holds it any more.
}

func TestRealLastCopyIsKept(t *testing.T) {
	r := three(t)
	r.run("drbdsetup", "disconnect", "r0-alpha", "1")
	r.nodes["alpha"].want.Volumes[0].Disk = ""
	if err := r.try("alpha"); !errors.As(err, new(*drbd.LastCopyError)) {
		t.Errorf("%v", err)
	}
	if !upToDate(0)(r.state("alpha")) {
		t.Errorf("%+v", r.state("alpha"))
	}
}

func TestRealPeerIsForgottenAndReturns(t *testing.T) {
	r := three(t)
	if err := r.write("alpha", 0, "1"); err != nil {
		t.Fatal(err)
	}
	bravo := r.nodes["bravo"]
	bravo.want.Down = true
	if err := r.try("bravo"); err != nil {
		t.Fatal(err)
	}
	peers := map[string][]config.Peer{}
	for _, name := range []string{"alpha", "charlie"} {
		n := r.nodes[name]
		peers[name] = n.want.Peers
		n.want.Peers = slices.DeleteFunc(slices.Clone(n.want.Peers), func(p config.Peer) bool { return p.Name == "bravo" })
		n.want.Retired = []int{bravo.id}
	}
	r.apply("alpha", "charlie")
	if err := r.write("alpha", 0, "2"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"alpha", "charlie"} {
		r.nodes[name].want.Peers, r.nodes[name].want.Retired = peers[name], nil
	}
	bravo.want.Down = false
	if err := bravo.d.CreateMetadata(t.Context(), bravo.want.Name, bravo.want.Volumes[0], drbd.Metadata{Peers: room}); err != nil {
		t.Fatal(err)
	}
	r.apply("alpha", "charlie", "bravo")
	r.until("bravo", "up to date", upToDate(0))
	if got := r.read("bravo", 0); got != "2" {
		t.Errorf("bravo reads %s", got)
	}
}

func TestRealSplitBrainIsShownAndLeftToPeople(t *testing.T) {
	r := three(t)
	for _, n := range r.nodes {
		n.want.Options = config.Options{"quorum": "off"}
	}
	r.apply("alpha", "bravo", "charlie")
	watch(t, r.nodes["alpha"].watcher)
	for _, n := range r.nodes {
		for _, peer := range r.nodes {
			if peer != n {
				r.run("drbdsetup", "disconnect", n.want.Name, strconv.Itoa(peer.id), "--force")
			}
		}
	}
	for _, name := range []string{"alpha", "bravo"} {
		if err := r.write(name, 0, name); err != nil {
			t.Fatal(err)
		}
	}
	split := func() bool {
		s, _ := r.nodes["alpha"].watcher.Resource("r0-alpha")
		c, _ := s.Connection(1)
		return c.SplitBrain && c.State == kernel.StandAlone
	}
	for deadline := time.Now().Add(2 * time.Minute); !split(); r.pause() { // Connections rest first, when they were made a moment ago.
		for name := range r.nodes {
			if err := r.try(name); err != nil {
				t.Logf("%s: %v", name, err)
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("the split brain is not seen: %+v", r.state("alpha"))
		}
	}
	s, _ := r.nodes["alpha"].watcher.Resource("r0-alpha")
	if problems := drbd.Problems(s); !slices.ContainsFunc(problems, func(p string) bool { return strings.Contains(p, "split brain") }) {
		t.Errorf("%v", problems)
	}
	for _, name := range []string{"alpha", "bravo"} {
		if got := r.read(name, 0); got != name[:1] {
			t.Errorf("%s reads %s", name, got)
		}
	}
	// Someone decides that bravo gives up what it wrote.
	for _, c := range [][]string{{"disconnect", "r0-alpha", "1"}, {"disconnect", "r0-bravo", "0"}, {"connect", "r0-bravo", "0", "--discard-my-data"}, {"connect", "r0-alpha", "1"}} {
		r.run("drbdsetup", c...)
	}
	r.until("bravo", "synced", func(s kernel.Resource) bool {
		c, _ := s.Connection(0)
		return c.State == kernel.Connected && upToDate(0)(s)
	})
	if got := r.read("bravo", 0); got != "a" {
		t.Errorf("bravo reads %s", got)
	}
}
