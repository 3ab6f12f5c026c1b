// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"cmp"
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
	pools    Pools
	runner   command.Runner
	jobs     *jobs
	patience time.Duration // How long a step waits for work that then goes on in the background.

	copyDevice     func(ctx context.Context, from, to pool.Device, progress pool.Progress) error
	growFilesystem func(ctx context.Context, d pool.Device, holders []pool.Holder) error
	stretched      stretched
}

var _ Layer[Want, have] = (*storage)(nil)

// have is what is there of a wish, in its order.
type have struct {
	volumes   []found
	snapshots []foundSnapshot
}

// found is what is there of one volume of a wish.
type found struct {
	driver  pool.Driver
	source  pool.Driver // Of the pool that its source lies in; nil when it has none, or does not need it any more.
	loan    bool        // There is a NEW volume of its name in that pool, when it is another one.
	exists  bool
	volume  pool.Volume   // Zero when it does not exist.
	holders []pool.Holder // Nobody when the pool cannot tell; it then refuses by itself to take down what is used.
	unknown error         // Why holders could not be learned. A volume that is to go has none: that is an error of Observe.
	job     progress      // The work on it in the background.
}

// driver returns the driver of a pool, or of what lies encrypted in it.
func (s *storage) driver(name, provider string, encrypted bool) (pool.Driver, error) {
	if !encrypted {
		return s.pools.Driver(name, provider)
	}
	e, ok := s.pools.(Encrypter)
	if !ok {
		return nil, &UnsupportedError{Pool: name, What: "have encrypted volumes"}
	}
	return e.Encrypted(name, provider)
}

// finished tells whether there is a volume that can be used.
func (f found) finished() bool { return f.exists && !f.volume.New && !f.volume.Lost }

// Observe implements Layer.
func (s *storage) Observe(ctx context.Context, w Want) (have, error) {
	var h have
	lists := map[string]map[pool.ID]pool.Volume{}
	for _, v := range w.Volumes {
		state, err := s.observe(ctx, w, v, lists)
		if err != nil {
			return have{}, fmt.Errorf("look at volume %d of %s in pool %s: %w", v.Number, w.Resource, v.Pool, err)
		}
		if !state.mounted() {
			s.stretched.forget(volumeKey(v.Pool, w.id(v)))
		}
		h.volumes = append(h.volumes, state)
	}
	var err error
	h.snapshots, err = s.observeSnapshots(ctx, w)
	return h, err
}

// observe looks at one volume. A pool that can only list is listed once for all volumes of the replica.
func (s *storage) observe(ctx context.Context, w Want, v VolumeWant, lists map[string]map[pool.ID]pool.Volume) (found, error) {
	id := w.id(v)
	if err := id.Validate(); err != nil {
		return found{}, err
	}
	driver, err := s.driver(v.Pool, v.Provider, v.Encrypted)
	if err != nil {
		return found{}, err
	}
	// Before the volume: work that has ended meanwhile then only seems to go on.
	state := found{driver: driver, job: s.jobs.look(volumeKey(v.Pool, id))}
	state.job.work.Volume = v.Number
	if finder, ok := driver.(pool.Finder); ok {
		state.volume, state.exists, err = finder.Find(ctx, id)
	} else {
		if lists[v.Pool] == nil {
			lists[v.Pool], err = list(ctx, driver)
		}
		state.volume, state.exists = lists[v.Pool][id.Fold()]
	}
	if err == nil && v.Source != nil && (w.Destroy || v.Destroy || !state.finished()) {
		err = s.observeSource(ctx, id, v, &state)
	}
	if err != nil || !state.exists {
		return state, err
	}
	if w.Destroy || v.Destroy {
		if w.going() > 1 { // One alone is refused by its driver before anything was touched.
			state.holders, err = holders(ctx, driver, id, true)
		}
		return state, err
	}
	if state.volume.Device.Path != "" && !isMade(ctx, id) {
		state.holders, state.unknown = holders(ctx, driver, id, false)
	}
	return state, nil
}

// observeSource looks for what a volume is made from.
func (s *storage) observeSource(ctx context.Context, id pool.ID, v VolumeWant, state *found) error {
	state.source = state.driver
	if !v.elsewhere() {
		return nil
	}
	var err error
	if state.source, err = s.driver(v.Source.Pool, v.Source.Provider, v.Encrypted); err != nil {
		return err
	}
	loan, ok, err := pool.Find(ctx, state.source, id)
	state.loan = ok && loan.New
	return err
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
	look := func(ctx context.Context) ([]pool.Holder, error) { return lister.Holders(ctx, id) }
	if !patient {
		return look(ctx)
	}
	return pool.Lasting(ctx, look)
}

// plan is the steps of a plan, in the order in which they are done.
type plan struct {
	cancelling []Step
	dropping   []Step // Snapshots that are to go, first: they make room.
	making     []Step
	stretching []Step // Filesystems, each apart.
	closing    []Step
	removing   []Step
	rolling    []Step
	taking     []Step
	refusing   []Step // Wishes that cannot be fulfilled. They are told after all else was done.
	used       []error
}

// Plan implements Layer.
func (s *storage) Plan(w Want, h have) ([]Step, error) {
	if err := w.validate(); err != nil {
		return nil, err
	}
	var out plan
	var inTheWay []error // Of roll-backs.
	for i, v := range w.Volumes {
		p := planner{s: s, id: w.id(v), want: v, have: h.volumes[i], inactive: w.Inactive, alone: w.going() == 1, out: &out}
		if w.Destroy || v.Destroy {
			p.destroy()
			continue
		}
		used, err := p.make()
		if err != nil {
			return nil, err
		}
		if used != nil {
			inTheWay = append(inTheWay, used)
		}
	}
	if len(out.used) > 0 {
		return nil, errors.Join(out.used...)
	}
	if len(inTheWay) > 0 { // All volumes are rolled back, or none.
		out.rolling = nil
		out.refusing = append(out.refusing, Step{
			What: fmt.Sprintf("roll back %s", w.Resource), Apart: true,
			Do: func(context.Context) error { return errors.Join(inTheWay...) },
		})
	}
	for i, sw := range w.Snapshots {
		s.planSnapshot(w, sw, h, h.snapshots[i], &out)
	}
	return slices.Concat(out.cancelling, out.dropping, out.making, out.stretching, out.closing, out.removing, out.rolling, out.taking, out.refusing), nil
}

// planner plans for one volume.
type planner struct {
	s    *storage
	id   pool.ID
	want VolumeWant
	have found

	inactive bool // It is to have no device.
	alone    bool // No other volume is to go.
	out      *plan
}

func (p planner) step(verb, detail string, do func(context.Context, pool.ID) error) Step {
	return Step{
		What: fmt.Sprintf("%s volume %s%s in pool %s", verb, p.id, detail, p.want.Pool),
		Do:   func(ctx context.Context) error { return do(ctx, p.id) },
	}
}

// destroy plans the end of a volume.
func (p planner) destroy() {
	p.s.drop(p.have.job, "", p.out)
	if p.have.loan { // What is left of a copy that was broken off.
		p.out.removing = append(p.out.removing, p.step("drop the loan for", "", func(ctx context.Context, id pool.ID) error {
			return dropLoan(ctx, p.have.source, id)
		}))
	}
	switch {
	case !p.have.exists:
	case len(p.have.holders) > 0:
		p.out.used = append(p.out.used, &pool.InUseError{ID: p.id, Holders: p.have.holders})
	default:
		if !p.alone { // All are closed, and thereby unused, before the first one is removed.
			p.out.closing = append(p.out.closing, p.step("close", "", p.have.driver.Close))
		}
		p.out.removing = append(p.out.removing, p.step("remove", "", p.have.driver.Remove))
	}
}

// make plans what leads to a volume that can be used. It returns who is in the way of a roll-back.
func (p planner) make() (used, err error) {
	v, work := p.have.volume, p.work()
	switch {
	case v.Lost:
		return nil, &pool.LostError{Pool: p.want.Pool, ID: p.id, Device: v.Device.Path}
	case p.have.job.does(work.text):
		return nil, nil // It goes on.
	case p.want.Existing && (!p.have.exists || v.New):
		return nil, &MissingError{ID: p.id, Pool: p.want.Pool}
	}
	p.s.drop(p.have.job, work.text, p.out)
	if !p.have.finished() {
		return nil, p.create(work)
	}
	if err := p.fit(); err != nil {
		return nil, err
	}
	if work.text != "" {
		return p.rollBack(work), nil
	}
	if p.inactive {
		p.deactivate()
		return nil, nil
	}
	if v.Device.Path == "" || v.Device.Size < v.Size {
		p.out.making = append(p.out.making, p.open())
	}
	p.stretch()
	return nil, nil
}

// deactivate plans to take the device of a finished volume down, unless someone uses it.
func (p planner) deactivate() {
	switch {
	case p.have.volume.Device.Path == "":
	case len(p.have.holders) > 0:
		p.out.refusing = append(p.out.refusing, p.refuse("deactivate", "", &pool.InUseError{ID: p.id, Holders: p.have.holders}))
	default: // Its driver looks for users once more.
		p.out.closing = append(p.out.closing, p.step("close", "", p.have.driver.Close))
	}
}

// refuse is the step that says why something is not done.
func (p planner) refuse(verb, detail string, err error) Step {
	s := p.step(verb, detail, func(context.Context, pool.ID) error { return err })
	s.Apart = true
	return s
}

func (p planner) open() Step {
	return p.step("open", "", func(ctx context.Context, id pool.ID) error {
		_, err := p.have.driver.Open(ctx, id)
		return err
	})
}

// create plans to make a volume that is not there, or NEW.
func (p planner) create(work task) error {
	if p.want.Source != nil {
		if _, ok := p.have.source.(pool.Cloner); !ok {
			return &UnsupportedError{Pool: cmp.Or(p.want.Source.Pool, p.want.Pool), What: "make clones"}
		}
		p.out.rolling = append(p.out.rolling, p.s.background(work, p.have.job)) // With what else takes long. It is opened when it is there.
		return nil
	}
	d := p.have.driver
	p.out.making = append(p.out.making, p.step("create", fmt.Sprintf(" of %d bytes", p.want.Size), func(ctx context.Context, id pool.ID) error {
		return d.Create(ctx, id, p.want.Size)
	}), p.open())
	if fs := p.want.Filesystem; fs != nil {
		step, err := p.format(*fs)
		if err != nil {
			return err
		}
		p.out.making = append(p.out.making, step)
	}
	if do := p.want.Prepare; do != nil {
		p.out.making = append(p.out.making, p.step("prepare", "", func(ctx context.Context, id pool.ID) error {
			return prepare(ctx, d, id, do)
		}))
	}
	p.out.making = append(p.out.making, p.step("finish", "", func(ctx context.Context, id pool.ID) error {
		err := d.Finish(ctx, id)
		if err == nil {
			noteMade(ctx, id)
		}
		return err
	}))
	return nil
}

// fit plans to give a volume the size that is wanted.
func (p planner) fit() error {
	v := p.have.volume
	wanted, err := pool.RoundUp(p.want.Size, v.Granularity)
	switch {
	case err != nil:
		return fmt.Errorf("volume %s: %w", p.id, err)
	case wanted > v.Size:
		p.out.making = append(p.out.making, p.step("grow", fmt.Sprintf(" from %d to %d bytes", v.Size, p.want.Size), func(ctx context.Context, id pool.ID) error {
			return p.have.driver.Grow(ctx, id, p.want.Size)
		}))
	case wanted < v.Size:
		detail := fmt.Sprintf(" from %d to %d bytes", v.Size, p.want.Size)
		p.out.refusing = append(p.out.refusing, p.refuse("shrink", detail, &ShrinkError{ID: p.id, Size: v.Size, Asked: p.want.Size}))
	}
	return nil
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

// format makes a filesystem, if the volume is NEW at this very moment. Found says that it was not made just now.
func (s *storage) format(ctx context.Context, d pool.Driver, id pool.ID, found bool, m mkfs, args []string) error {
	device, err := openNew(ctx, d, id)
	if err != nil {
		return err
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
	return m.run(ctx, s.runner, args, device.Path)
}

// prepare does what is to be done on a volume before it is finished, if it is NEW at this very moment.
func prepare(ctx context.Context, d pool.Driver, id pool.ID, do Prepare) error {
	device, err := openNew(ctx, d, id)
	if err != nil {
		return err
	}
	return do(ctx, device.Path)
}

// openNew opens a volume that is NEW at this very moment.
func openNew(ctx context.Context, d pool.Driver, id pool.ID) (pool.Device, error) {
	v, ok, err := pool.Find(ctx, d, id)
	switch {
	case err != nil:
		return pool.Device{}, err
	case !ok:
		return pool.Device{}, errors.New("the volume is not there any more")
	case !v.New:
		return pool.Device{}, errors.New("the volume is finished: what lies on it is kept")
	}
	return d.Open(ctx, id)
}
