// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package file

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/freeze"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/inuse"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/turn"
)

// Granularity is what sizes of volumes are rounded up to, in bytes: a multiple of every sector size that a loop device may have.
const Granularity = 4096

// Config says which directory is which pool.
type Config struct {
	Name     string         // Of the pool.
	Node     string         // Of this host.
	Dir      string         // Absolute path without symbolic links.
	Thin     bool           // FILE_THIN; otherwise FILE.
	Inside   bool           // The working directory of this process is the pool's, whatever is at the path Dir, which is for messages alone then.
	Identity string         // The uuid that the directory is known to have. Empty: not known yet.
	Users    *inuse.Scanner // Shared by the pools of a host, to save work. Nil: one of its own.

	// Freezer freezes the filesystems that are mounted from volumes while snapshots are taken. It is shared by the pools of a host. Nil: they go on.
	Freezer *freeze.Freezer
	// StillMost is how many bytes are copied at most while a filesystem is frozen for it. Zero: DefaultStillMost.
	StillMost int64
}

// DefaultStillMost is StillMost when that is zero: what a disk copies in some seconds.
const DefaultStillMost = 2 << 30

// Pool is a directory of volumes. It implements pool.Driver and all optional abilities.
type Pool struct {
	c     Config
	users *inuse.Scanner
	turns turn.Turns // by the names of volumes
	known identity
	loops *loops
	reads reads
	still freeze.Stills // By devices.
	swept swept

	renames sync.RWMutex // Held for reading while the directory is read, and for writing while a file is renamed.
}

// New returns the driver of a directory. It touches nothing: a directory that cannot be used shows at the first call.
func New(c Config) (*Pool, error) {
	switch {
	case c.Name == "" || c.Node == "":
		return nil, errors.New("a file pool needs a name and a node")
	case !filepath.IsAbs(c.Dir) || filepath.Clean(c.Dir) != c.Dir:
		return nil, fmt.Errorf("pool %s: directory %q is not a clean absolute path", c.Name, c.Dir)
	case c.Dir == "/":
		return nil, fmt.Errorf("pool %s: the root directory cannot be a pool: name a directory of its own", c.Name)
	}
	users := c.Users
	if users == nil {
		users = &inuse.Scanner{}
	}
	c.StillMost = cmp.Or(c.StillMost, DefaultStillMost)
	return &Pool{c: c, users: users, known: identity{uuid: c.Identity}, loops: newLoops(!c.Thin)}, nil
}

// Identity returns the uuid of the pool's directory, which is made at the first use.
func (p *Pool) Identity(ctx context.Context) (string, error) {
	f, err := p.enter(ctx)
	if err != nil {
		return "", err
	}
	defer f.close()
	return f.uuid, nil
}

// Space implements pool.Driver. Free is what the file system gives to users without privileges, and in a FILE pool without what volumes need when they
// write to blocks that they share.
func (p *Pool) Space(ctx context.Context) (pool.Space, error) {
	f, err := p.enter(ctx)
	if err != nil {
		return pool.Space{}, err
	}
	defer f.close()
	return p.space(ctx, f)
}

func (p *Pool) space(ctx context.Context, f *folder) (pool.Space, error) {
	space, err := p.room(f)
	if err != nil {
		return pool.Space{}, err
	}
	promised, err := p.promised(ctx, f)
	if err != nil {
		return pool.Space{}, err
	}
	space.Free = max(0, space.Free-promised)
	return space, nil
}

// room returns what the file system says of its room.
func (p *Pool) room(f *folder) (pool.Space, error) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(f.fd(), &st); err != nil {
		return pool.Space{}, p.faulty(pool.Unreadable, "statfs", err)
	}
	if st.Flags&unix.ST_RDONLY != 0 {
		return pool.Space{}, p.faulty(pool.ReadOnly, "", nil)
	}
	unit := st.Frsize
	if unit <= 0 {
		unit = st.Bsize
	}
	return pool.Space{Total: product(st.Blocks, unit), Free: product(st.Bavail, unit)}, nil
}

// product is blocks times unit, or the largest number when that does not fit: some network file systems claim to be endless.
func product(blocks uint64, unit int64) int64 {
	if unit <= 0 {
		return 0
	}
	if blocks > math.MaxInt64/uint64(unit) {
		return math.MaxInt64
	}
	return int64(blocks) * unit
}

// Check implements pool.Checker by making and removing a small file.
func (p *Pool) Check(ctx context.Context) error {
	f, err := p.enter(ctx)
	if err != nil {
		return err
	}
	defer f.close()
	if _, err := p.room(f); err != nil {
		return err
	}
	return p.probe(f)
}
