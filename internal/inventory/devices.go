// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"context"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-storage/holdfast/internal/dispatch"
	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/schema"
)

// NodeDevices is the block devices of a node that nobody uses and that have nothing on them.
type NodeDevices struct {
	Node    model.NodeName
	Devices []observed.Device
}

// Devices asks all connected nodes for their free devices, and returns what was answered in
// time, by node. A node that does not answer is left out.
func (v *Inventory) Devices(ctx context.Context) []NodeDevices {
	const (
		patience = 10 * time.Second
		atOnce   = 32
	)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var (
		mu   sync.Mutex
		all  []NodeDevices
		busy sync.WaitGroup
	)
	free := make(chan struct{}, atOnce)
	for n := range schema.Nodes.All(v.Store.Snapshot()) {
		if v.Observed.Node(n.Name.Key()).Connection != observed.Online {
			continue
		}
		free <- struct{}{}
		busy.Go(func() {
			defer func() { <-free }()
			list, err := v.Hosts.Devices(ctx, n.Name.Key())
			if err != nil || len(list) == 0 {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, NodeDevices{n.Name, list})
		})
	}
	busy.Wait()
	slices.SortFunc(all, func(a, b NodeDevices) int { return strings.Compare(string(a.Node), string(b.Node)) })
	return all
}

// DevicesOf asks a node for its free devices.
func (v *Inventory) DevicesOf(ctx context.Context, node string) ([]observed.Device, error) {
	n, err := schema.FindNode(v.Store.Snapshot(), node)
	if err != nil {
		return nil, err
	}
	return v.Hosts.Devices(ctx, n.Name.Key())
}

// NewBackend is what a storage pool is to be made on.
type NewBackend struct {
	Provider  string
	Name      string   // of the volume group, of the thin pool or of the zpool; empty: chosen by the first device
	Devices   []string // paths
	RAIDLevel string   // empty, or JBOD: none
	Pool      *NewPool // made on it; nil: none. Its provider and the name of its backend are those of the backend
}

// thinGroupPrefix is how the volume group is named that is made for a thin pool, as LINSTOR
// names it.
const thinGroupPrefix = "linstor_"

// CreateBackend has a node make a volume group, a thin pool or a zpool of its devices, and then
// makes it known as a storage pool where that is asked for. The devices lose what is on them.
// Whatever can be refused is refused before the node is asked.
func (v *Inventory) CreateBackend(ctx context.Context, node string, n NewBackend) (name string, pool schema.Pool, err error) {
	b, err := parseBackend(n)
	if err != nil {
		return "", pool, err
	}
	view := v.Store.Snapshot()
	row, err := schema.FindNode(view, node)
	if err != nil {
		return "", pool, err
	}
	if n.Pool != nil {
		p := *n.Pool
		p.Provider, p.Props = string(b.Provider), maps.Clone(p.Props)
		if p.Props == nil {
			p.Props = map[string]string{}
		}
		p.Props["StorDriver/StorPoolName"] = b.Name
		if pool, err = v.parsePool(node, p); err != nil {
			return "", pool, err
		}
		if old, ok := schema.Pools.Get(view, model.PoolID{Node: pool.Node, Pool: pool.Name.Key()}); ok {
			return "", pool, errs.New(errs.Exists, errs.StoragePool, "storage pool %s exists on node %s already", old.Name, row.Name)
		}
		n.Pool = &p
	}
	if err := v.Hosts.CreateBackend(ctx, row.Name.Key(), b); err != nil || n.Pool == nil {
		return b.Name, pool, err
	}
	pool, err = v.CreatePool(ctx, node, *n.Pool)
	if e := errs.As(err); e != nil {
		err = e.Detail("What it was to lie on, " + b.Name + ", was made on node " + string(row.Name) + " and stays.")
	}
	return b.Name, pool, err
}

// parseBackend reads what a backend is to be made of.
func parseBackend(n NewBackend) (dispatch.Backend, error) {
	var b dispatch.Backend
	invalid := func(attr errs.Attr, format string, args ...any) *errs.Error {
		return errs.New(errs.Invalid, errs.Node, format, args...).About(attr)
	}
	provider := strings.ToUpper(n.Provider)
	switch provider { // The command line names two of them without the underscore.
	case "LVMTHIN":
		provider = string(model.LVMThin)
	case "ZFSTHIN":
		provider = string(model.ZFSThin)
	}
	made := []model.Provider{model.LVM, model.LVMThin, model.ZFS, model.ZFSThin}
	if b.Provider = model.Provider(provider); !slices.Contains(made, b.Provider) {
		return b, invalid(errs.Provider, "no backend can be made for the provider %q", n.Provider).
			Because("pools of other providers lie in what is there already, or in nothing").
			Fix("use one of LVM, LVM_THIN, ZFS and ZFS_THIN, or make the storage pool alone")
	}
	if b.RAIDLevel = strings.ToUpper(n.RAIDLevel); b.RAIDLevel != "" && b.RAIDLevel != "JBOD" {
		return b, invalid(errs.Body, "the RAID level %q is not possible", n.RAIDLevel).Fix("use JBOD")
	}
	if len(n.Devices) == 0 {
		return b, invalid(errs.Body, "no devices are named to make a backend of").Fix("name one or more, as the list of free devices has them")
	}
	for i, d := range n.Devices {
		if !strings.HasPrefix(d, "/dev/") || path.Clean(d) != d || strings.ContainsFunc(d, func(r rune) bool { return r <= ' ' }) {
			return b, invalid(errs.Body, "%q is no path of a device", d).Fix("name it as the list of free devices has it")
		}
		if slices.Contains(n.Devices[:i], d) {
			return b, invalid(errs.Body, "the device %s is named twice", d)
		}
	}
	b.Devices = n.Devices
	name := n.Name
	if name == "" {
		name = thinGroupPrefix + path.Base(n.Devices[0])
	}
	if b.Name = name; b.Provider == model.LVMThin {
		b.Name = thinGroupPrefix + strings.TrimPrefix(name, thinGroupPrefix) + "/" + name
	}
	return b, model.CheckBackend(b.Provider, b.Name)
}

// SetLogLevel changes from which level on the agent of a node logs, until it restarts. The
// levels are ERROR, WARN, INFO, DEBUG and TRACE.
func (v *Inventory) SetLogLevel(ctx context.Context, node, level string) error {
	n, err := schema.FindNode(v.Store.Snapshot(), node)
	if err != nil {
		return err
	}
	return v.Hosts.SetLogLevel(ctx, n.Name.Key(), level)
}
