// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package drbdtest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/agent/drbd/metadata"
	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/command"
)

// untouched is the data generation of new metadata.
const untouched = "0000000000000004"

// Cluster is some nodes with DRBD. Syncs take no time. It is safe for concurrent use.
type Cluster struct {
	mu        sync.Mutex
	nodes     map[string]*Node
	cut       map[string]bool
	disasters []string
	next      int // Number of the next data generation.
}

// Node is one node. It is a command.Runner for drbdadm, drbdsetup, drbdmeta and sh.
type Node struct {
	Name   string
	Folder string // Of its configuration files.

	c         *Cluster
	resources map[string]*resource
	disks     map[string]*disk
	users     map[string][]pool.Holder // By device.
	calls     []string
	answers   map[string]func() (string, string, int)
}

type resource struct {
	name      string
	nodeID    int
	options   map[string]string
	devices   map[int]*device
	peers     map[int]*peer
	explicit  bool // It was made Primary by a command.
	suspended bool
}

type device struct {
	minor  int
	disk   string // Path; empty without.
	client bool
}

type peer struct {
	id            int
	name          string
	local, remote string
	net           map[string]string
	bitmap        map[int]bool // False: the peer has no disk, for a volume.
	started       bool         // Connect was called and nobody refused since.
}

type disk struct {
	size       int64 // Bytes.
	generation string
	room       int
	device     int64 // KiB of the device on it, as the metadata remembers.
	slots      map[int]bool
	failed     bool
}

// NewCluster returns a cluster of nodes.
func NewCluster(tb testing.TB, names ...string) *Cluster {
	tb.Helper()
	c := &Cluster{nodes: map[string]*Node{}, cut: map[string]bool{}, next: 16}
	for _, name := range names {
		c.nodes[name] = &Node{
			Name: name, Folder: tb.TempDir(), c: c, resources: map[string]*resource{}, disks: map[string]*disk{}, users: map[string][]pool.Holder{},
			answers: map[string]func() (string, string, int){},
		}
	}
	return c
}

// Node returns a node.
func (c *Cluster) Node(name string) *Node { return c.nodes[name] }

// Cut and Join end and restore the link between two nodes.
func (c *Cluster) Cut(a, b string)  { c.link(a, b, true) }
func (c *Cluster) Join(a, b string) { c.link(a, b, false) } //nolint:revive // See Cut.

func (c *Cluster) link(a, b string, cut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut[a+b], c.cut[b+a] = cut, cut
	c.settle()
}

// Disasters returns what was done that a real node does not survive, or that takes a device or data from its users.
func (c *Cluster) Disasters() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.disasters)
}

func (c *Cluster) disaster(format string, args ...any) {
	c.disasters = append(c.disasters, fmt.Sprintf(format, args...))
}

// Disk gives the node a backing device, or another size to one that it has.
func (n *Node) Disk(path string, size int64) {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	if d := n.disks[path]; d != nil {
		d.size = size
		return
	}
	n.disks[path] = &disk{size: size, slots: map[int]bool{}}
}

// Write is what a user writes to a device: its data has another generation, on all nodes that it reaches.
func (n *Node) Write(minor int) {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	n.c.next++
	generation := fmt.Sprintf("%016X", n.c.next)
	for _, r := range n.resources {
		for volume, v := range r.devices {
			if v.minor != minor {
				continue
			}
			for _, m := range n.c.reach(n, r) {
				if d := m.diskOf(r.name, volume); d != nil {
					d.generation = generation
				}
			}
		}
	}
}

// Fail takes the disk of a volume away, as an error of it does.
func (n *Node) Fail(resource string, volume int) {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	v := n.resources[resource].devices[volume]
	n.disks[v.disk].failed = true
	v.disk = ""
}

// Mend lets a failed disk work again.
func (n *Node) Mend(path string) {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	n.disks[path].failed = false
}

// Use makes someone use a device; Free ends all uses of it.
func (n *Node) Use(device string, h pool.Holder) {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	n.users[device] = append(n.users[device], h)
}

// Free ends all uses of a device.
func (n *Node) Free(device string) {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	delete(n.users, device)
}

// Users is a drbd.Users.
func (n *Node) Users(_ context.Context, device string) ([]pool.Holder, error) {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	return slices.Clone(n.users[device]), nil
}

// Generation returns the data generation of a backing device; empty without metadata.
func (n *Node) Generation(path string) string {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	return n.disks[path].generation
}

// Answer makes a command line answer something else, for good when times is negative.
func (n *Node) Answer(line string, times int, stdout, stderr string, code int) {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	n.answers[line] = func() (string, string, int) {
		if times--; times == 0 {
			delete(n.answers, line)
		}
		return stdout, stderr, code
	}
}

// Calls returns the command lines that changed something, or were to, and forgets them.
func (n *Node) Calls() []string {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	calls := n.calls
	n.calls = nil
	return calls
}

// Restart is what a reboot of the node leaves: its disks.
func (n *Node) Restart() {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	n.resources, n.users = map[string]*resource{}, map[string][]pool.Holder{}
	n.c.settle()
}

// Run implements command.Runner.
func (n *Node) Run(ctx context.Context, cmd command.Command) (command.Result, error) {
	if err := ctx.Err(); err != nil {
		return command.Result{}, &command.Error{Kind: command.NotStarted, Program: cmd.Program, Code: -1, Err: err}
	}
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	line := cmd.Program + " " + strings.Join(cmd.Args, " ")
	if !reads(cmd) {
		n.calls = append(n.calls, line)
	}
	var out, errText string
	var code int
	if answer := n.answers[line]; answer != nil {
		out, errText, code = answer()
	} else {
		out, errText, code = n.program(cmd.Program, cmd.Args)
		n.c.settle()
	}
	res := command.Result{Stdout: []byte(out), Stderr: []byte(errText)}
	if code != 0 {
		return res, &command.Error{Kind: command.Exited, Program: cmd.Program, Args: cmd.Shown(), Code: code, Stderr: strings.TrimSpace(errText)}
	}
	return res, nil
}

// reads tells whether a command only looks.
func reads(c command.Command) bool {
	for _, look := range []string{"status", "show", "get-gi", "--dry-run", "--config-to-test"} {
		if slices.Contains(c.Args, look) {
			return true
		}
	}
	return false
}

func (n *Node) program(program string, args []string) (stdout, stderr string, code int) {
	switch program {
	case "drbdadm":
		return n.drbdadm(args)
	case "drbdsetup":
		return n.drbdsetup(args)
	case "drbdmeta":
		return n.drbdmeta(args)
	}
	return "", "", 0 // sh: a guard that does nothing
}

// diskOf returns the disk that is attached to a volume; nil without one.
func (n *Node) diskOf(resource string, volume int) *disk {
	r := n.resources[resource]
	if r == nil || r.devices[volume] == nil || r.devices[volume].disk == "" {
		return nil
	}
	return n.disks[r.devices[volume].disk]
}

func (n *Node) primary(r *resource) bool {
	if r.explicit {
		return true
	}
	for _, v := range r.devices {
		if len(n.users["/dev/drbd"+strconv.Itoa(v.minor)]) > 0 {
			return true
		}
	}
	return false
}

// connected tells whether two nodes are connected by a resource.
func (c *Cluster) connected(n *Node, p *peer, name string) (*Node, *resource) {
	for _, other := range c.nodes {
		r := other.resources[name]
		if other == n || r == nil || r.nodeID != p.id || c.cut[n.Name+other.Name] || !p.started {
			continue
		}
		back := r.peers[n.resources[name].nodeID]
		if back != nil && back.started && back.local == p.remote && back.remote == p.local &&
			back.net["shared-secret"] == p.net["shared-secret"] {
			return other, r
		}
	}
	return nil, nil
}

// reach returns the nodes that hear of a write: this one and all that are connected to it.
func (c *Cluster) reach(n *Node, r *resource) []*Node {
	nodes := []*Node{n}
	for _, p := range r.peers {
		if other, _ := c.connected(n, p, r.name); other != nil {
			nodes = append(nodes, other)
		}
	}
	return nodes
}

// settle does what happens by itself: connections are refused or bring data and sizes into line.
func (c *Cluster) settle() {
	for _, name := range slices.Sorted(maps.Keys(c.nodes)) {
		n := c.nodes[name]
		for _, r := range n.resources {
			for _, p := range r.peers {
				if other, or := c.connected(n, p, r.name); other != nil {
					c.handshake(n, r, p, other, or)
				}
			}
		}
	}
}

func (c *Cluster) handshake(n *Node, r *resource, p *peer, other *Node, or *resource) {
	for volume := range r.devices {
		a, b := n.diskOf(r.name, volume), other.diskOf(r.name, volume)
		if a == nil || b == nil {
			continue
		}
		switch {
		case a.generation == untouched && b.generation != untouched:
			a.generation = b.generation
		case b.generation == untouched && a.generation != untouched:
			b.generation = a.generation
		case a.generation != b.generation:
			p.started, or.peers[r.nodeID].started = false, false // Data that went two ways.
			return
		}
		least := min(a.device, b.device)
		a.device, b.device = least, least
	}
}

// usable is what a disk leaves to users, in KiB.
func (d *disk) usable() int64 { return metadata.Usable(d.size, d.room) >> 10 }
