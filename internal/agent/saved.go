// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/model"
)

// The saved file is a line of text, and then the parts of a saved. The line names the format,
// the node, and the checksum of the rest.
const (
	savedName   = "assigned"
	savedBad    = "assigned.set-aside"
	savedFormat = "holdfast-assigned-1"
)

var errSaved = errors.New("it is not a whole file of assignments")

// saved is what an agent keeps over restarts.
type saved struct {
	set        *agentpb.Assignments // a full set
	strays     *agentpb.Assignments // pools alone
	identities *structpb.Struct     // of pools, by the keys of their names
	made       *agentpb.Assignments // resources with the numbers and pools of their volumes that were there
}

func (s *saved) parts() []proto.Message {
	return []proto.Message{s.set, s.strays, s.identities, s.made}
}

// marshal writes what an agent of a node keeps.
func (s *saved) marshal(node string) ([]byte, error) {
	var body bytes.Buffer
	for _, m := range s.parts() {
		if _, err := protodelim.MarshalTo(&body, m); err != nil {
			return nil, err
		}
	}
	head := fmt.Sprintf("%s %s %08x\n", savedFormat, node, checksum(body.Bytes()))
	return append([]byte(head), body.Bytes()...), nil
}

// unmarshalSaved reads what marshal wrote for the same node. What was torn, changed or
// written by others or for another node is an error.
func unmarshalSaved(node string, b []byte) (*saved, error) {
	head, body, found := bytes.Cut(b, []byte("\n"))
	words := strings.Split(string(head), " ")
	if !found || len(words) != 3 || words[0] != savedFormat {
		return nil, errSaved
	}
	if model.NodeName(words[1]).Key() != model.NodeName(node).Key() {
		return nil, fmt.Errorf("it is of node %q", clip(words[1]))
	}
	if words[2] != fmt.Sprintf("%08x", checksum(body)) {
		return nil, errSaved
	}
	s := &saved{
		set: &agentpb.Assignments{}, strays: &agentpb.Assignments{}, identities: &structpb.Struct{}, made: &agentpb.Assignments{},
	}
	r := bytes.NewReader(body)
	limit := protodelim.UnmarshalOptions{MaxSize: int64(len(body)) + 1}
	for _, m := range s.parts() {
		if err := limit.UnmarshalFrom(r, m); err != nil {
			return nil, fmt.Errorf("read the saved assignments: %w", err)
		}
	}
	return s, nil
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
		s, err := unmarshalSaved(a.cfg.Node, b)
		if err != nil {
			a.setAside(path, err)
			break
		}
		a.restore(s)
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
func (a *agent) restore(s *saved) {
	a.mu.Lock()
	defer a.mu.Unlock()
	d := delta{first: true}
	a.set.add(s.set, &d)
	for _, p := range s.strays.GetPools() {
		a.set.strays[poolKey(p.GetName())] = p
	}
	for k, v := range s.identities.GetFields() {
		a.set.identities[model.PoolKey(k)] = v.GetStringValue()
	}
	for _, r := range s.made.GetResources() {
		volumes := map[int32]model.PoolKey{}
		for _, v := range r.GetVolumes() {
			volumes[v.GetNumber()] = poolKey(v.GetPool())
		}
		a.set.made[resourceKey(r.GetName())] = volumes
	}
	a.wake(d)
	a.log.Info("serving the saved assignments", "resources", len(a.set.resources), "pools", len(a.set.pools))
}

// snapshot is the content of the saved file now.
func (a *agent) snapshot() ([]byte, error) {
	s := &saved{
		strays: &agentpb.Assignments{}, made: &agentpb.Assignments{},
		identities: &structpb.Struct{Fields: map[string]*structpb.Value{}},
	}
	a.mu.Lock()
	s.set = a.set.full()
	for _, p := range a.set.strays {
		s.strays.Pools = append(s.strays.Pools, p)
	}
	for k, v := range a.set.identities {
		s.identities.Fields[string(k)] = structpb.NewStringValue(v)
	}
	for k, volumes := range a.set.made {
		r := &agentpb.Resource{Name: string(k)}
		for number, in := range volumes {
			r.Volumes = append(r.Volumes, &agentpb.Volume{Number: number, Pool: string(in)})
		}
		s.made.Resources = append(s.made.Resources, r)
	}
	a.mu.Unlock()
	return s.marshal(a.cfg.Node)
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
