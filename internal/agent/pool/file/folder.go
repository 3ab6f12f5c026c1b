// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package file

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
)

const (
	markerName  = ".holdfast-pool"
	markerLimit = 4096 // Bytes; ours has less than 500.
)

// marker is the content of a pool's identity file.
type marker struct {
	Pool string `json:"pool"`
	Node string `json:"node"`
	UUID string `json:"uuid"`
}

// identity is the uuid that the directory is known to have, empty until it was first seen.
type identity struct {
	mu   sync.Mutex
	uuid string
}

func (i *identity) get() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.uuid
}

// settle takes the first uuid that is seen and returns the one that was taken.
func (i *identity) settle(seen string) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.uuid == "" {
		i.uuid = seen
	}
	return i.uuid
}

// folder is the pool's directory, opened for one call, with its identity verified.
type folder struct {
	dir  *os.File
	uuid string
}

func (f *folder) fd() int { return int(f.dir.Fd()) }

func (f *folder) close() { _ = f.dir.Close() }

// enter opens the directory and verifies that it is this pool's.
func (p *Pool) enter(ctx context.Context) (*folder, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	dir := p.c.Dir
	if p.c.Inside {
		dir = "."
	}
	fd, err := unix.Openat2(unix.AT_FDCWD, dir, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return nil, p.unreachable(err)
	}
	f := &folder{dir: os.NewFile(uintptr(fd), p.c.Dir)}
	if err = p.identify(f); err == nil {
		err = p.sweep(ctx, f)
	}
	if err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

// identify compares the directory's identity with what is known of it, and makes one when it never had any.
func (p *Pool) identify(f *folder) error {
	known := p.known.get()
	m, err := readMarker(f)
	if errors.Is(err, os.ErrNotExist) {
		if known != "" {
			return p.faulty(pool.LostIdentity, fmt.Sprintf("%s with uuid %s is not there", markerName, known), nil)
		}
		if m, err = p.makeMarker(f); err != nil {
			return p.unwritable("make "+markerName, err)
		}
	}
	if err != nil {
		return p.faulty(pool.Unreadable, markerName, err)
	}
	if !strings.EqualFold(m.Pool, p.c.Name) || !strings.EqualFold(m.Node, p.c.Node) {
		return p.faulty(pool.WrongIdentity, fmt.Sprintf("pool %s of node %s, uuid %s", m.Pool, m.Node, m.UUID), nil)
	}
	if known = p.known.settle(m.UUID); m.UUID != known {
		return p.faulty(pool.LostIdentity, fmt.Sprintf("uuid is %s instead of %s", m.UUID, known), nil)
	}
	f.uuid = m.UUID
	return nil
}

func readMarker(f *folder) (marker, error) {
	file, err := f.open(markerName, unix.O_RDONLY, 0)
	if err != nil {
		return marker{}, err
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, markerLimit))
	if err != nil {
		return marker{}, err
	}
	var m marker
	if err := json.Unmarshal(text, &m); err != nil {
		return marker{}, err
	}
	if m.Pool == "" || m.Node == "" || m.UUID == "" {
		return marker{}, errors.New("it lacks pool, node or uuid")
	}
	return m, nil
}

// makeMarker gives the directory an identity, or returns the one that someone else gave it at the same time. It appears whole or not at all.
func (p *Pool) makeMarker(f *folder) (marker, error) {
	m := marker{Pool: p.c.Name, Node: p.c.Node, UUID: uuid.NewString()}
	text, err := json.Marshal(m)
	if err != nil {
		return marker{}, err
	}
	draft := markerName + "-" + m.UUID
	if err := f.write(draft, append(text, '\n')); err != nil {
		return marker{}, err
	}
	err = unix.Linkat(f.fd(), draft, f.fd(), markerName, 0)
	if err := errors.Join(unix.Unlinkat(f.fd(), draft, 0), f.dir.Sync()); err != nil {
		return marker{}, err
	}
	if errors.Is(err, unix.EEXIST) {
		return readMarker(f)
	}
	return m, err
}

// write makes a new file with some content, flushed.
func (f *folder) write(name string, content []byte) error {
	file, err := f.open(name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		_ = unix.Unlinkat(f.fd(), name, 0)
	}
	return err
}

// open opens a file of the folder. Whatever its name leads to lies in the folder itself.
func (f *folder) open(name string, flags int, mode uint64) (*os.File, error) {
	fd, err := unix.Openat2(f.fd(), name, &unix.OpenHow{
		Flags:   uint64(flags) | unix.O_CLOEXEC | unix.O_NOFOLLOW,
		Mode:    mode,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
	})
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: f.dir.Name() + "/" + name, Err: err}
	}
	return os.NewFile(uintptr(fd), f.dir.Name()+"/"+name), nil
}

// probe makes and removes a small file.
func (p *Pool) probe(f *folder) error {
	name := ".holdfast-probe-" + uuid.NewString()
	if err := f.write(name, make([]byte, Granularity)); err != nil {
		return p.unwritable("make a small file", err)
	}
	if err := unix.Unlinkat(f.fd(), name, 0); err != nil {
		return p.unwritable("remove a small file", err)
	}
	return nil
}
