// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package file

import (
	"context"
	"errors"
	"sync"

	"golang.org/x/sys/unix"
)

// swept tells whether what an earlier process left behind was cleared away. The zero value says no.
type swept struct {
	mu   sync.Mutex
	done bool
}

// sweep removes, once, the copies that nobody works on any more, and lets the filesystems go on that were left frozen. It must be done before anything else: who
// waits for a frozen filesystem may be whoever is asked to let a volume go.
func (p *Pool) sweep(ctx context.Context, f *folder) error {
	p.swept.mu.Lock()
	defer p.swept.mu.Unlock()
	if p.swept.done {
		return nil
	}
	if p.c.Freezer != nil {
		if err := p.c.Freezer.Recover(ctx); err != nil {
			return err
		}
	}
	entries, err := p.read(f, func(name string) (entry, bool) {
		e, ok := parse(name)
		return e, ok && e.suffix == copySuffix
	})
	if err != nil {
		return err
	}
	for _, e := range entries {
		// What cannot be removed now, such as on a read-only file system, is only room that is lost. It is never taken for a whole copy.
		_ = abandoned(f, e)
	}
	p.swept.done = true
	return nil
}

// abandoned removes a copy unless someone has it locked.
func abandoned(f *folder, e entry) error {
	file, err := f.open(e.name(), unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return err
	}
	if err := unix.Unlinkat(f.fd(), e.name(), 0); !errors.Is(err, unix.ENOENT) {
		return err
	}
	return nil
}
