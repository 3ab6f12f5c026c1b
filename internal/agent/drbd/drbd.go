// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package drbd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent/drbd/config"
	"github.com/holdfast-storage/holdfast/internal/agent/drbd/kernel"
	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/command"
)

// Users says who uses a block device; package inuse knows. An error means that it could not be learned, and then the device counts as used.
type Users func(ctx context.Context, device string) ([]pool.Holder, error)

// Settings are what a DRBD needs of its host.
type Settings struct {
	Runner command.Runner
	Users  Users
	Folder string           // Of the configuration files. Empty: config.DefaultFolder.
	Notes  string           // Folder of the notes of suspensions, which must not outlive the boot. Empty: DefaultNotes.
	Now    func() time.Time // Nil: time.Now.
}

// DRBD sets up resources of this host. It implements stack.Layer. Its methods may be called by many goroutines at once, those for one resource
// one after the other.
type DRBD struct {
	settings Settings
	folder   config.Folder

	mu     sync.Mutex
	memory map[string]*memory
}

// memory is what is remembered of a resource, to spare work. All of it may be lost.
type memory struct {
	settled   string               // Where a dry run found nothing to do: the file and how the kernel was set up.
	forgotten map[int]bool         // Retired peers that were forgotten.
	attempts  map[string]time.Time // When an attempt that had no effect may be made again.
	delays    map[string]time.Duration
	connected time.Time // Until when peers are awaited that were told to connect.
}

// New returns a DRBD of this host.
func New(s Settings) *DRBD {
	if s.Now == nil {
		s.Now = time.Now
	}
	if s.Notes == "" {
		s.Notes = DefaultNotes
	}
	return &DRBD{settings: s, folder: config.Folder{Path: s.Folder, Runner: s.Runner}, memory: map[string]*memory{}}
}

func (d *DRBD) recall(resource string, f func(*memory)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	m := d.memory[resource]
	if m == nil {
		m = &memory{forgotten: map[int]bool{}, attempts: map[string]time.Time{}, delays: map[string]time.Duration{}}
		d.memory[resource] = m
	}
	f(m)
}

// The first and the longest rest of an attempt that had no effect.
const (
	firstRest   = 10 * time.Second
	longestRest = 5 * time.Minute
)

// attempt notes that something is tried whose effect depends on others, and makes it rest after that, each time longer.
func (d *DRBD) attempt(resource, what string) {
	d.recall(resource, func(m *memory) {
		m.delays[what] = min(longestRest, max(firstRest, 2*m.delays[what]))
		m.attempts[what] = d.settings.Now().Add(m.delays[what])
	})
}

// run runs a program about a resource.
func (d *DRBD) run(ctx context.Context, resource, what, program string, args ...string) ([]byte, error) {
	res, err := d.settings.Runner.Run(ctx, command.Command{Program: program, Args: args})
	if err != nil {
		return res.Stdout, kernelError(resource, what, err)
	}
	return res.Stdout, nil
}

// Observe implements stack.Layer.
func (d *DRBD) Observe(ctx context.Context, w Want) (Have, error) {
	var h Have
	var err error
	if h.State, err = d.state(ctx, w.Name); err != nil {
		return Have{}, err
	}
	text, err := d.folder.Read(w.Name)
	if err != nil {
		return Have{}, err
	}
	h.File = text != nil
	if w.down() {
		return h, nil
	}
	wanted, err := config.Format(w.file())
	if err != nil {
		return Have{}, err
	}
	h.Current = string(text) == string(wanted)
	d.recall(w.Name, func(m *memory) { h.remember(&w, m, d.settings.Now()) })
	if h.Current {
		if h.Adjust, err = d.pending(ctx, &w, &h, string(text)); err != nil {
			return Have{}, err
		}
	}
	if h.State == nil {
		return h, nil
	}
	if err := d.observeVolumes(ctx, &w, &h); err != nil {
		return Have{}, err
	}
	return h, nil
}

// remember takes over what is still true of the memory.
func (h *Have) remember(w *Want, m *memory, now time.Time) {
	for _, p := range w.Peers {
		delete(m.forgotten, p.NodeID) // The id belongs to someone again.
	}
	if h.State == nil {
		clear(m.forgotten)
		clear(m.attempts)
		clear(m.delays)
	}
	h.Forgotten, h.Resting = maps.Clone(m.forgotten), map[string]bool{}
	h.Connecting = now.Before(m.connected)
	for what, until := range m.attempts {
		if now.Before(until) {
			h.Resting[what] = true
		}
	}
}

// introduction is how long peers are awaited after they were told to connect. Until then what is written here is missing there, and without quorum the other way round, too.
const introduction = 10 * time.Second

// state asks the kernel for a resource; nil when it does not run.
func (d *DRBD) state(ctx context.Context, resource string) (*kernel.Resource, error) {
	what := "look at resource " + resource
	res, err := d.settings.Runner.Run(ctx, command.Command{Program: "drbdsetup", Args: []string{"status", resource, "--json"}})
	var failed *command.Error
	if errors.As(err, &failed) && failed.Kind == command.Exited && failed.Code == exitNoSuch && strings.Contains(failed.Stderr, "No such resource") {
		return nil, nil //nolint:nilnil // Both are part of the answer.
	}
	if failed != nil && strings.Contains(failed.Stderr, "unrecognized option") {
		return nil, fmt.Errorf("%s: %w", what, errOld)
	}
	if err != nil {
		return nil, kernelError(resource, what, err)
	}
	list, err := kernel.ParseStatus(res.Stdout)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	for i := range list {
		if list[i].Name == resource {
			return &list[i], nil
		}
	}
	return nil, nil //nolint:nilnil // As above.
}

// errOld says that the kernel's module is the one of Linux itself.
var errOld = errors.New("the DRBD of this host's kernel is 8.4, and 9 is needed: install the module of LINBIT, drbd-dkms")

// pending returns what drbdadm would do. Where nothing has changed since it would do nothing, it is not asked again: that costs a process for each resource.
func (d *DRBD) pending(ctx context.Context, w *Want, h *Have, file string) ([]Command, error) {
	shape := file + setUp(h.State)
	settled := false
	d.recall(w.Name, func(m *memory) { settled = m.settled == shape })
	if settled {
		return nil, nil
	}
	commands, err := d.dryRun(ctx, w.Name)
	if err != nil {
		return nil, err
	}
	d.recall(w.Name, func(m *memory) {
		m.settled = ""
		if len(commands) == 0 {
			m.settled = shape
		}
	})
	return commands, nil
}

func (d *DRBD) dryRun(ctx context.Context, resource string) ([]Command, error) {
	what := "ask drbdadm what resource " + resource + " lacks"
	out, err := d.run(ctx, resource, what, "drbdadm", "--dry-run", "adjust", resource)
	if err != nil {
		return nil, err
	}
	commands, err := parseCommands(string(out))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return commands, nil
}

// setUp tells how a resource is set up, as far as its state shows. It leaves out what DRBD changes by itself.
func setUp(r *kernel.Resource) string {
	if r == nil {
		return "down"
	}
	var b strings.Builder
	fmt.Fprint(&b, r.NodeID)
	for _, v := range r.Devices {
		fmt.Fprint(&b, ";", v.Volume, v.Minor, v.Disk == kernel.Diskless, v.Client)
	}
	for _, c := range r.Connections {
		fmt.Fprint(&b, ";", c.PeerID, c.Name, c.State == kernel.StandAlone)
	}
	return b.String()
}

// observeVolumes looks at what only some volumes need.
func (d *DRBD) observeVolumes(ctx context.Context, w *Want, h *Have) error {
	h.Untouched = map[int]bool{}
	for _, v := range w.Volumes {
		device, ok := h.State.Device(v.Number)
		if !ok || v.Destroy || v.Disk == "" {
			continue
		}
		if v.Start != StartNone && device.Disk == kernel.Inconsistent {
			untouched, err := d.untouched(ctx, w, v)
			if err != nil {
				return err
			}
			h.Untouched[v.Number] = untouched
		}
	}
	return nil
}

// copied tells whether a peer that is connected has all data of a volume.
func copied(s *kernel.Resource, volume int) bool {
	return slices.ContainsFunc(s.Connections, func(c kernel.Connection) bool {
		p, _ := c.PeerDevice(volume)
		return c.State == kernel.Connected && p.Disk == kernel.UpToDate
	})
}

// justCreated is the data generation of metadata that never had any content.
const justCreated = "0000000000000004"

// untouched tells whether a disk never had content, by the generation of its data. Without a peer with a disk the kernel does not tell it; then nothing but this host's own
// disk is at stake, and that it is Inconsistent says that it was never used.
func (d *DRBD) untouched(ctx context.Context, w *Want, v Volume) (bool, error) {
	peers := w.diskful()
	if len(peers) == 0 {
		return true, nil
	}
	what := fmt.Sprintf("look at the data generation of volume %d of resource %s", v.Number, w.Name)
	out, err := d.run(ctx, w.Name, what, "drbdsetup", "get-gi", w.Name, strconv.Itoa(peers[0].NodeID), strconv.Itoa(v.Number))
	if err != nil {
		return false, err
	}
	generation, _, _ := strings.Cut(strings.TrimSpace(string(out)), ":")
	return generation == justCreated, nil
}

// Holders returns who uses the devices of a resource, by volume.
func (d *DRBD) Holders(ctx context.Context, r *kernel.Resource) (map[int][]pool.Holder, error) {
	all := map[int][]pool.Holder{}
	for _, v := range r.Devices {
		holders, err := d.settings.Users(ctx, v.Path())
		if err != nil {
			return nil, fmt.Errorf("who uses volume %d of resource %s: %w", v.Volume, r.Name, err)
		}
		if len(holders) > 0 {
			all[v.Volume] = holders
		}
	}
	return all, nil
}
