// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package drbd_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/agent/drbd"
	"github.com/holdfast-storage/holdfast/internal/agent/drbd/config"
	"github.com/holdfast-storage/holdfast/internal/agent/drbd/kernel"
	"github.com/holdfast-storage/holdfast/internal/agent/drbd/metadata"
	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/inuse"
	"github.com/holdfast-storage/holdfast/internal/agent/stack"
	"github.com/holdfast-storage/holdfast/internal/command"
)

// realGroup names the volume group that the tests on a real DRBD 9 may use.
const realGroup = "HOLDFAST_LAB_DRBD9"

// real is three nodes in one kernel: each has the resource under a name of its own, with minors and an address of its own, so that DRBD connects
// them as it does three hosts. What is only one kernel's is that nobody's kernel can fail alone.
type real struct {
	t     *testing.T
	group string
	exec  *command.Exec
	nodes map[string]*realNode
	// generation is that of new disks; empty: alpha starts them.
	generation string
}

type realNode struct {
	name    string
	id      int
	d       *drbd.DRBD
	folder  string
	watcher *drbd.Watcher
	want    drbd.Want
}

// ownConfig is a runner whose drbdadm sees the files of one node alone.
type ownConfig struct {
	exec *command.Exec
	file string
}

// hangs is when an adjustment counts as one that waits for ever: see operate.
const hangs = 15 * time.Second

// Run implements command.Runner.
func (o ownConfig) Run(ctx context.Context, c command.Command) (command.Result, error) {
	if c.Program == "drbdadm" {
		if c.Args[0] == "adjust" {
			c.Limit = hangs
		}
		c.Args = append([]string{"--config-file", o.file}, c.Args...)
	}
	return o.exec.Run(ctx, c)
}

func newReal(t *testing.T) *real {
	t.Helper()
	group := os.Getenv(realGroup)
	if group == "" {
		t.Skipf("no DRBD 9 here: %s is not set; the family drbd9 of the lab sets it, where a module is given to it", realGroup)
	}
	r := &real{t: t, group: group, exec: &command.Exec{}, nodes: map[string]*realNode{}, generation: "5A3C6E4F12345678"}
	var system unix.Utsname
	if err := unix.Uname(&system); err != nil {
		t.Fatal(err)
	}
	scanner := &inuse.Scanner{}
	for id, name := range []string{"alpha", "bravo", "charlie"} {
		folder := t.TempDir()
		conf := filepath.Join(folder, "drbd.conf")
		if err := os.WriteFile(conf, []byte("global { usage-count no; }\ninclude \""+folder+"/*.res\";\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		n := &realNode{name: name, id: id, folder: folder, watcher: &drbd.Watcher{Runner: r.exec}}
		n.d = drbd.New(drbd.Settings{
			Runner: ownConfig{r.exec, conf}, Folder: folder, Notes: t.TempDir(),
			Users: func(ctx context.Context, device string) ([]pool.Holder, error) { return users(ctx, scanner, device) },
		})
		n.want = drbd.Want{
			Name: "r0-" + name, Host: unix.ByteSliceToString(system.Nodename[:]), NodeID: id, Secret: "a secret + /=",
			Net: config.Options{"protocol": "C", "ping-int": "3", "connect-int": "3", "timeout": "30"}, Options: config.Options{"quorum": "majority", "on-no-quorum": "io-error"},
		}
		r.nodes[name] = n
	}
	for _, n := range r.nodes {
		for _, peer := range r.nodes {
			if peer != n {
				n.want.Peers = append(n.want.Peers, config.Peer{Name: peer.name, NodeID: peer.id, Diskless: peer.name == "charlie", Paths: []config.Path{{Local: n.address(peer), Remote: peer.address(n)}}})
			}
		}
	}
	t.Cleanup(r.clean)
	return r
}

// address is where the node is reached by a peer. One kernel does not let two of its resources have the same address on either end.
func (n *realNode) address(from *realNode) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, byte(n.id + 1)}), uint16(7000+from.id))
}

func (n *realNode) minor(volume int) int { return 1000*(n.id+1) + volume }

func (n *realNode) device(volume int) string { return kernel.DevicePath(n.minor(volume)) }

func users(ctx context.Context, scanner *inuse.Scanner, device string) ([]pool.Holder, error) {
	var st unix.Stat_t
	if err := unix.Stat(device, &st); err != nil {
		return nil, err
	}
	table, err := scanner.Scan(ctx)
	if err != nil {
		return nil, err
	}
	return table.Device(st.Rdev)
}

// clean takes everything down, however a test ended.
func (r *real) clean() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, n := range r.nodes {
		_, _ = r.exec.Run(ctx, command.Command{Program: "umount", Args: []string{n.device(0)}})
		_, _ = r.exec.Run(ctx, command.Command{Program: "umount", Args: []string{n.device(1)}})
		_, _ = r.exec.Run(ctx, command.Command{Program: "drbdsetup", Args: []string{"down", n.want.Name}})
	}
	_, _ = r.exec.Run(ctx, command.Command{Program: "lvremove", Args: []string{"-fy", r.group}})
}

func (r *real) run(program string, args ...string) string {
	r.t.Helper()
	res, err := r.exec.Run(r.t.Context(), command.Command{Program: program, Args: args})
	if err != nil {
		r.t.Fatalf("%s %v: %v", program, args, err)
	}
	return string(res.Stdout)
}

// create makes a backing device with metadata, and names it in the wish.
func (r *real) create(n *realNode, volume int, usable int64) {
	r.t.Helper()
	lv := fmt.Sprintf("%s-%d", n.name, volume)
	r.run("lvcreate", "-y", "-Wy", "-L", strconv.FormatInt(metadata.Backing(usable, room), 10)+"b", "-n", lv, r.group)
	v := drbd.Volume{Number: volume, Minor: n.minor(volume), Disk: "/dev/mapper/" + r.group + "-" + strings.ReplaceAll(lv, "-", "--"), Size: usable}
	m := drbd.Metadata{Peers: room}
	if n.name == "alpha" && r.generation == "" {
		v.Start = drbd.StartEqual
	}
	if n.name != "charlie" { // Its disk is added when the others have content.
		m.Generation = r.generation
	}
	if err := n.d.CreateMetadata(r.t.Context(), n.want.Name, v, m); err != nil {
		r.t.Fatal(err)
	}
	r.wish(n, v)
}

// wish puts a volume into the wish.
func (r *real) wish(n *realNode, v drbd.Volume) {
	for i := range n.want.Volumes {
		if n.want.Volumes[i].Number == v.Number {
			n.want.Volumes[i] = v
			return
		}
	}
	n.want.Volumes = append(n.want.Volumes, v)
}

func (r *real) try(name string) error {
	n := r.nodes[name]
	_, err := stack.Converge(r.t.Context(), n.d, n.want)
	return err
}

// apply brings wishes about, again and again until nothing is waited for, as an agent does.
func (r *real) apply(names ...string) {
	r.t.Helper()
	deadline, since := time.Now().Add(150*time.Second), map[string]time.Time{}
	for {
		r.operate(since, names)
		var waits []string
		for _, name := range names {
			n := r.nodes[name]
			h, err := stack.Converge(r.t.Context(), n.d, n.want)
			if err != nil {
				waits = append(waits, name+": "+err.Error())
				continue
			}
			for _, why := range drbd.Waiting(n.want, h) {
				waits = append(waits, name+": "+why)
			}
		}
		if len(waits) == 0 {
			return
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("not brought about in time: %s", strings.Join(waits, "\n"))
		}
		r.pause()
	}
}

// operate does what an operator does about a disk that is Negotiating for ever, which two resources in one kernel come to easily: the answer of a peer arrives before
// this side has asked. Ending one connection would end it as well, and leave a disk that was never compared with its peers: so clients are disconnected
// first, and then the resource goes down and comes up again.
func (r *real) operate(since map[string]time.Time, names []string) {
	for _, name := range names {
		n := r.nodes[name]
		res, err := r.exec.Run(r.t.Context(), command.Command{Program: "drbdsetup", Args: []string{"status", n.want.Name, "--json"}})
		states, parseErr := kernel.ParseStatus(res.Stdout)
		negotiating := func(d kernel.Device) bool { return d.Disk == kernel.Negotiating }
		if err != nil || parseErr != nil || len(states) != 1 || !slices.ContainsFunc(states[0].Devices, negotiating) {
			delete(since, name)
			continue
		}
		if since[name].IsZero() {
			since[name] = time.Now()
		}
		if time.Since(since[name]) < 3*time.Second {
			continue
		}
		r.t.Logf("%s is Negotiating for ever, and taken down and up", name)
		for _, p := range n.want.Peers {
			if p.Diskless {
				_, _ = r.exec.Run(r.t.Context(), command.Command{Program: "drbdsetup", Args: []string{"disconnect", n.want.Name, strconv.Itoa(p.NodeID)}})
			}
		}
		r.run("drbdsetup", "down", n.want.Name)
		delete(since, name)
	}
}

// pause is between two looks at a real kernel.
func (r *real) pause() {
	select {
	case <-time.After(100 * time.Millisecond):
	case <-r.t.Context().Done():
	}
}

func (r *real) state(name string) kernel.Resource {
	r.t.Helper()
	h, err := r.nodes[name].d.Observe(r.t.Context(), r.nodes[name].want)
	if err != nil || h.State == nil {
		r.t.Fatalf("%s: it does not run: %v", name, err)
	}
	return *h.State
}

// until waits for a state of a node.
func (r *real) until(name, what string, is func(kernel.Resource) bool) {
	r.t.Helper()
	deadline := time.Now().Add(150 * time.Second)
	for !is(r.state(name)) {
		if time.Now().After(deadline) {
			r.t.Fatalf("%s is not %s: %+v", name, what, r.state(name))
		}
		r.pause()
	}
}

func upToDate(volume int) func(kernel.Resource) bool {
	return func(s kernel.Resource) bool {
		d, _ := s.Device(volume)
		return d.Disk == kernel.UpToDate
	}
}

// write writes a mark to the beginning of a device, and read reads it.
func (r *real) write(name string, volume int, mark string) error {
	r.t.Helper()
	f, err := os.OpenFile(r.nodes[name].device(volume), os.O_RDWR|unix.O_SYNC, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(bytes.Repeat([]byte(mark[:1]), 1<<20))
	return errors.Join(err, f.Close())
}

func (r *real) read(name string, volume int) string {
	r.t.Helper()
	f, err := os.Open(r.nodes[name].device(volume))
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	text := make([]byte, 1<<20)
	if _, err := io.ReadFull(f, text); err != nil {
		r.t.Fatal(err)
	}
	if len(bytes.Trim(text, string(text[:1]))) > 0 {
		r.t.Errorf("%s: what was written is not whole", name)
	}
	return string(text[:1])
}

// connection is a state of a connection on a node.
func (r *real) connection(name, to string) kernel.Connection {
	s := r.state(name)
	c, _ := s.Connection(r.nodes[to].id)
	return c
}

// client brings a client of a resource of its own up, or takes it down.
func (r *real) client(ctx context.Context, n *realNode, i int, down bool) error {
	w := n.want
	w.Name, w.Down = fmt.Sprintf("many-%d", i), down
	w.Volumes = []drbd.Volume{{Minor: 5000 + i}}
	w.Peers = []config.Peer{{Name: "bravo", NodeID: 1, Paths: []config.Path{{
		Local: netip.AddrPortFrom(n.address(n).Addr(), uint16(8000+i)), Remote: netip.AddrPortFrom(r.nodes["bravo"].address(n).Addr(), uint16(8000+i)),
	}}}}
	_, err := stack.Converge(ctx, n.d, w)
	return err
}
