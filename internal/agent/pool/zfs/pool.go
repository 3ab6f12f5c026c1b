// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package zfs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"regexp"
	"strconv"
	"sync"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/inuse"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/turn"
	"github.com/holdfast-storage/holdfast/internal/command"
)

// DefaultBlock is the block size of volumes when nothing else is said, in bytes.
const DefaultBlock = 16 << 10

// Config says which dataset is which pool.
type Config struct {
	Name     string         // Of the pool.
	Dataset  string         // A zpool, or a file system in one. It must exist.
	Thin     bool           // ZFS_THIN; otherwise ZFS.
	Identity string         // The guid that the dataset is known to have. Empty: not known yet.
	Host     *Host          // Shared by the pools of a host.
	Users    *inuse.Scanner // Likewise, to save work. Nil: one of its own.
	Block    int64          // Of new volumes, in bytes: a power of two from 512 to 128 KiB. Zero: DefaultBlock.
}

// Pool is a dataset with volumes in it. It implements pool.Driver and its optional abilities but pool.Suspender: it is a
// pool.MomentTaker instead.
type Pool struct {
	c     Config
	users *inuse.Scanner
	turns turn.Turns

	mu     sync.Mutex
	guid   string          // That the dataset has had since it was first seen.
	making map[string]bool // Snapshots that clones are just being made of.
}

// admitted are the names that ZFS admits for a dataset.
var admitted = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.:-]*(/[A-Za-z0-9_.:-]+)*$`)

// maxDataset leaves room for the longest name of a snapshot in the 255 bytes that ZFS admits.
const maxDataset = 100

// New returns the driver of a dataset. It touches nothing: a dataset that cannot be used shows at the first call.
func New(c Config) (*Pool, error) {
	c.Block = cmp.Or(c.Block, DefaultBlock)
	switch {
	case c.Name == "" || c.Host == nil:
		return nil, errors.New("a ZFS pool needs a name and a host")
	case !admitted.MatchString(c.Dataset) || len(c.Dataset) > maxDataset:
		return nil, fmt.Errorf("pool %s: %q is not the name of a dataset of at most %d bytes", c.Name, c.Dataset, maxDataset)
	case c.Block < 512 || c.Block > 128<<10 || bits.OnesCount64(uint64(c.Block)) != 1:
		return nil, fmt.Errorf("pool %s: blocks of %d bytes: use a power of two from 512 to 131072", c.Name, c.Block)
	}
	users := c.Users
	if users == nil {
		users = &inuse.Scanner{}
	}
	return &Pool{c: c, users: users, guid: c.Identity, making: map[string]bool{}}, nil
}

// path is the name of a zvol or snapshot for the programs.
func (p *Pool) path(name string) string { return p.c.Dataset + "/" + name }

// look returns what ZFS says of the dataset, when it is the one that it was.
func (p *Pool) look(ctx context.Context) (Report, error) {
	if err := ctx.Err(); err != nil {
		return Report{}, err
	}
	r, err := p.c.Host.report(ctx, p.c.Dataset)
	if err != nil {
		if absent(err) {
			return Report{}, p.faulty(pool.Missing, "", nil)
		}
		return Report{}, fmt.Errorf("look at pool %s: %w", p.c.Name, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.guid == "" {
		p.guid = r.Root.GUID
	}
	if p.guid != r.Root.GUID {
		return Report{}, p.faulty(pool.WrongIdentity, fmt.Sprintf("it has the guid %s, and the pool's is %s", r.Root.GUID, p.guid), nil)
	}
	return r, nil
}

// Identity returns the guid of the dataset.
func (p *Pool) Identity(ctx context.Context) (string, error) {
	r, err := p.look(ctx)
	return r.Root.GUID, err
}

// sound refuses a dataset in which nothing new can be made.
func (p *Pool) sound(r Report) error {
	if r.Root.ReadOnly {
		return p.faulty(pool.ReadOnly, "", nil)
	}
	return nil
}

// Space implements pool.Driver.
func (p *Pool) Space(ctx context.Context) (pool.Space, error) {
	r, err := p.look(ctx)
	if err != nil {
		return pool.Space{}, err
	}
	if err := p.sound(r); err != nil {
		return pool.Space{}, err
	}
	total := r.Root.Used + r.Root.Available
	if r.Root.Quota > 0 {
		total = r.Root.Quota
	}
	return pool.Space{Total: total, Free: min(r.Root.Available, total)}, nil
}

// Check implements pool.Checker by making and destroying a snapshot of the dataset.
func (p *Pool) Check(ctx context.Context) error {
	r, err := p.look(ctx)
	if err != nil {
		return err
	}
	if err := p.sound(r); err != nil {
		return err
	}
	probe := p.c.Dataset + "@holdfast:check"
	for _, args := range [][]string{{"snapshot", probe}, {"destroy", probe}} {
		if err := p.c.Host.change(ctx, p.c.Dataset, args...); err != nil && !command.Said(err, "already exists") {
			return p.faulty(pool.Unreadable, "", err)
		}
	}
	return nil
}

// Granularity is what sizes of new volumes are rounded up to, in bytes.
func (p *Pool) Granularity() int64 { return p.c.Block }

// noSpace is the error of something that has no room, with what there is now.
func (p *Pool) noSpace(ctx context.Context, asked int64) error {
	space, err := p.Space(ctx)
	if err != nil {
		return err
	}
	return &pool.NoSpaceError{Pool: p.c.Name, Asked: asked + asked/overhead, Free: space.Free, Total: space.Total}
}

// overhead is the part of a volume that ZFS reserves on top of its size, on plain disks, for what it keeps beside the data.
const overhead = 32

func inBytes(size int64) string { return strconv.FormatInt(size, 10) }
