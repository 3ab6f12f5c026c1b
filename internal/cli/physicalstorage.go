// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/client"
)

func (a *app) physicalStorage() *cobra.Command {
	return group("physical-storage", []string{"ps"}, "Unused devices of nodes", a.physicalStorageList(), a.createDevicePool())
}

func (a *app) physicalStorageList() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"l"}, Short: "List unused devices of nodes", Args: nothing,
		RunE: a.run(func(ctx context.Context, s *session, _ []string) error {
			all, err := s.PhysicalStorage(ctx)
			if err != nil {
				return err
			}
			t := newTable(">Size", "Rotational", "Nodes").named("Nodes")
			for _, p := range all {
				var lines []string
				for node, devices := range p.Nodes {
					for _, d := range devices {
						lines = append(lines, node+": "+d.Device)
					}
				}
				slices.Sort(lines)
				t.row(client.RoundDown(p.Size), fmt.Sprint(p.Rotational), strings.Join(lines, "\n"))
			}
			return s.list(t)
		}),
	}
	pastable(cmd)
	return cmd
}

// deviceFlags are the options of making a pool of devices.
type deviceFlags struct {
	poolName, storagePool  string
	vdo, sed               bool
	vdoLogical, vdoSlab    volumeSize
	pvMore, vgMore, lvMore list
	zpoolMore              list
}

func (d *deviceFlags) addTo(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&d.poolName, "pool-name", "", "name of the volume group, the thin pool or the ZFS pool")
	f.StringVar(&d.storagePool, "storage-pool", "", "make a storage pool of this name on it, too")
	f.BoolVar(&d.vdo, "vdo-enable", false, "with VDO")
	f.Var(&d.vdoLogical, "vdo-logical-size", "logical size of VDO")
	f.Var(&d.vdoSlab, "vdo-slab-size", "slab size of VDO")
	f.BoolVar(&d.sed, "sed", false, "with the encryption of the devices")
	d.pvMore.addTo(f, "pv-create-arguments", "", "more arguments for pvcreate")
	d.vgMore.addTo(f, "vg-create-arguments", "", "more arguments for vgcreate")
	d.lvMore.addTo(f, "lv-create-arguments", "", "more arguments for lvcreate")
	d.zpoolMore.addTo(f, "zpool-create-arguments", "", "more arguments for zpool create")
}

// volumeSize is an optional size.
type volumeSize struct{ value *client.SizeKiB }

// Set reads a size.
func (v *volumeSize) Set(text string) error {
	size, err := parseSize(text)
	v.value = &size
	return err
}

func (v *volumeSize) String() string {
	if v.value == nil {
		return ""
	}
	return formatSize(*v.value)
}

func (*volumeSize) Type() string { return "size" }

func (a *app) createDevicePool() *cobra.Command {
	var flags deviceFlags
	cmd := &cobra.Command{
		Use: "create-device-pool PROVIDER NODE DEVICE...", Aliases: []string{"cdp"},
		Short: "Make a volume group, a thin pool or a ZFS pool on unused devices",
		Long: "Make a volume group (lvm), a thin pool (lvmthin) or a ZFS pool (zfs, zfsthin) on unused devices of a node. A device that\n" +
			"holds anything is refused.",
		Example: "  holdfast physical-storage create-device-pool lvmthin host1 /dev/sdb --pool-name fast --storage-pool fast",
		Args:    between(3, -1, "PROVIDER", "NODE", "DEVICE"),
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			kind, known := map[string]client.ProviderKind{
				"lvm": client.LVM, "lvmthin": client.LVMThin, "zfs": client.ZFS, "zfsthin": client.ZFSThin,
			}[strings.ToLower(args[0])]
			if !known {
				return usagef("provider %q: want lvm, lvmthin, zfs or zfsthin", args[0])
			}
			create := client.PhysicalStorageCreate{
				ProviderKind: kind, DevicePaths: args[2:], PoolName: flags.poolName,
				VDOLogicalSizeKiB: flags.vdoLogical.value, VDOSlabSizeKiB: flags.vdoSlab.value,
				PVCreateArguments: flags.pvMore, VGCreateArguments: flags.vgMore, LVCreateArguments: flags.lvMore, ZpoolCreateArguments: flags.zpoolMore,
			}
			if flags.vdo {
				create.VDOEnable = &flags.vdo
			}
			if flags.sed {
				create.SED = &flags.sed
			}
			if flags.storagePool != "" {
				create.WithStoragePool = &client.PhysicalStoragePoolRequest{Name: flags.storagePool}
			}
			return s.changed(s.CreateDevicePool(ctx, args[1], create))
		}),
	}
	flags.addTo(cmd)
	return cmd
}
