// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent"
	"github.com/holdfast-storage/holdfast/internal/agent/backend"
	"github.com/holdfast-storage/holdfast/internal/agent/device"
	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/file"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/freeze"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/inuse"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/lvm"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/zfs"
	"github.com/holdfast-storage/holdfast/internal/command"
	"github.com/holdfast-storage/holdfast/internal/doctor"
	"github.com/holdfast-storage/holdfast/internal/model"
)

// backends are what this host can make pools of, and what their drivers share.
type backends struct {
	node    string
	users   *inuse.Scanner
	freezer *freeze.Freezer
	lvm     *lvm.Host
	zfs     *zfs.Host

	supported   []model.Provider
	unsupported map[model.Provider]string // Why not.
}

// findBackends looks which tools and kernel modules this host has.
func findBackends(ctx context.Context, node string, users *inuse.Scanner, freezer *freeze.Freezer, runner command.Runner) *backends {
	b := &backends{
		node: node, users: users, freezer: freezer, lvm: lvm.NewHost(runner), zfs: zfs.NewHost(runner),
		supported:   []model.Provider{model.Diskless, model.File, model.FileThin},
		unsupported: map[model.Provider]string{},
	}
	b.probe(ctx, runner, []model.Provider{model.LVM, model.LVMThin}, command.Command{Program: "lvm", Args: []string{"version"}}, command.Command{Program: "dmsetup", Args: []string{"version"}})
	b.probe(ctx, runner, []model.Provider{model.ZFS, model.ZFSThin}, command.Command{Program: "zfs", Args: []string{"version"}})
	b.examine(ctx, doctor.Host{Root: os.DirFS("/"), Runner: runner})
	return b
}

// examine supports no provider any more that the host certainly lacks something for, such as a kernel module.
func (b *backends) examine(ctx context.Context, h doctor.Host) {
	for name, providers := range map[string][]model.Provider{
		"LVM": {model.LVM}, "LVM_THIN": {model.LVMThin}, "ZFS": {model.ZFS, model.ZFSThin},
	} {
		if !slices.Contains(b.supported, providers[0]) {
			continue
		}
		found, err := doctor.Able(ctx, h, name)
		if err != nil || len(found[0].Missing) == 0 {
			continue
		}
		for _, p := range providers {
			b.unsupported[p] = strings.Join(found[0].Missing, "; ")
		}
		b.supported = slices.DeleteFunc(b.supported, func(p model.Provider) bool { return slices.Contains(providers, p) })
	}
}

// probe supports providers when some programs go well.
func (b *backends) probe(ctx context.Context, runner command.Runner, providers []model.Provider, programs ...command.Command) {
	const patience = 10 * time.Second
	for _, c := range programs {
		c.Limit = patience
		_, err := runner.Run(ctx, c)
		if err == nil {
			continue
		}
		why := err.Error()
		if failed, ok := errors.AsType[*command.Error](err); ok && failed.Kind == command.NotInstalled {
			why = "the program " + c.Program + " is not installed"
		}
		for _, p := range providers {
			b.unsupported[p] = why
		}
		return
	}
	b.supported = append(b.supported, providers...)
}

// devices knows the free devices of this host, and makes of them what pools lie on. State is the folder of what the agent keeps.
func (b *backends) devices(state string, runner command.Runner) *backend.Service {
	dir := ""
	if state != "" {
		dir = filepath.Join(state, "backends")
	}
	return backend.New(backend.Config{
		Finder: &device.Finder{Run: runner, Holders: device.Holders(b.users)}, LVM: b.lvm, ZFS: b.zfs, Dir: dir, Unsupported: b.unsupported,
	})
}

// driver makes the driver of a pool.
func (b *backends) driver(p agent.Pool) (pool.Driver, error) {
	if why, ok := b.unsupported[p.Provider]; ok {
		return nil, fmt.Errorf("pool %s: this host cannot drive %s: %s", p.Name, p.Provider, why)
	}
	place, err := agent.Place(p)
	if err != nil {
		return nil, err
	}
	switch p.Provider {
	case model.File, model.FileThin:
		return file.New(file.Config{
			Name: p.Name, Node: b.node, Dir: place, Thin: p.Provider.Thin(), Identity: p.Identity, Users: b.users, Freezer: b.freezer,
		})
	case model.LVM:
		stripes, err := option(p, "StorDriver/LvcreateOptions", "-i", "--stripes")
		if err != nil {
			return nil, err
		}
		return lvm.NewThick(lvm.Config{Name: p.Name, Group: place, Identity: p.Identity, Host: b.lvm, Users: b.users, Stripes: int(stripes)})
	case model.LVMThin:
		group, thin, _ := strings.Cut(place, "/")
		if given, ok := p.Props.Get("StorDriver/ThinPool"); ok && thin == "" {
			thin = given[strings.LastIndexByte(given, '/')+1:]
		}
		return lvm.NewThin(lvm.Config{Name: p.Name, Group: group, ThinPool: thin, Identity: p.Identity, Host: b.lvm, Users: b.users})
	case model.ZFS, model.ZFSThin:
		block, err := option(p, "StorDriver/ZfscreateOptions", "-b")
		if err != nil {
			return nil, err
		}
		return zfs.New(zfs.Config{Name: p.Name, Dataset: place, Thin: p.Provider.Thin(), Identity: p.Identity, Host: b.zfs, Users: b.users, Block: block})
	default:
		return nil, fmt.Errorf("pool %s: this version of the agent does not drive the provider %s", p.Name, p.Provider)
	}
}

// option reads the one option of a program that a property may give: its number, which may end in K. Zero when the property is not set.
func option(p agent.Pool, property string, names ...string) (int64, error) {
	text, ok := p.Props.Get(property)
	if !ok || strings.TrimSpace(text) == "" {
		return 0, nil
	}
	refused := fmt.Errorf("pool %s: the property %s is %q: only %s and a number can be given", p.Name, property, text, strings.Join(names, " or "))
	for _, name := range names {
		rest, ok := strings.CutPrefix(strings.TrimSpace(text), name)
		if !ok {
			continue
		}
		rest = strings.ToUpper(strings.TrimLeft(rest, " ="))
		digits, kilo := strings.CutSuffix(rest, "K")
		n, err := strconv.ParseInt(digits, 10, 32)
		if err != nil || n < 1 {
			return 0, refused
		}
		if kilo {
			n <<= 10
		}
		return n, nil
	}
	return 0, refused
}
