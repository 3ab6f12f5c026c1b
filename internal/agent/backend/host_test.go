// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package backend_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/agent/backend"
	"github.com/holdfast-storage/holdfast/internal/agent/device"
	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/command"
)

// part is a disk or a partition of a simulated host.
type part struct {
	Kind   string // of the signature on it
	Label  string
	UUID   string // of the physical volume
	Table  string
	Types  []string // of its partitions
	Parts  []*part
	Mount  string
	Holder string // a process that has it open
	small  bool
}

type group struct {
	Tags string
	PVs  []string
	LVs  map[string]string
}

type zpool struct {
	Mark  string
	Disks []string
	Sets  []string
}

// host behaves as LVM, ZFS and the programs of util-linux do, on disks that are there for the test alone.
type host struct {
	mu     sync.Mutex
	Disks  map[string]*part
	Groups map[string]*group
	Zpools map[string]*zpool
	Away   map[string]*zpool // exported, or not known after a crash of the host

	calls  []string
	before func(n int, line string) error // an error: the program ends so and does nothing
	after  func(n int, line string) error // likewise, and has done all of it
}

func newHost(disks ...string) *host {
	h := &host{Disks: map[string]*part{}, Groups: map[string]*group{}, Zpools: map[string]*zpool{}, Away: map[string]*zpool{}}
	for _, d := range disks {
		h.Disks["/dev/"+d] = &part{}
	}
	return h
}

// state is all that is on the host, to compare.
func (h *host) state() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	text, err := json.MarshalIndent(h, "", " ")
	if err != nil {
		panic(err)
	}
	return string(text)
}

func (h *host) service(dir string) *backend.Service {
	return backend.New(backend.Config{
		Finder: &device.Finder{Run: command.RunnerFunc(h.run), Claim: h.claim, Holders: h.holders},
		LVM:    programs{h}, ZFS: programs{h}, Dir: dir,
	})
}

// dieAfter has no program run any more, as for an agent that was killed, once one was run whose line begins so.
func (h *host) dieAfter(start string) {
	dead := false
	h.before = func(int, string) error {
		if dead {
			return errCrash
		}
		return nil
	}
	h.after = func(_ int, line string) error {
		if dead = dead || strings.HasPrefix(line, start); dead {
			return errCrash
		}
		return nil
	}
}

type programs struct{ h *host }

func (p programs) Run(ctx context.Context, _, program string, args ...string) (command.Result, error) {
	return p.h.run(ctx, command.Command{Program: program, Args: args})
}

func (h *host) claim(path string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.used(path) {
		return errors.New("device or resource busy")
	}
	return nil
}

// used tells whether the kernel uses a disk, or a part of it.
func (h *host) used(path string) bool {
	at := h.at(path)
	if at == nil {
		return false
	}
	for _, z := range h.Zpools {
		if slices.ContainsFunc(z.Disks, func(d string) bool { return strings.HasPrefix(path, d) }) {
			return true
		}
	}
	for _, g := range h.Groups {
		if slices.Contains(g.PVs, path) && len(g.LVs) > 0 {
			return true
		}
	}
	return at.Mount != ""
}

func (h *host) holders(_ context.Context, path string) ([]pool.Holder, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p := h.at(path); p != nil && p.Holder != "" {
		return []pool.Holder{{Kind: pool.Stacked, Name: p.Holder}}, nil
	}
	return nil, nil
}

// at returns what a path of a disk or partition is of.
func (h *host) at(path string) *part {
	if d := h.Disks[path]; d != nil {
		return d
	}
	for name, d := range h.Disks {
		for i, p := range d.Parts {
			if path == fmt.Sprint(name, i+1) {
				return p
			}
		}
	}
	return nil
}

func fails(c command.Command, code int, said string) error {
	return &command.Error{Kind: command.Exited, Program: c.Program, Args: c.Args, Code: code, Stderr: said}
}

func (h *host) run(ctx context.Context, c command.Command) (command.Result, error) {
	if err := ctx.Err(); err != nil {
		return command.Result{}, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	line := c.Program + " " + strings.Join(c.Args, " ")
	h.calls = append(h.calls, line)
	n := len(h.calls)
	if h.before != nil {
		if err := h.before(n, line); err != nil {
			return command.Result{}, err
		}
	}
	out, err := h.do(c)
	if err == nil && h.after != nil {
		err = h.after(n, line)
	}
	return command.Result{Stdout: []byte(out)}, err
}

func (h *host) do(c command.Command) (string, error) {
	name := c.Program
	if name == "lvm" || name == "zpool" || name == "zfs" {
		name += " " + c.Args[0]
	}
	last := c.Args[len(c.Args)-1]
	switch name {
	case "udevadm":
		return "", nil
	case "lsblk":
		return h.lsblk(strings.HasPrefix(option(c, "--output"), "NAME,")), nil
	case "blkid":
		return h.blkid(c, last)
	case "wipefs":
		return "", h.wipefs(c, last)
	case "lvm pvs":
		return h.pvs(), nil
	case "lvm lvs":
		return h.lvs(c, last)
	case "pvcreate", "vgcreate", "lvcreate", "vgremove", "pvremove":
		return "", h.lvm(c, last)
	case "zfs get":
		if z := h.Zpools[last]; z != nil {
			return z.Mark + "\n", nil
		}
		return "", fails(c, 1, "cannot open '"+last+"': dataset does not exist")
	case "zfs list":
		return strings.Join(append([]string{last}, h.Zpools[last].Sets...), "\n"), nil
	case "zpool list":
		out := last + "\t1G\n"
		for _, d := range h.Zpools[last].Disks {
			out += "\t" + d + "1\t1G\n"
		}
		return out, nil
	case "zpool create", "zpool destroy", "zpool import", "zpool export", "zpool labelclear":
		return "", h.zpool(c, last)
	}
	return "", fmt.Errorf("%s is not known here", name)
}

// lsblk lists partitions below their disks in a tree alone, and otherwise beside them.
func (h *host) lsblk(tree bool) string {
	type row map[string]any
	var all []row
	for _, path := range slices.Sorted(maps.Keys(h.Disks)) {
		d := h.Disks[path]
		size := int64(2 << 30)
		if d.small {
			size = 1 << 20
		}
		r := row{"path": path, "kname": path[5:], "type": "disk", "size": size, "serial": "S" + path, "fstype": d.Kind, "pttype": d.Table, "mountpoint": d.Mount}
		var children []row
		for i, p := range d.Parts {
			name := fmt.Sprint(path, i+1)
			children = append(children, row{"path": name, "kname": name[5:], "type": "part", "size": size / 2, "fstype": p.Kind, "parttype": d.Types[i]})
		}
		if tree {
			r["children"] = children
			children = nil
		}
		all = append(append(all, r), children...)
	}
	text, err := json.Marshal(row{"blockdevices": all})
	if err != nil {
		panic(err)
	}
	return string(text)
}

func (h *host) blkid(c command.Command, path string) (string, error) {
	p := h.at(path)
	entry := ""
	if h.Disks[path] == nil && p != nil { // Of a partition, it tells what the table says.
		entry = " PART_ENTRY_SCHEME=\"gpt\" PART_ENTRY_NAME=\"x\" PART_ENTRY_TYPE=\"y\""
	}
	switch {
	case p == nil || p.Kind == "" && p.Table == "" && entry == "":
		return "", fails(c, 2, "")
	case p.Kind == "several":
		return "", fails(c, 8, "")
	case p.Kind != "":
		entry = fmt.Sprintf(" LABEL=%q UUID=\"1\" TYPE=%q USAGE=\"x\"", p.Label, p.Kind) + entry
	case p.Table != "":
		entry = fmt.Sprintf(" PTUUID=\"1\" PTTYPE=%q", p.Table)
	}
	return path + ":" + entry + "\n", nil
}

func (h *host) wipefs(c command.Command, path string) error {
	p := h.at(path)
	if p == nil {
		return fails(c, 1, "no such device")
	}
	if h.used(path) {
		return fails(c, 1, "device or resource busy")
	}
	*p = part{}
	return nil
}

func report(kind string, rows []map[string]string) string {
	text, err := json.Marshal(map[string]any{"report": []any{map[string]any{kind: rows}}})
	if err != nil {
		panic(err)
	}
	return string(text)
}

func (h *host) groupOf(path string) (string, *group) {
	for name, g := range h.Groups {
		if slices.Contains(g.PVs, path) {
			return name, g
		}
	}
	return "", &group{}
}

func (h *host) pvs() string {
	var rows []map[string]string
	for _, path := range slices.Sorted(maps.Keys(h.Disks)) {
		if d := h.Disks[path]; d.Kind == "LVM2_member" {
			name, g := h.groupOf(path)
			rows = append(rows, map[string]string{"pv_name": path, "pv_uuid": d.UUID, "vg_name": name, "vg_tags": g.Tags})
		}
	}
	return report("pv", rows)
}

func (h *host) lvs(c command.Command, of string) (string, error) {
	g := h.Groups[of]
	if g == nil {
		return "", fails(c, 5, "Volume group \""+of+"\" not found")
	}
	var rows []map[string]string
	for name, attr := range g.LVs {
		rows = append(rows, map[string]string{"lv_name": name, "lv_attr": attr})
	}
	return report("lv", rows), nil
}

// option returns the value of an option of a command.
func option(c command.Command, name string) string {
	if i := slices.Index(c.Args, name); i >= 0 {
		return c.Args[i+1]
	}
	return ""
}

func (h *host) lvm(c command.Command, last string) error {
	switch c.Program {
	case "pvcreate":
		d := h.Disks[last]
		if _, g := h.groupOf(last); d == nil || d.Kind != "" && d.Kind != "LVM2_member" || len(g.PVs) > 0 || d.Table != "" {
			return fails(c, 5, "cannot use "+last)
		}
		*d = part{Kind: "LVM2_member", UUID: option(c, "--uuid")}
	case "vgcreate":
		name, pvs := c.Args[2], c.Args[3:]
		for _, path := range pvs {
			if of, _ := h.groupOf(path); of != "" || h.Disks[path] == nil || h.Disks[path].Kind != "LVM2_member" {
				return fails(c, 5, "cannot use "+path)
			}
		}
		if h.Groups[name] != nil {
			return fails(c, 5, "A volume group called "+name+" already exists.")
		}
		h.Groups[name] = &group{Tags: option(c, "--addtag"), PVs: slices.Clone(pvs), LVs: map[string]string{}}
	case "lvcreate":
		name := option(c, "--name")
		maps.Copy(h.Groups[last].LVs, map[string]string{name: "twi-a-tz--", "[" + name + "_tdata]": "Twi-ao----", "[" + name + "_tmeta]": "ewi-ao----", "[lvol0_pmspare]": "ewi-------"})
	case "vgremove":
		delete(h.Groups, last)
	case "pvremove":
		if of, _ := h.groupOf(last); of != "" || h.Disks[last].Kind != "LVM2_member" {
			return fails(c, 5, "PV "+last+" is used by VG "+of)
		}
		*h.Disks[last] = part{}
	}
	return nil
}

func (h *host) zpool(c command.Command, last string) error {
	switch c.Args[0] {
	case "create":
		mark, _ := strings.CutPrefix(option(c, "-O"), "holdfast:backend=")
		name, disks := c.Args[6], c.Args[7:]
		for _, d := range disks {
			h.label(d, name)
		}
		h.Zpools[name] = &zpool{Mark: mark, Disks: slices.Clone(disks)}
	case "destroy":
		delete(h.Zpools, last) // Its labels stay.
	case "export":
		h.Away[last], h.Zpools[last] = h.Zpools[last], nil
		delete(h.Zpools, last)
	case "import":
		z := h.Away[last]
		if z == nil {
			return fails(c, 1, "cannot import '"+last+"': no such pool available")
		}
		h.Zpools[last] = z
		delete(h.Away, last)
	}
	return nil
}

// label makes a disk one that ZFS has partitioned, with a label of a zpool.
func (h *host) label(disk, name string) {
	*h.Disks[disk] = part{Table: "gpt", Types: []string{"6a898cc3-1dd2-11b2-99a6-080020736631", "6a945a3b-1dd2-11b2-99a6-080020736631"}, Parts: []*part{{}, {}}}
	if name != "" {
		*h.Disks[disk].Parts[0] = part{Kind: "zfs_member", Label: name}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
