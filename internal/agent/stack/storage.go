// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/command"
)

// storage is the layer of volumes in pools.
type storage struct {
	pools  Pools
	runner command.Runner
}

var _ Layer[Want, []found] = (*storage)(nil)

// found is what is there of one volume of a wish.
type found struct {
	driver  pool.Driver
	exists  bool
	volume  pool.Volume   // Zero when it does not exist.
	holders []pool.Holder // Nobody when the pool cannot tell; it then refuses by itself to take down what is used.
	unknown error         // Why holders could not be learned. A volume that is to go has none: that is an error of Observe.
}

// Who only has a device open may be gone in a moment: udev and other programs look into devices. Before anything is refused for such users
// alone, they are looked for this often, with this pause in between.
const (
	passingTries = 10
	passingPause = 50 * time.Millisecond
)

// Observe implements Layer. What it returns is in the order of the wish.
func (s *storage) Observe(ctx context.Context, w Want) ([]found, error) {
	var have []found
	lists := map[string]map[pool.ID]pool.Volume{}
	for _, v := range w.Volumes {
		state, err := s.observe(ctx, w, v, lists)
		if err != nil {
			return nil, fmt.Errorf("look at volume %d of %s in pool %s: %w", v.Number, w.Resource, v.Pool, err)
		}
		have = append(have, state)
	}
	return have, nil
}

// observe looks at one volume. A pool that can only list is listed once for all volumes of the replica.
func (s *storage) observe(ctx context.Context, w Want, v VolumeWant, lists map[string]map[pool.ID]pool.Volume) (found, error) {
	id := w.id(v)
	if err := id.Validate(); err != nil {
		return found{}, err
	}
	driver, err := s.pools.Driver(v.Pool, v.Provider)
	if err != nil {
		return found{}, err
	}
	state := found{driver: driver}
	if finder, ok := driver.(pool.Finder); ok {
		state.volume, state.exists, err = finder.Find(ctx, id)
	} else {
		if lists[v.Pool] == nil {
			lists[v.Pool], err = list(ctx, driver)
		}
		state.volume, state.exists = lists[v.Pool][id.Fold()]
	}
	if err != nil || !state.exists {
		return state, err
	}
	if w.Destroy || v.Destroy {
		state.holders, err = holders(ctx, driver, id, true)
		return state, err
	}
	if state.volume.Device.Path != "" {
		state.holders, state.unknown = holders(ctx, driver, id, false)
	}
	return state, nil
}

func list(ctx context.Context, d pool.Driver) (map[pool.ID]pool.Volume, error) {
	volumes, err := d.List(ctx)
	if err != nil {
		return nil, err
	}
	byID := make(map[pool.ID]pool.Volume, len(volumes))
	for _, v := range volumes {
		byID[v.ID] = v
	}
	return byID, nil
}

// holders returns who uses a volume. If patient, it waits for those who are only passing by.
func holders(ctx context.Context, d pool.Driver, id pool.ID, patient bool) ([]pool.Holder, error) {
	lister, ok := d.(pool.HolderLister)
	if !ok {
		return nil, nil
	}
	for try := 1; ; try++ {
		users, err := lister.Holders(ctx, id)
		lasting := slices.ContainsFunc(users, func(h pool.Holder) bool { return h.Kind != pool.Opened })
		if err != nil || len(users) == 0 || lasting || !patient || try == passingTries {
			return users, err
		}
		timer := time.NewTimer(passingPause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		}
	}
}

// Plan implements Layer.
func (s *storage) Plan(w Want, h []found) ([]Step, error) {
	if err := w.validate(); err != nil {
		return nil, err
	}
	var closing, removing, making, refusing []Step
	var used []error
	for i, v := range w.Volumes {
		state := h[i]
		p := planner{s: s, id: w.id(v), want: v, have: state}
		switch {
		case !w.Destroy && !v.Destroy:
			steps, refused, err := p.make()
			if err != nil {
				return nil, err
			}
			making = append(making, steps...)
			refusing = append(refusing, refused...)
		case !state.exists:
		case len(state.holders) > 0:
			used = append(used, &pool.InUseError{ID: p.id, Holders: state.holders})
		default:
			closing = append(closing, p.step("close", "", state.driver.Close))
			removing = append(removing, p.step("remove", "", state.driver.Remove))
		}
	}
	// All or nothing: no volume is touched while one that is to go is used, and none is removed before all could be closed.
	if len(used) > 0 {
		return nil, errors.Join(used...)
	}
	return slices.Concat(making, closing, removing, refusing), nil
}

// planner plans for one volume.
type planner struct {
	s    *storage
	id   pool.ID
	want VolumeWant
	have found
}

func (p planner) step(verb, detail string, do func(context.Context, pool.ID) error) Step {
	return Step{
		What: fmt.Sprintf("%s volume %s%s in pool %s", verb, p.id, detail, p.want.Pool),
		Do:   func(ctx context.Context) error { return do(ctx, p.id) },
	}
}

// make plans what leads to a volume that can be used. Refused are wishes that cannot be fulfilled, which are told after all else was done.
func (p planner) make() (steps, refused []Step, err error) {
	d, v := p.have.driver, p.have.volume
	switch {
	case v.Lost:
		return nil, nil, &pool.LostError{Pool: p.want.Pool, ID: p.id, Device: v.Device.Path}
	case p.want.Existing && (!p.have.exists || v.New):
		return nil, nil, &MissingError{ID: p.id, Pool: p.want.Pool}
	}
	open := p.step("open", "", func(ctx context.Context, id pool.ID) error {
		_, err := d.Open(ctx, id)
		return err
	})
	if !p.have.exists || v.New {
		steps = append(steps, p.step("create", fmt.Sprintf(" of %d bytes", p.want.Size), func(ctx context.Context, id pool.ID) error {
			return d.Create(ctx, id, p.want.Size)
		}), open)
		if fs := p.want.Filesystem; fs != nil {
			step, err := p.format(*fs)
			if err != nil {
				return nil, nil, err
			}
			steps = append(steps, step)
		}
		return append(steps, p.step("finish", "", d.Finish)), nil, nil
	}
	wanted, err := pool.RoundUp(p.want.Size, v.Granularity)
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("volume %s: %w", p.id, err)
	case wanted > v.Size:
		steps = append(steps, p.step("grow", fmt.Sprintf(" from %d to %d bytes", v.Size, p.want.Size), func(ctx context.Context, id pool.ID) error {
			return d.Grow(ctx, id, p.want.Size)
		}))
	case wanted < v.Size:
		refused = append(refused, p.step("shrink", fmt.Sprintf(" from %d to %d bytes", v.Size, p.want.Size), func(context.Context, pool.ID) error {
			return &ShrinkError{ID: p.id, Size: v.Size, Asked: p.want.Size}
		}))
	}
	if v.Device.Path == "" || v.Device.Size < v.Size {
		steps = append(steps, open)
	}
	return steps, refused, nil
}

// format plans to make a filesystem on a NEW volume.
func (p planner) format(fs Filesystem) (Step, error) {
	m, err := makerOf(fs.Type)
	if err != nil {
		return Step{}, fmt.Errorf("volume %s: %w", p.id, err)
	}
	args, err := m.args(fs.MkfsParams)
	if err != nil {
		return Step{}, fmt.Errorf("volume %s: %w", p.id, err)
	}
	return Step{
		What: fmt.Sprintf("make %s on volume %s: %s %s", fs.Type, p.id, m.program, strings.Join(args, " ")),
		Do:   func(ctx context.Context) error { return p.s.format(ctx, p.have.driver, p.id, p.have.exists, m, args) },
	}, nil
}

// formatLimit bounds mkfs, which writes some gigabytes on a very large volume.
const formatLimit = 30 * time.Minute

// format makes a filesystem, if the volume is NEW at this very moment. Found says that it was not made just now.
func (s *storage) format(ctx context.Context, d pool.Driver, id pool.ID, found bool, m mkfs, args []string) error {
	v, ok, err := pool.Find(ctx, d, id)
	switch {
	case err != nil:
		return err
	case !ok:
		return errors.New("the volume is not there any more")
	case !v.New:
		return errors.New("the volume is finished: what lies on it is kept")
	}
	if found { // The mkfs of an agent that was killed may still run.
		users, err := holders(ctx, d, id, true)
		if err != nil {
			return err
		}
		if len(users) > 0 {
			return &pool.InUseError{ID: id, Holders: users}
		}
	}
	device, err := d.Open(ctx, id)
	if err != nil {
		return err
	}
	_, err = s.runner.Run(ctx, command.Command{Program: m.program, Args: append(slices.Clone(args), device.Path), Limit: formatLimit})
	if failed, ok := errors.AsType[*command.Error](err); ok && failed.Kind == command.NotInstalled {
		return fmt.Errorf("%w: install %s on this host", err, m.pack)
	}
	return err
}
