// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package freeze

import "sync"

// Stills are filesystems that stand still for several at a time, each by a key. The zero value is
// ready for use.
type Stills struct {
	mu  sync.Mutex
	all map[string]*still
}

// still is a filesystem whose writers are held back, as far as they can be.
type still struct {
	users  int           // Guarded by Stills.mu.
	ready  chan struct{} // Closed when it was tried to freeze.
	frozen *Frozen
	failed error // Why it could not be frozen.
}

// Frozen tells whether a filesystem stands still.
func (s *Stills) Frozen(key string) bool {
	st := s.get(key)
	return st != nil && st.frozen != nil
}

// Failure returns why a filesystem that should stand still does not, if so.
func (s *Stills) Failure(key string) error {
	if st := s.get(key); st != nil {
		return st.failed
	}
	return nil
}

func (s *Stills) get(key string) *still {
	s.mu.Lock()
	st := s.all[key]
	s.mu.Unlock()
	if st != nil {
		<-st.ready
	}
	return st
}

// Hold has a filesystem stand still until Release was called as often. The first one freezes it.
func (s *Stills) Hold(key string, freeze func() (*Frozen, error)) {
	s.mu.Lock()
	st := s.all[key]
	first := st == nil
	if first {
		st = &still{ready: make(chan struct{})}
		if s.all == nil {
			s.all = map[string]*still{}
		}
		s.all[key] = st
	}
	st.users++
	s.mu.Unlock()
	if first {
		st.frozen, st.failed = freeze()
		close(st.ready)
	}
	<-st.ready
}

// Release lets a filesystem go. The last one thaws it. Whether it stood still all the time is not told: who needs that
// looks what was written.
func (s *Stills) Release(key string) error {
	s.mu.Lock()
	st := s.all[key]
	st.users--
	last := st.users == 0
	if last {
		delete(s.all, key)
	}
	s.mu.Unlock()
	if !last || st.frozen == nil {
		return nil
	}
	_, err := st.frozen.Thaw()
	return err
}
