// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package hold_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/agent/hold"
	"github.com/holdfast-storage/holdfast/internal/agent/mount"
)

// world is a host in memory: what outlives the process of the agent. It checks what must hold for every mount and unmount.
type world struct {
	mu       sync.Mutex
	table    mount.Table
	next     int
	saved    map[mount.Source][]hold.Record
	uuids    map[mount.Source]string       // The markers of sources.
	devices  map[mount.Source]int          // Sources with equal numbers are one file system.
	inodes   map[mount.Source]uint64       // Of their roots. 2 when it is not set.
	readOnly map[mount.Source]bool         //
	users    map[mount.Source][]mount.User // Who has files open.
	machine  map[mount.Source]bool         // A virtual machine has a disk there.
	held     map[mount.Source]map[hold.ID]bool
	changing map[mount.Source]int // Mutations in flight.
	broken   []string             // What must hold and did not.

	gate    func(*call) bool // Which calls wait for a verdict of the test. Nil: none.
	pending []*call
	forces  []mount.Force       // Of all unmounts.
	decide  func(*call) verdict // For calls that are not gated. Nil: all do what they say.

	effects int // Of all processes.
	dieAt   int // The process dies after so many. Zero: never.
	died    chan struct{}
}

// call is a call of the driver.
type call struct {
	what   string // "mount", "unmount", "users", "probe"
	source mount.Source
	spec   mount.Spec
	force  mount.Force
	answer chan verdict
}

// verdict is what becomes of a call.
type verdict struct {
	undone bool // Nothing is done.
	err    error
}

var (
	does = verdict{}
	lies = verdict{undone: true} // It reports that it was done.
)

func fails(err error) verdict { return verdict{undone: true, err: err} }

// late does it and reports an error.
func late(err error) verdict { return verdict{err: err} }

var errDead = errors.New("the process has ended")

func newWorld() *world {
	return &world{
		table: mount.Table{{ID: 1, Target: "/", Root: "/", FSType: "ext4", Source: "/dev/sda"}}, next: 10,
		saved: map[mount.Source][]hold.Record{}, uuids: map[mount.Source]string{}, devices: map[mount.Source]int{}, inodes: map[mount.Source]uint64{}, readOnly: map[mount.Source]bool{},
		users: map[mount.Source][]mount.User{}, machine: map[mount.Source]bool{}, held: map[mount.Source]map[hold.ID]bool{}, changing: map[mount.Source]int{}, died: make(chan struct{}),
	}
}

// process is the agent's process on a world: its driver and its journal.
type process struct {
	*world

	ended chan struct{} // Nothing that it does has an effect any more.
	once  sync.Once
}

func (w *world) process() *process { return &process{world: w, ended: make(chan struct{})} }

func (p *process) end() { p.once.Do(func() { close(p.ended) }) }

func (p *process) dead() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// effect counts something that outlives the process. It is called with mu held, and returns false when the process is dead.
func (p *process) effect() bool {
	if p.dead() {
		return false
	}
	p.effects++
	if p.effects == p.dieAt {
		p.end()
		close(p.died)
	}
	return true
}

func (w *world) violated(format string, args ...any) {
	w.broken = append(w.broken, fmt.Sprintf(format, args...))
}

// violations returns what must hold and did not.
func (w *world) violations() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.broken)
}

// hold and unhold tell the world what the test believes to hold.
func (w *world) hold(s mount.Source, id hold.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held[s] == nil {
		w.held[s] = map[hold.ID]bool{}
	}
	w.held[s][id] = true
	if len(w.at(target(s))) == 0 {
		w.violated("hold %s was granted on %s, which is not mounted", id, s)
	}
}

func (w *world) unhold(s mount.Source, id hold.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.held[s], id)
}

// at returns the mounts at a place. mu is held.
func (w *world) at(target string) []mount.Entry {
	var at []mount.Entry
	for _, e := range w.table {
		if e.Target == target {
			at = append(at, e)
		}
	}
	return at
}

// mounted returns the mounts at the place of a source.
func (w *world) mounted(s mount.Source) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.at(target(s)))
}

// set changes the table as a whole: readers may still have the old one. mu is held.
func (w *world) set(t mount.Table) { w.table = t }

// put mounts something at a place. mu is held.
func (w *world) put(target, fstype, source string, device int, options string) mount.Entry {
	parent := 1
	if at := w.at(target); len(at) > 0 {
		parent = at[len(at)-1].ID
	}
	w.next++
	e := mount.Entry{
		Unique: uint64(1000 + w.next), ID: w.next, Parent: parent, Minor: device, Root: "/", Target: target, FSType: fstype, Source: source,
		Options: "rw," + options, Super: "rw", Group: "shared:1",
	}
	w.set(append(slices.Clone(w.table), e))
	return e
}

// take unmounts what is on top at a place, behind the back of everybody. mu is held.
func (w *world) take(e mount.Entry) {
	w.set(slices.DeleteFunc(slices.Clone(w.table), e.Same))
}

// lose unmounts a source behind the back of the agent.
func (w *world) lose(s mount.Source) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if at := w.at(target(s)); len(at) > 0 {
		w.take(at[len(at)-1])
	}
}

// cover mounts something else at the place of a source.
func (w *world) cover(s mount.Source) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.put(target(s), "tmpfs", "foreign", 999, "")
}

// remount has somebody else mount the source at its place.
func (w *world) remount(s mount.Source) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.put(target(s), "nfs4", s.Device(), w.device(s), "")
}

func (w *world) use(s mount.Source, users ...mount.User) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.users[s] = users
}

// device is the number of the file system of a source. mu is held.
func (w *world) device(s mount.Source) int {
	if w.devices[s] == 0 {
		w.devices[s] = 100 + len(w.devices)
	}
	return w.devices[s]
}

func target(s mount.Source) string {
	if s.Kind == mount.Existing {
		return s.Path
	}
	return "/run/pools/" + s.Key()
}

// wait has a call of the driver wait for its verdict.
func (p *process) wait(c *call) verdict {
	p.mu.Lock()
	if p.gate == nil || !p.gate(c) {
		decide := p.decide
		p.mu.Unlock()
		if p.dead() {
			return fails(errDead)
		}
		if decide != nil {
			return decide(c)
		}
		return does
	}
	c.answer = make(chan verdict, 1)
	p.pending = append(p.pending, c)
	p.mu.Unlock()
	select {
	case v := <-c.answer:
		return v
	case <-p.ended:
		p.mu.Lock()
		defer p.mu.Unlock()
		p.pending = slices.DeleteFunc(p.pending, func(o *call) bool { return o == c })
		return fails(errDead)
	}
}

// calls returns the calls that wait for a verdict, in an order that does not depend on when they came.
func (w *world) calls() []*call {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.SortedStableFunc(slices.Values(w.pending), func(a, b *call) int {
		return cmp.Or(strings.Compare(a.what, b.what), strings.Compare(a.source.Device(), b.source.Device()))
	})
}

// let gives a waiting call its verdict.
func (w *world) let(c *call, v verdict) {
	w.mu.Lock()
	w.pending = slices.DeleteFunc(w.pending, func(o *call) bool { return o == c })
	w.mu.Unlock()
	c.answer <- v
}

// open ends the gating: all that waits and all later calls do what they say.
func (w *world) open() {
	w.mu.Lock()
	w.gate = nil
	w.mu.Unlock()
	for _, c := range w.calls() {
		w.let(c, does)
	}
}

func (p *process) Table() (mount.Table, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.table, nil
}

func (p *process) Target(s mount.Source) string { return target(s) }

func (p *process) Matches(_ mount.Table, e mount.Entry, spec mount.Spec) bool {
	return e.Target == target(spec.Source) && (spec.Source.Kind == mount.Existing && (spec.Device == "" || spec.Device == e.Source) || e.Source == spec.Source.Device())
}

// change notes that a mutation is in flight, and checks that it is the only one.
func (p *process) change(s mount.Source, by int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead() {
		return
	}
	if p.changing[s] += by; p.changing[s] > 1 {
		p.violated("two changes of %s are in flight", s)
	}
}

func (p *process) Mount(_ context.Context, spec mount.Spec) (mount.Mounted, error) {
	p.change(spec.Source, 1)
	defer p.change(spec.Source, -1)
	v := p.wait(&call{what: "mount", source: spec.Source, spec: spec})
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.at(target(spec.Source))
	if v.undone {
		return mount.Mounted{Entry: mount.Entry{ID: -1}}, v.err
	}
	if uuid := p.uuids[spec.Source]; spec.Identity.UUID != "" && spec.Identity.UUID != uuid {
		return mount.Mounted{}, &mount.Error{Fault: mount.WrongIdentity, Step: "verify", Source: spec.Source.String(), Marker: [2]string{spec.Identity.UUID, uuid}}
	}
	if spec.Source.Kind == mount.Existing && len(at) == 0 {
		return mount.Mounted{}, &mount.Error{Fault: mount.NotMounted, Step: "verify", Source: spec.Source.String()}
	}
	var e mount.Entry
	if len(at) == 0 {
		if !p.effect() {
			return mount.Mounted{}, errDead
		}
		e = p.put(target(spec.Source), "nfs4", spec.Source.Device(), p.device(spec.Source), string(spec.Options))
		if p.readOnly[spec.Source] || spec.Options.ReadOnly() {
			p.table[len(p.table)-1].Super = "ro"
			e = p.table[len(p.table)-1]
		}
	} else if e = at[len(at)-1]; !p.Matches(p.table, e, spec) {
		return mount.Mounted{}, &mount.Error{Fault: mount.Taken, Step: "mount", Source: spec.Source.String(), Found: &e}
	}
	return mount.Mounted{Entry: e, Identity: p.uuids[spec.Source], Inode: cmp.Or(p.inodes[spec.Source], 2)}, v.err
}

func (p *process) Unmount(_ context.Context, s mount.Source, e mount.Entry, force mount.Force) error {
	p.change(s, 1)
	defer p.change(s, -1)
	p.unheld(s, force, "begins")
	p.mu.Lock()
	p.forces = append(p.forces, force)
	p.mu.Unlock()
	v := p.wait(&call{what: "unmount", source: s, force: force})
	if v.undone {
		return v.err
	}
	p.unheld(s, force, "is done")
	p.mu.Lock()
	defer p.mu.Unlock()
	if force == mount.Plain && len(p.users[s]) > 0 && v.err == nil {
		return &mount.Error{Fault: mount.Busy, Step: "unmount", Source: s.String(), Errno: unix.EBUSY}
	}
	if !p.effect() {
		return errDead
	}
	p.take(e)
	return v.err
}

// unheld checks that nobody holds what is being unmounted.
func (p *process) unheld(s mount.Source, force mount.Force, when string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.held[s]); n > 0 && force != mount.Detach && !p.dead() {
		p.violated("an unmount of %s %s while %d hold it", s, when, n)
	}
	if when == "begins" && force != mount.Detach && !p.dead() && (p.machine[s] || force != mount.Plain && len(p.users[s]) > 0) {
		p.violated("an unmount of %s %s under a virtual machine, or by force under %v", s, when, p.users[s])
	}
}

func (p *process) Users(_ context.Context, e mount.Entry) ([]mount.User, error) {
	p.mu.Lock()
	var s mount.Source
	for o := range p.devices {
		if target(o) == e.Target {
			s = o
		}
	}
	p.mu.Unlock()
	if v := p.wait(&call{what: "users", source: s}); v.undone {
		return nil, v.err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.users[s], nil
}

func (p *process) Probe(_ context.Context, spec mount.Spec, _ mount.Entry) error {
	return p.wait(&call{what: "probe", source: spec.Source}).err
}

func (p *process) Settle(ctx context.Context, s mount.Source) error {
	v := p.wait(&call{what: "settle", source: s})
	return errors.Join(v.err, ctx.Err())
}

func (p *process) Load() ([]hold.Saved, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []hold.Saved
	for s, records := range p.saved {
		all = append(all, hold.Saved{Source: s, Records: slices.Clone(records)})
	}
	return all, nil
}

func (p *process) Append(s mount.Source, records []hold.Record, _ bool) error {
	if v := p.wait(&call{what: "append", source: s}); v.undone {
		return v.err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range records { // Each is an effect of its own: a crash may come between two.
		if !p.effect() {
			return errDead
		}
		p.saved[s] = append(p.saved[s], r)
	}
	return nil
}

func (p *process) Rewrite(s mount.Source, records []hold.Record) error {
	if v := p.wait(&call{what: "append", source: s}); v.undone {
		return v.err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.effect() {
		return errDead
	}
	if len(records) == 0 {
		delete(p.saved, s)
	} else {
		p.saved[s] = slices.Clone(records)
	}
	return nil
}
