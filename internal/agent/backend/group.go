// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/internal/agent/device"
	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
)

// tagOfGroup is the tag of a volume group that was made here; its value is the mark of the making.
const tagOfGroup = "holdfast.backend="

// groups makes volume groups, with and without a thin pool.
type groups struct {
	finder *device.Finder
	run    Programs
}

// volume is a physical volume.
type volume struct {
	Path  string `json:"pv_name"`
	UUID  string `json:"pv_uuid"`
	Group string `json:"vg_name"`
	Tags  string `json:"vg_tags"` // of the group
}

// has tells whether the group has a tag that begins so.
func (v volume) has(tag string) bool {
	return slices.ContainsFunc(strings.Split(v.Tags, ","), func(t string) bool { return strings.HasPrefix(t, tag) })
}

// marked tells whether the group has the mark of a making.
func (v volume) marked(r record) bool {
	return slices.Contains(strings.Split(v.Tags, ","), tagOfGroup+r.mark())
}

// volumes returns all physical volumes of the host.
func (g groups) volumes(ctx context.Context, group string) ([]volume, error) {
	res, err := g.run.Run(ctx, group, "lvm", "pvs", "--reportformat", "json", "-o", "pv_name,pv_uuid,vg_name,vg_tags")
	if err != nil {
		return nil, fmt.Errorf("list physical volumes: %w", err)
	}
	var said struct {
		Report []struct {
			PV []volume `json:"pv"`
		} `json:"report"`
	}
	if err := json.Unmarshal(res.Stdout, &said); err != nil {
		return nil, fmt.Errorf("read the list of physical volumes: %w", err)
	}
	var all []volume
	for _, r := range said.Report {
		all = append(all, r.PV...)
	}
	return all, nil
}

// inside returns the names of the logical volumes of a group, and their attributes. Names in brackets are of LVM's own.
func (g groups) inside(ctx context.Context, group string) (map[string]string, error) {
	res, err := g.run.Run(ctx, group, "lvm", "lvs", "--reportformat", "json", "--all", "-o", "lv_name,lv_attr", group)
	if err != nil {
		return nil, fmt.Errorf("list the volumes of group %s: %w", group, err)
	}
	var said struct {
		Report []struct {
			LV []struct {
				Name string `json:"lv_name"`
				Attr string `json:"lv_attr"`
			} `json:"lv"`
		} `json:"report"`
	}
	if err := json.Unmarshal(res.Stdout, &said); err != nil {
		return nil, fmt.Errorf("read the list of volumes of group %s: %w", group, err)
	}
	all := map[string]string{}
	for _, r := range said.Report {
		for _, lv := range r.LV {
			all[lv.Name] = lv.Attr
		}
	}
	return all, nil
}

// exists implements maker. A group of ours without its thin pool gets it.
func (g groups) exists(ctx context.Context, w spec) (bool, error) {
	all, err := g.volumes(ctx, w.group())
	if err != nil {
		return false, err
	}
	var of []volume
	for _, v := range all {
		if v.Group == w.group() {
			of = append(of, v)
		}
	}
	if len(of) == 0 {
		if path := filepath.Join("/dev", w.group()); isThere(path) {
			return false, errs.New(errs.Invalid, errs.StoragePool, "a volume group cannot be named %s on this host", w.group()).About(errs.Name).
				Because("%s is there already, and is no volume group", path).Fix("choose another name")
		}
		return false, nil
	}
	var paths []string
	for _, v := range of {
		paths = append(paths, device.Resolve(v.Path)) // LVM may know it by another name.
	}
	if !of[0].has(tagOfGroup + markOf(w.Provider)) {
		return false, taken("volume group", w.group(), "it was not made here for the provider %s", w.Provider)
	}
	if !sameDevices(paths, w.Devices) {
		return false, taken("volume group", w.group(), "it consists of %s", strings.Join(paths, ", "))
	}
	if w.Provider == model.LVM {
		return true, nil
	}
	in, err := g.inside(ctx, w.group())
	if err != nil {
		return false, err
	}
	switch attr := in[w.thin()]; {
	case attr == "":
		return true, g.thinPool(ctx, w)
	case attr[0] != 't':
		return false, taken("logical volume", w.Name, "it is no thin pool")
	}
	return true, nil
}

// taken is the error when there is another backend of a name.
func taken(what, name, format string, args ...any) error {
	return errs.New(errs.Exists, errs.StoragePool, "the %s %s exists already", what, name).Because(format, args...).
		Fix("choose another name, or make a storage pool on it with storage-pool create")
}

func isThere(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// sameDevices tells whether two lists of paths lead to the same devices.
func sameDevices(a, b []string) bool {
	resolved := func(list []string) []string {
		var out []string
		for _, p := range list {
			out = append(out, device.Resolve(p))
		}
		slices.Sort(out)
		return out
	}
	return slices.Equal(resolved(a), resolved(b))
}

// make implements maker.
func (g groups) make(ctx context.Context, r record) error {
	w := r.spec()
	for i, m := range r.Members {
		if i > 0 { // It was looked at before those before it were worked with.
			if _, err := g.finder.Check(ctx, []string{m.Path}); err != nil {
				return err
			}
		}
		// Nothing is said about what is on it: pvcreate refuses a device that has a signature all the same.
		if _, err := g.run.Run(ctx, w.group(), "pvcreate", "--norestorefile", "--uuid", m.UUID, m.Path); err != nil {
			return fmt.Errorf("make a physical volume of device %s: %w", m.Path, err)
		}
	}
	args := append([]string{"--addtag", tagOfGroup + r.mark(), w.group()}, w.Devices...)
	if _, err := g.run.Run(ctx, w.group(), "vgcreate", args...); err != nil {
		return fmt.Errorf("make the volume group %s of %s: %w", w.group(), strings.Join(w.Devices, ", "), err)
	}
	if w.thin() == "" {
		return nil
	}
	return g.thinPool(ctx, w)
}

// share is how much of its group a thin pool gets: its metadata may have to grow.
const share = "95%FREE"

// thinPool makes the thin pool in a group of ours. What lay on the devices earlier may look like signatures, and is nobody's.
func (g groups) thinPool(ctx context.Context, w spec) error {
	args := []string{"--yes", "--type", "thin-pool", "--extents", share, "--name", w.thin(), w.group()}
	if _, err := g.run.Run(ctx, w.group(), "lvcreate", args...); err != nil {
		return fmt.Errorf("make the thin pool %s: %w", w.Name, err)
	}
	return nil
}

// undo implements maker.
func (g groups) undo(ctx context.Context, r record) error {
	w := r.spec()
	all, err := g.volumes(ctx, w.group())
	if err != nil {
		return err
	}
	if slices.ContainsFunc(all, func(v volume) bool { return v.Group == w.group() && v.marked(r) }) {
		if err := g.removeGroup(ctx, w); err != nil {
			return err
		}
		if all, err = g.volumes(ctx, w.group()); err != nil {
			return err
		}
	}
	for _, v := range all {
		ours := slices.ContainsFunc(r.Members, func(m member) bool { return m.UUID == v.UUID })
		if !ours || v.Group != "" { // Someone has made another group of it.
			continue
		}
		if _, err := g.run.Run(ctx, w.group(), "pvremove", v.Path); err != nil {
			return fmt.Errorf("device %s is a physical volume still: %w", v.Path, err)
		}
	}
	g.finder.Settle(ctx)
	return nil
}

// removeGroup removes the group of a making, unless someone has made volumes in it.
func (g groups) removeGroup(ctx context.Context, w spec) error {
	in, err := g.inside(ctx, w.group())
	if err != nil {
		return err
	}
	for name := range in {
		plain := strings.Trim(name, "[]")
		own := w.thin() != "" && (plain == w.thin() || plain == w.thin()+"_tdata" || plain == w.thin()+"_tmeta" || plain != name && strings.HasSuffix(plain, "_pmspare"))
		if !own {
			return errs.New(errs.InUse, errs.Node, "the volume group %s is left", w.group()).Because("someone has made the volume %s in it", name)
		}
	}
	if _, err := g.run.Run(ctx, w.group(), "vgremove", "--yes", "--force", w.group()); err != nil {
		return fmt.Errorf("the volume group %s is left: %w", w.group(), err)
	}
	return nil
}
