// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package lvm

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"sync"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/inuse"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/turn"
)

// Config says which group or thin pool is which pool.
type Config struct {
	Name     string         // Of the pool.
	Group    string         // The volume group.
	ThinPool string         // The thin pool in it, for Thin alone.
	Identity string         // The uuid that the group or thin pool is known to have. Empty: not known yet.
	Host     *Host          // Shared by the pools of a host.
	Users    *inuse.Scanner // Likewise, to save work. Nil: one of its own.

	Stripes int  // Physical volumes over which a new thick volume is spread. Zero: one.
	Wipe    Wipe // What becomes of the content of a thick volume that is removed.
	Discard bool // Tell the disks what thick volumes gave up.
}

// Wipe says what becomes of the content of a volume that is removed.
type Wipe string

// The ways to wipe.
const (
	KeepContent Wipe = ""      // It stays on the disks until something else is written there.
	ZeroContent Wipe = "zeros" // It is overwritten before the volume is removed.
)

// Pool is what thick and thin pools have in common. It implements pool.Driver, pool.Finder, pool.HolderLister and pool.Checker.
type Pool struct {
	c     Config
	users *inuse.Scanner
	turns turn.Turns

	mu     sync.Mutex
	uuid   string           // That the pool has had since it was first seen.
	extent int64            // Of the group, when it was seen last; zero before.
	taken  map[string]int64 // What volumes without a device take, by their uuids.
}

// Thick is a pool of plain logical volumes.
type Thick struct{ *Pool }

// Thin is a pool of thin volumes. It implements pool.Snapshotter, pool.Cloner and pool.RollBacker too.
type Thin struct{ *Pool }

// NewThick returns the driver of a volume group. It touches nothing: a group that cannot be used shows at the first call.
func NewThick(c Config) (*Thick, error) {
	if c.ThinPool != "" {
		return nil, fmt.Errorf("pool %s: %s/%s is a thin pool: its provider is LVM_THIN", c.Name, c.Group, c.ThinPool)
	}
	p, err := newPool(c)
	if err != nil {
		return nil, err
	}
	return &Thick{p}, nil
}

// NewThin returns the driver of a thin pool. It touches nothing.
func NewThin(c Config) (*Thin, error) {
	if !admitted.MatchString(c.ThinPool) {
		return nil, fmt.Errorf("pool %s: %q is not the name of a thin pool: give the pool's place as GROUP/THINPOOL", c.Name, c.ThinPool)
	}
	if c.Stripes > 1 {
		return nil, fmt.Errorf("pool %s: thin volumes have no stripes: make the thin pool striped", c.Name)
	}
	p, err := newPool(c)
	if err != nil {
		return nil, err
	}
	c.Host.useThinPool(c.Group, c.ThinPool)
	return &Thin{p}, nil
}

// admitted are the names that LVM admits.
var admitted = regexp.MustCompile(`^[A-Za-z0-9_+.][A-Za-z0-9_+.-]{0,126}$`)

func newPool(c Config) (*Pool, error) {
	switch {
	case c.Name == "" || c.Host == nil:
		return nil, errors.New("an LVM pool needs a name and a host")
	case !admitted.MatchString(c.Group):
		return nil, fmt.Errorf("pool %s: %q is not the name of a volume group", c.Name, c.Group)
	case c.Stripes < 0 || c.Stripes > 128:
		return nil, fmt.Errorf("pool %s: %d stripes: use 1 to 128", c.Name, c.Stripes)
	case c.Wipe != KeepContent && c.Wipe != ZeroContent:
		return nil, fmt.Errorf("pool %s: there is no way to wipe that is called %q", c.Name, c.Wipe)
	}
	users := c.Users
	if users == nil {
		users = &inuse.Scanner{}
	}
	c.Stripes = max(1, c.Stripes)
	return &Pool{c: c, users: users, uuid: c.Identity, taken: map[string]int64{}}, nil
}

func (p *Pool) thin() bool { return p.c.ThinPool != "" }

// place is what the pool lies on.
func (p *Pool) place() string {
	if p.thin() {
		return p.c.Group + "/" + p.c.ThinPool
	}
	return p.c.Group
}

// path names a logical volume for the programs.
func (p *Pool) path(name string) string { return p.c.Group + "/" + name }

// look returns what LVM says of the pool's group, when it is the group that it was.
func (p *Pool) look(ctx context.Context) (Report, error) {
	if err := ctx.Err(); err != nil {
		return Report{}, err
	}
	r, err := p.c.Host.report(ctx, p.c.Group)
	if err != nil {
		if missing(err) {
			return Report{}, p.faulty(pool.Missing, "", nil)
		}
		return Report{}, fmt.Errorf("look at pool %s: %w", p.c.Name, err)
	}
	uuid := r.Group.UUID
	if p.thin() {
		t, ok := r.Volumes[p.c.ThinPool]
		if !ok {
			return Report{}, p.faulty(pool.Missing, "", nil)
		}
		if t.Kind != 't' {
			return Report{}, p.faulty(pool.WrongIdentity, "it is no thin pool", nil)
		}
		uuid = t.UUID
	}
	if r.Group.Exported {
		return Report{}, p.faulty(pool.Missing, "the group is exported", nil)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.uuid == "" {
		p.uuid = uuid
	}
	if p.uuid != uuid {
		return Report{}, p.faulty(pool.WrongIdentity, fmt.Sprintf("it has the uuid %s, and the pool's is %s", uuid, p.uuid), nil)
	}
	p.extent = r.Group.Extent
	return r, nil
}

// Identity returns the uuid of the group or thin pool. It is looked up once: from then on, every call for the pool compares it.
func (p *Pool) Identity(ctx context.Context) (string, error) {
	p.mu.Lock()
	uuid, seen := p.uuid, p.extent != 0
	p.mu.Unlock()
	if seen {
		return uuid, nil
	}
	if _, err := p.look(ctx); err != nil {
		return "", err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.uuid, nil
}

// sound refuses a pool in which nothing new can be made.
func (p *Pool) sound(r Report) error {
	switch {
	case r.Group.Missing > 0:
		return p.faulty(pool.Incomplete, fmt.Sprintf("%d of its physical volumes are missing", r.Group.Missing), nil)
	case !r.Group.Writable:
		return p.faulty(pool.ReadOnly, "", nil)
	}
	if p.thin() {
		if health := r.Volumes[p.c.ThinPool].Health; health != "" && health != "out_of_data" {
			return p.faulty(pool.Unreadable, "the thin pool's health is "+health, nil)
		}
	}
	return nil
}

// Space implements pool.Driver. A thin pool's total is its own size, whatever the group has left.
func (p *Pool) Space(ctx context.Context) (pool.Space, error) {
	r, err := p.look(ctx)
	if err != nil {
		return pool.Space{}, err
	}
	if err := p.sound(r); err != nil {
		return pool.Space{}, err
	}
	if !p.thin() {
		return pool.Space{Total: r.Group.Size, Free: min(r.Group.Free, r.Group.Size)}, nil
	}
	fill, err := p.fill(ctx, r)
	if err != nil {
		return pool.Space{}, err
	}
	size := r.Volumes[p.c.ThinPool].Size
	return pool.Space{Total: size, Free: max(0, size-fill.bytes(size))}, nil
}

// Fill says how full a thin pool is, with its metadata.
func (p *Thin) Fill(ctx context.Context) (Fill, error) {
	r, err := p.look(ctx)
	if err != nil {
		return Fill{}, err
	}
	return p.fill(ctx, r)
}

// bytes is how much of a pool of that size is used.
func (f Fill) bytes(size int64) int64 {
	if f.Total == 0 {
		return size
	}
	return size / f.Total * f.Used
}

// fill asks the kernel how full the thin pool is, and whether it works. A pool that is not active is made so.
func (p *Pool) fill(ctx context.Context, r Report) (Fill, error) {
	device := deviceName(p.c.Group, p.c.ThinPool)
	for try := range 2 {
		_, pools, err := p.status(ctx)
		if err != nil {
			return Fill{}, err
		}
		fill, ok := pools[device+"-tpool"]
		if !ok {
			fill, ok = pools[device] // A pool that no volume was ever made in.
		}
		switch {
		case ok && (fill.Mode == "Fail" || fill.Mode == "Error"):
			return Fill{}, p.faulty(pool.Unreadable, "the kernel gave the thin pool up", nil)
		case ok && fill.Mode == "ro":
			return Fill{}, p.faulty(pool.ReadOnly, "the kernel writes no more metadata of the thin pool", nil)
		case ok && fill.NeedsCheck:
			return Fill{}, p.faulty(pool.Unreadable, "the thin pool's metadata needs a check", nil)
		case ok && fill.UsedMeta >= fill.TotalMeta:
			return Fill{}, p.faulty(pool.Full, "the thin pool's metadata is full", nil)
		case ok:
			return fill, nil
		case try == 0:
			if err := p.change(ctx, "lvchange", "-ay", p.path(p.c.ThinPool)); err != nil {
				return Fill{}, fmt.Errorf("activate the thin pool of pool %s: %w", p.c.Name, err)
			}
		}
	}
	return Fill{}, p.faulty(pool.Unreadable, "the thin pool "+r.Group.Name+"/"+p.c.ThinPool+" has no device", nil)
}

// status asks the kernel for all thin devices and pools.
func (p *Pool) status(ctx context.Context) (taken map[string]int64, pools map[string]Fill, err error) {
	res, err := p.c.Host.run(ctx, p.c.Group, "dmsetup", "status", "--noflush")
	if err != nil {
		return nil, nil, fmt.Errorf("look how full pool %s is: %w", p.c.Name, err)
	}
	if taken, pools, err = ParseStatus(string(res.Stdout)); err != nil {
		return nil, nil, fmt.Errorf("look how full pool %s is: %w", p.c.Name, err)
	}
	return taken, pools, nil
}

// Check implements pool.Checker by having LVM check the group's metadata.
func (p *Pool) Check(ctx context.Context) error {
	r, err := p.look(ctx)
	if err != nil {
		return err
	}
	if err := p.sound(r); err != nil {
		return err
	}
	if p.thin() {
		if _, err := p.fill(ctx, r); err != nil {
			return err
		}
	}
	if _, err := p.c.Host.run(ctx, p.c.Group, "vgck", p.c.Group); err != nil {
		return p.faulty(pool.Unreadable, "", err)
	}
	return nil
}

// granularity is what sizes of new volumes are rounded up to.
func (p *Pool) granularity(r Report) int64 { return r.Group.Extent * int64(p.c.Stripes) }

// Granularity is what sizes of new volumes are rounded up to, in bytes; zero as long as the group was not looked at.
func (p *Pool) Granularity() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.extent * int64(p.c.Stripes)
}

// noSpace is the error of something that has no room, with what there is now.
func (p *Pool) noSpace(ctx context.Context, asked int64) error {
	space, err := p.Space(ctx)
	if err != nil {
		return err
	}
	return &pool.NoSpaceError{Pool: p.c.Name, Asked: asked, Free: space.Free, Total: space.Total}
}

// inBytes is a size as the programs take it.
func inBytes(size int64) string { return strconv.FormatInt(size, 10) + "b" }
