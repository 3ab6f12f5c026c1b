// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package drbd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/holdfast-storage/holdfast/internal/agent/drbd/config"
	"github.com/holdfast-storage/holdfast/internal/agent/drbd/kernel"
	"github.com/holdfast-storage/holdfast/internal/agent/pool"
)

// write makes the configuration the wanted one.
func (d *DRBD) write(ctx context.Context, w *Want) error {
	text, err := config.Format(w.file())
	if err != nil {
		return err
	}
	return d.folder.Write(ctx, w.Name, text)
}

// adjust lets drbdadm bring the kernel to the file, after one more look at what it would do: the kernel may have changed since the plan.
func (d *DRBD) adjust(ctx context.Context, w *Want) error {
	commands, err := d.dryRun(ctx, w.Name)
	if err != nil {
		return err
	}
	if err := review(w, commands); err != nil {
		return err
	}
	for _, c := range commands {
		switch c.Verb {
		case "connect":
			d.attempt(w.Name, connectTo(c.number(1)))
		case "attach":
			i := slices.IndexFunc(w.Volumes, func(v Volume) bool { return v.Minor == c.number(0) })
			if i >= 0 {
				d.attempt(w.Name, attachOf(w.Volumes[i].Number))
			}
		}
	}
	_, err = d.run(ctx, w.Name, "adjust resource "+w.Name, "drbdadm", "adjust", w.Name)
	if slices.ContainsFunc(commands, func(c Command) bool { return c.Verb == "connect" }) {
		d.recall(w.Name, func(m *memory) { m.connected = d.settings.Now().Add(introduction) })
	}
	return err
}

// down takes a resource down. The kernel refuses it, whole, while anyone has a device open.
func (d *DRBD) down(ctx context.Context, w *Want) error {
	s, err := d.state(ctx, w.Name)
	if err != nil || s == nil {
		return err
	}
	if err := d.unused(ctx, s); err != nil {
		return err
	}
	// By its name alone: drbdadm takes nothing down that is in no file any more.
	_, err = d.run(ctx, w.Name, "take resource "+w.Name+" down", "drbdsetup", "down", w.Name)
	if err := inUse(w, volumeOf(s), err); err != nil {
		return err
	}
	// It says nothing about a name that it does not know, so only a look tells.
	if s, err = d.state(ctx, w.Name); err == nil && s != nil {
		err = fmt.Errorf("take resource %s down: it was done, and it still runs", w.Name)
	}
	return err
}

// unused is an error when anyone uses a device of the resource.
func (d *DRBD) unused(ctx context.Context, s *kernel.Resource) error {
	users, err := d.Holders(ctx, s)
	if err != nil {
		return err
	}
	for _, v := range s.Devices {
		if len(users[v.Volume]) > 0 {
			return &pool.InUseError{ID: pool.ID{Resource: s.Name, Volume: v.Volume}, Holders: users[v.Volume]}
		}
	}
	return nil
}

// volumeOf returns the number of the volume that has a minor; zero when none has.
func volumeOf(s *kernel.Resource) func(minor int) int {
	return func(minor int) int {
		i := slices.IndexFunc(s.Devices, func(v kernel.Device) bool { return v.Minor == minor })
		if i < 0 {
			return 0
		}
		return s.Devices[i].Volume
	}
}

// removeVolume removes a device from a resource that stays.
//
// The kernel does not protect a device that is in use from this: a mounted one makes the command, the unmount, and all that comes after it hang until the
// next boot, and one that is merely open is pulled away. So nobody may use any volume of the resource: looked up, and proven by the kernel, which
// lets a resource be Secondary only when nothing is open. It is kept from becoming Primary meanwhile.
func (d *DRBD) removeVolume(ctx context.Context, w *Want, device kernel.Device) (err error) {
	what := fmt.Sprintf("remove volume %d of resource %s", device.Volume, w.Name)
	s, err := d.state(ctx, w.Name)
	if err != nil || s == nil {
		return err
	}
	if now, ok := s.Device(device.Volume); !ok || now.Minor != device.Minor {
		return nil
	}
	if err := d.unused(ctx, s); err != nil {
		return err
	}
	if _, err := d.run(ctx, w.Name, what, "drbdsetup", "resource-options", w.Name, "--auto-promote=no"); err != nil {
		return err
	}
	defer func() {
		if err != nil { // When it went well, the adjustment that follows does it.
			err = errors.Join(err, d.allowPromotion(ctx, w))
		}
	}()
	if _, err := d.run(ctx, w.Name, what, "drbdsetup", "secondary", w.Name); err != nil {
		return inUse(w, volumeOf(s), err)
	}
	if s, err = d.state(ctx, w.Name); err != nil || s == nil {
		return err
	}
	if s.Role != kernel.Secondary {
		return fmt.Errorf("%s: it is %s although it was made %s", what, s.Role, kernel.Secondary)
	}
	if err := d.unused(ctx, s); err != nil {
		return err
	}
	minor := strconv.Itoa(device.Minor)
	if now, ok := s.Device(device.Volume); ok && (now.Disk != kernel.Diskless || !now.Client) {
		if _, err := d.run(ctx, w.Name, what, "drbdsetup", "detach", minor, "--diskless"); err != nil {
			return err
		}
	}
	_, err = d.run(ctx, w.Name, what, "drbdsetup", "del-minor", minor)
	return err
}

// allowPromotion gives the option back that the file has.
func (d *DRBD) allowPromotion(ctx context.Context, w *Want) error {
	value := w.Options["auto-promote"]
	if value == "" {
		value = "yes"
	}
	_, err := d.run(ctx, w.Name, "set resource "+w.Name+" back", "drbdsetup", "resource-options", w.Name, "--auto-promote="+value)
	return err
}

// detach gives up the disk of a volume that goes on over the network. The last copy is not given up.
func (d *DRBD) detach(ctx context.Context, w *Want, volume int) error {
	s, err := d.state(ctx, w.Name)
	if err != nil || s == nil {
		return err
	}
	device, ok := s.Device(volume)
	if !ok || device.Disk == kernel.Diskless && device.Client {
		return nil
	}
	if !copied(s, volume) && device.Disk != kernel.Diskless {
		return &LastCopyError{Resource: w.Name, Volume: volume}
	}
	what := fmt.Sprintf("detach volume %d of resource %s from its disk", volume, w.Name)
	_, err = d.run(ctx, w.Name, what, "drbdsetup", "detach", strconv.Itoa(device.Minor), "--diskless")
	return err
}

// forget removes a peer that is gone for good, and frees its place in the metadata.
func (d *DRBD) forget(ctx context.Context, w *Want, id int) error {
	what := fmt.Sprintf("forget peer %d of resource %s", id, w.Name)
	s, err := d.state(ctx, w.Name)
	if err != nil || s == nil {
		return err
	}
	if _, ok := s.Connection(id); ok {
		if _, err := d.run(ctx, w.Name, what, "drbdsetup", "del-peer", w.Name, strconv.Itoa(id)); err != nil {
			return err
		}
	}
	if _, err := d.run(ctx, w.Name, what, "drbdsetup", "forget-peer", w.Name, strconv.Itoa(id)); err != nil {
		return err
	}
	d.recall(w.Name, func(m *memory) { m.forgotten[id] = true })
	return nil
}

// start gives a new volume its first content.
func (d *DRBD) start(ctx context.Context, w *Want, v Volume) error {
	what := fmt.Sprintf("start volume %d of resource %s", v.Number, w.Name)
	s, err := d.state(ctx, w.Name)
	if err != nil || s == nil {
		return err
	}
	// Once more: the kernel guards its own data, and not that of a peer that came in between.
	if untouched, err := d.untouched(ctx, w, v); err != nil || !untouched || !startable(w, s, v) {
		return err
	}
	if v.Start == StartEqual {
		_, err := d.run(ctx, w.Name, what, "drbdsetup", "new-current-uuid", strconv.Itoa(v.Minor), "--clear-bitmap")
		return err
	}
	// The only use of force: it makes an Inconsistent disk the good one, whatever the quorum says. All volumes of the resource are promoted by it, so none may have
	// been used.
	for _, o := range s.Devices {
		if o.Volume != v.Number && o.Disk != kernel.UpToDate && !startsHere(w, o.Volume) {
			return fmt.Errorf("%s: volume %d of the resource is %s and would be started with it", what, o.Volume, o.Disk)
		}
	}
	if s.Role == kernel.Primary {
		return fmt.Errorf("%s: the resource is in use", what)
	}
	if _, err := d.run(ctx, w.Name, what, "drbdsetup", "primary", w.Name, "--force"); err != nil {
		return err
	}
	// A role that was taken explicitly stays when the last user has closed the device, and would lock all other hosts out.
	_, err = d.run(ctx, w.Name, what, "drbdsetup", "secondary", w.Name)
	return err
}

// startsHere tells whether a volume is to begin with the content of this host.
func startsHere(w *Want, volume int) bool {
	v, ok := w.volume(volume)
	return ok && !v.Destroy && v.Start == StartHere
}

// grow lets a volume grow into its backing device. Never with a size: one below the present size would shrink a mounted device at once.
func (d *DRBD) grow(ctx context.Context, w *Want, v Volume) error {
	d.attempt(w.Name, growthOf(v.Number))
	what := fmt.Sprintf("grow volume %d of resource %s", v.Number, w.Name)
	_, err := d.run(ctx, w.Name, what, "drbdadm", "resize", fmt.Sprintf("%s/%d", w.Name, v.Number))
	return err
}
