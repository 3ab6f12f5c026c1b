// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/agent/device"
	"github.com/holdfast-storage/holdfast/internal/command"
	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
)

// Programs runs programs of LVM or ZFS that are about one group or zpool. It takes care of how many run at once. A program that
// has begun runs to its end, whatever becomes of ctx.
type Programs interface {
	Run(ctx context.Context, of, program string, args ...string) (command.Result, error)
}

// Config is what a Service works with. All but Dir and Unsupported are required.
type Config struct {
	Finder      *device.Finder
	LVM, ZFS    Programs
	Dir         string                    // where makings are written down; empty: nowhere, and a crash leaves what was made
	Unsupported map[model.Provider]string // what this host cannot make, with the reasons
}

// Service lists the free devices of this host and makes backends of them.
type Service struct {
	c Config

	mu     sync.Mutex
	claims map[string]string // by what is claimed: for which backend
}

// New returns the Service of a host.
func New(c Config) *Service { return &Service{c: c, claims: map[string]string{}} }

// List returns the free devices.
func (s *Service) List(ctx context.Context) ([]*agentpb.Device, error) {
	free, err := s.c.Finder.Free(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]*agentpb.Device, len(free))
	for i, d := range free {
		list[i] = &agentpb.Device{
			Path: d.Path, Size: d.Size, Rotational: d.Rotational, Model: d.Model, Serial: d.Serial, Wwn: d.WWN,
		}
	}
	return list, nil
}

// maker makes backends of a kind.
type maker interface {
	// exists tells whether the backend of a spec is there, as it would be made. One of another kind, of other devices or of others is
	// an error.
	exists(ctx context.Context, w spec) (bool, error)

	// make makes the backend that a record is of.
	make(ctx context.Context, r record) error

	// undo removes what was made of a record. It may be called again, and when nothing was made.
	undo(ctx context.Context, r record) error
}

func (s *Service) maker(p model.Provider) maker {
	if p == model.LVM || p == model.LVMThin {
		return groups{s.c.Finder, s.c.LVM}
	}
	return zpools{s.c.Finder, s.c.ZFS}
}

// CreateBackend makes a volume group, a thin pool or a zpool. Errors are *errs.Error where it refuses: Invalid, Unsupported, Exists
// when there is another one of that name, InUse when a device is not free or another call has it. After an error nothing is left, or the
// error says what.
func (s *Service) CreateBackend(ctx context.Context, b *agentpb.CreateBackend) error {
	w, err := parse(b)
	if err != nil {
		return err
	}
	if why, lacking := s.c.Unsupported[w.Provider]; lacking {
		return errs.New(errs.Unsupported, errs.Node, "%s cannot be made on this host", w.Name).Because("%s", why)
	}
	release, err := s.claim(w, nil)
	if err != nil {
		return err
	}
	defer release()
	if err := s.undoEarlier(ctx, w); err != nil {
		return fmt.Errorf("undo what an earlier call has left: %w", err)
	}
	m := s.maker(w.Provider)
	there, err := m.exists(ctx, w)
	if err != nil || there {
		return err
	}
	return s.make(ctx, m, w)
}

// undoLimit is how long the undoing of a making may take.
const undoLimit = 2 * time.Minute

func (s *Service) make(ctx context.Context, m maker, w spec) error {
	found, err := s.c.Finder.Check(ctx, w.Devices)
	if err != nil {
		return err
	}
	r := newRecord(w, found)
	if err := s.write(r); err != nil {
		return fmt.Errorf("write down that %s is being made: %w", w.Name, err)
	}
	err = m.make(ctx, r)
	if err == nil {
		if err = s.erase(r); err == nil {
			return nil
		}
		err = fmt.Errorf("write down that %s was made: %w", w.Name, err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoLimit)
	defer cancel()
	undone := m.undo(ctx, r)
	if undone == nil {
		undone = s.erase(r)
	}
	if undone != nil {
		return fmt.Errorf("%w; and not all that was made is gone again, which is tried at the next start of the agent: %w", lacking(err), undone)
	}
	return lacking(err)
}

// lacking says what to do when a program is not there.
func lacking(err error) error {
	e, ok := errors.AsType[*command.Error](err)
	if !ok || e.Kind != command.NotInstalled {
		return err
	}
	return errs.New(errs.Unsupported, errs.Node, "the program %s is not installed", e.Program).Fix("look at holdfast doctor on the host").Wrap(err)
}

// claim notes that a name and devices are being worked with, until release is called. What is in held, the caller has claimed already.
func (s *Service) claim(w spec, held []string) (release func(), err error) {
	keys, names := w.keys()
	for i, key := range keys {
		if j := slices.Index(keys[:i], key); j >= 0 {
			return nil, errs.New(errs.Invalid, errs.Node, "%s and %s are the same", names[j], names[i])
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, key := range keys {
		if of, ok := s.claims[key]; ok && !slices.Contains(held, key) {
			return nil, errs.New(errs.InUse, errs.Node, "%s is not free", names[i]).
				Because("another call is just making %s", of).Fix("wait for its end")
		}
	}
	keys = slices.DeleteFunc(keys, func(key string) bool { return slices.Contains(held, key) })
	for _, key := range keys {
		s.claims[key] = w.Name
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, key := range keys {
			delete(s.claims, key)
		}
	}, nil
}

// Recover undoes what makings have left that a crash has ended. What cannot be undone is named in the error, and tried again before
// the next making.
func (s *Service) Recover(ctx context.Context) error {
	records, err := s.records()
	failed := []error{err}
	for _, r := range records {
		failed = append(failed, s.recover(ctx, r, nil))
	}
	return errors.Join(failed...)
}

// undoEarlier undoes what was left of earlier makings before another one, whose name and devices are claimed. What is left of
// those of other names keeps nobody from it.
func (s *Service) undoEarlier(ctx context.Context, w spec) error {
	records, _ := s.records() // What cannot be read is told by Recover.
	held, _ := w.keys()
	for _, r := range records {
		if err := s.recover(ctx, r, held); err != nil && r.file() == w.file() {
			return err
		}
	}
	return nil
}

// recover undoes a making, unless it goes on.
func (s *Service) recover(ctx context.Context, r record, held []string) error {
	release, err := s.claim(r.spec(), held)
	if err != nil {
		return nil //nolint:nilerr // Who works with it sees to it.
	}
	defer release()
	if going, err := s.going(r); err != nil || !going {
		return err // It has ended well since it was read.
	}
	if err := s.maker(r.Provider).undo(ctx, r); err != nil {
		return err
	}
	return s.erase(r)
}

// spec is a backend that is asked for.
type spec struct {
	Provider model.Provider
	Name     string // of the group, of the thin pool as group/pool, of the zpool
	Devices  []string
}

// group is the volume group or the zpool.
func (w spec) group() string {
	group, _, _ := strings.Cut(w.Name, "/")
	return group
}

// thin is the thin pool, or empty.
func (w spec) thin() string {
	_, thin, _ := strings.Cut(w.Name, "/")
	return thin
}

// keys are what is claimed for it, and what people call each.
func (w spec) keys() (keys, names []string) {
	for _, d := range w.Devices {
		keys, names = append(keys, device.Resolve(d)), append(names, "device "+d)
	}
	return append(keys, w.file()), append(names, w.Name)
}

// file is the name of the file that a making is written down in. It is also what is claimed of its name.
func (w spec) file() string {
	kind := "zpool"
	if w.Provider == model.LVM || w.Provider == model.LVMThin {
		kind = "group"
	}
	return kind + "." + w.group() + ".json"
}

// parse reads what is asked for. The controller has looked at all of it, and may be of another version.
func parse(b *agentpb.CreateBackend) (spec, error) {
	w := spec{Provider: model.Provider(b.GetProvider()), Name: b.GetName(), Devices: b.GetDevices()}
	if !slices.Contains([]model.Provider{model.LVM, model.LVMThin, model.ZFS, model.ZFSThin}, w.Provider) {
		return w, errs.New(errs.Unsupported, errs.Node, "nothing can be made for the provider %s", w.Provider)
	}
	if err := model.CheckBackend(w.Provider, w.Name); err != nil {
		return w, err
	}
	if l := b.GetRaidLevel(); l != "" && l != "JBOD" {
		return w, errs.New(errs.Invalid, errs.Node, "the RAID level %q is not possible", l).Fix("use JBOD")
	}
	if len(w.Devices) == 0 {
		return w, errs.New(errs.Invalid, errs.Node, "no devices are named to make %s of", w.Name)
	}
	for _, d := range w.Devices {
		if !device.WellNamed(d) {
			return w, errs.New(errs.Invalid, errs.Node, "%q is no path of a device", d)
		}
	}
	return w, nil
}
