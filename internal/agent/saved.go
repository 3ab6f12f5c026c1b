// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/encoding/protodelim"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/model"
)

// The saved file is a line of text, then two delimited Assignments: the assigned set, and the
// pools that are strays. The line names the format, the node, and the checksum of the rest.
const (
	savedName   = "assigned"
	savedBad    = "assigned.set-aside"
	savedFormat = "holdfast-assigned-1"
)

var errSaved = errors.New("it is not a whole file of assignments")

// marshalSaved writes the set of a node.
func marshalSaved(node string, set, strays *agentpb.Assignments) ([]byte, error) {
	var body bytes.Buffer
	for _, m := range []*agentpb.Assignments{set, strays} {
		if _, err := protodelim.MarshalTo(&body, m); err != nil {
			return nil, err
		}
	}
	head := fmt.Sprintf("%s %s %08x\n", savedFormat, node, checksum(body.Bytes()))
	return append([]byte(head), body.Bytes()...), nil
}

// unmarshalSaved reads what marshalSaved wrote for the same node. What was torn, changed or
// written by others or for another node is an error.
func unmarshalSaved(node string, b []byte) (set, strays *agentpb.Assignments, err error) {
	head, body, found := bytes.Cut(b, []byte("\n"))
	words := strings.Split(string(head), " ")
	if !found || len(words) != 3 || words[0] != savedFormat {
		return nil, nil, errSaved
	}
	if model.NodeName(words[1]).Key() != model.NodeName(node).Key() {
		return nil, nil, fmt.Errorf("it is of node %q", clip(words[1]))
	}
	if words[2] != fmt.Sprintf("%08x", checksum(body)) {
		return nil, nil, errSaved
	}
	r := bytes.NewReader(body)
	set, strays = &agentpb.Assignments{}, &agentpb.Assignments{}
	limit := protodelim.UnmarshalOptions{MaxSize: int64(len(body)) + 1}
	for _, m := range []*agentpb.Assignments{set, strays} {
		if err := limit.UnmarshalFrom(r, m); err != nil {
			return nil, nil, fmt.Errorf("read the saved assignments: %w", err)
		}
	}
	return set, strays, nil
}

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// loadState takes the state directory for this process and reads the saved set. A file that
// cannot be used is set aside and logged: the controller tells all of it again.
func (a *agent) loadState() (unlock func(), err error) {
	dir := a.cfg.StateDir
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the state directory: %w", err)
	}
	unlock, err = lockDir(dir)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, savedName)
	b, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		a.log.Warn("the saved assignments cannot be read; starting without", "path", path, "error", err)
	default:
		set, strays, err := unmarshalSaved(a.cfg.Node, b)
		if err != nil {
			a.setAside(path, err)
			break
		}
		a.restore(set, strays)
	}
	a.saver = newSaver(dir, a.log, a.snapshot)
	return unlock, nil
}

func (a *agent) setAside(path string, why error) {
	aside := filepath.Join(filepath.Dir(path), savedBad)
	err := os.Rename(path, aside)
	a.log.Warn("the saved assignments are set aside; starting without", "path", aside, "why", why, "rename_error", err)
}

// restore makes what was saved the assigned set, unconfirmed, and has it served.
func (a *agent) restore(set, strays *agentpb.Assignments) {
	a.mu.Lock()
	defer a.mu.Unlock()
	d := delta{first: true}
	a.set.add(set, &d)
	for _, p := range strays.GetPools() {
		a.set.strays[poolKey(p.GetName())] = p
	}
	a.wake(d)
	a.log.Info("serving the saved assignments", "resources", len(a.set.resources), "pools", len(a.set.pools))
}

// snapshot is the content of the saved file now.
func (a *agent) snapshot() ([]byte, error) {
	a.mu.Lock()
	set, strays := a.set.full(), &agentpb.Assignments{}
	for _, p := range a.set.strays {
		strays.Pools = append(strays.Pools, p)
	}
	a.mu.Unlock()
	return marshalSaved(a.cfg.Node, set, strays)
}

// lockDir takes dir for this process until unlock is called.
func lockDir(dir string) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the state directory: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock the state directory %s: %w; is another agent running on this host?", dir, err)
	}
	return func() { _ = f.Close() }, nil
}

// saver writes the assigned set to disk after it changed. It spends a small part of its time
// writing, however large the set is: many changes become one write.
type saver struct {
	dir      string
	log      *slog.Logger
	snapshot func() ([]byte, error)
	dirty    chan struct{} // holds one
}

func newSaver(dir string, log *slog.Logger, snapshot func() ([]byte, error)) *saver {
	return &saver{dir: dir, log: log, snapshot: snapshot, dirty: make(chan struct{}, 1)}
}

// changed has the set written soon.
func (s *saver) changed() {
	select {
	case s.dirty <- struct{}{}:
	default:
	}
}

// run writes until ctx ends.
func (s *saver) run(ctx context.Context) {
	const share = 20 // of the time is spent on writing: one part in so many
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.dirty:
		}
		began := time.Now()
		if err := s.write(); err != nil {
			s.log.Error("the assigned set could not be saved; it will be tried again", "error", err)
			s.changed()
			pause(ctx, time.Second)
			continue
		}
		pause(ctx, min(share*time.Since(began), 10*time.Second))
	}
}

// last writes what is not written yet. It is called after run has returned.
func (s *saver) last() {
	select {
	case <-s.dirty:
		if err := s.write(); err != nil {
			s.log.Error("the assigned set could not be saved", "error", err)
		}
	default:
	}
}

// write replaces the saved file as a whole.
func (s *saver) write() error {
	b, err := s.snapshot()
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(s.dir, savedName+".new"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err := writeSync(f, b); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), filepath.Join(s.dir, savedName)); err != nil {
		return err
	}
	return syncDir(s.dir)
}

func writeSync(f *os.File, b []byte) error {
	_, err := f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
