// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/client"
	"github.com/holdfast-storage/holdfast/internal/props"
)

func (a *app) resourceGroup() *cobra.Command {
	return group("resource-group", []string{"rg"}, "Resource groups: templates for resources",
		a.resourceGroupCreate(), a.resourceGroupList(), a.resourceGroupModify(), a.resourceGroupDelete(),
		a.spawn(), a.querySizeInfo(), a.queryMaxVolumeSize(), a.drbdOptions(props.Group, groupProperties()), a.explain(), a.adjust(), a.setProperty(groupProperties()), a.listProperties(groupProperties()))
}

// groupFlags are the flags of creating and modifying.
type groupFlags struct {
	placement

	description string
	peerSlots   number
}

func (g *groupFlags) addTo(cmd *cobra.Command) {
	g.placement.addTo(cmd, "p")
	g.addCount(cmd)
	cmd.Flags().StringVarP(&g.description, "description", "d", "", "description of the group")
	cmd.Flags().Var(&g.peerSlots, "peer-slots", "DRBD peer slots of new resources")
}

func (a *app) resourceGroupCreate() *cobra.Command {
	var flags groupFlags
	cmd := &cobra.Command{
		Use: "create NAME", Aliases: []string{"c"}, Short: "Add a resource group", Args: exactly("NAME"),
	}
	cmd.RunE = a.run(func(ctx context.Context, s *session, args []string) error {
		filter, err := flags.filter()
		if err != nil {
			return err
		}
		return s.changed(s.CreateResourceGroup(ctx, client.ResourceGroupCreate{
			Name: args[0], Description: optional(cmd, "description", flags.description),
			SelectFilter: filter, PeerSlots: flags.peerSlots.value,
		}))
	})
	flags.addTo(cmd)
	return cmd
}

func (a *app) resourceGroupModify() *cobra.Command {
	var flags groupFlags
	cmd := &cobra.Command{
		Use: "modify NAME", Aliases: []string{"m"}, Short: "Change a resource group",
		Long: "Change what the options name, and nothing else. Resources that exist stay where they are.", Args: exactly("NAME"),
	}
	cmd.RunE = a.run(func(ctx context.Context, s *session, args []string) error {
		filter, err := flags.filter()
		if err != nil {
			return err
		}
		return s.changed(s.ModifyResourceGroup(ctx, args[0], client.ResourceGroupModify{
			Description: optional(cmd, "description", flags.description), SelectFilter: filter, PeerSlots: flags.peerSlots.value,
		}))
	})
	flags.addTo(cmd)
	return cmd
}

func (a *app) resourceGroupDelete() *cobra.Command {
	return &cobra.Command{
		Use: "delete NAME", Aliases: []string{"d"}, Short: "Delete a resource group that no resource belongs to", Args: exactly("NAME"),
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			return s.changed(s.DeleteResourceGroup(ctx, args[0]))
		}),
	}
}

func (a *app) adjust() *cobra.Command {
	cmd := &cobra.Command{
		Use: "adjust [NAME]", Aliases: []string{"adj"}, Short: "Place what the resources of a group lack, or of all groups", Args: between(0, 1),
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			if len(args) == 0 {
				return s.changed(s.AdjustAllResourceGroups(ctx, client.ResourceGroupAdjust{}))
			}
			return s.changed(s.AdjustResourceGroup(ctx, args[0], client.ResourceGroupAdjust{}))
		}),
	}
	tabular(cmd)
	return cmd
}

func (a *app) resourceGroupList() *cobra.Command {
	var groups, filter list
	var shown propColumns
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"l"}, Short: "List resource groups", Args: nothing,
		RunE: a.run(func(ctx context.Context, s *session, _ []string) error {
			all, err := s.ResourceGroups(ctx, client.ResourceGroupFilter{ResourceGroups: groups, Props: filter})
			if err != nil {
				return err
			}
			if s.form != text {
				return s.listJSON(s.last)
			}
			t := newTable("ResourceGroup", "SelectFilter", "VlmNrs", "Description")
			shown.into(t)
			t.add("+UUID")
			t.lined = true
			for _, g := range all {
				numbers, err := volumeNumbers(ctx, s, g.Name)
				if err != nil {
					return err
				}
				t.row(append(shown.values(g.Props, g.Name, filterText(g.SelectFilter, a.linstor), numbers, g.Description), g.UUID)...)
			}
			return s.list(t)
		}),
	}
	pastable(cmd)
	groups.addTo(cmd.Flags(), "resource-groups", "r", "only these groups")
	filter.addTo(cmd.Flags(), "props", "", "only groups with these properties, as KEY or KEY=VALUE")
	shown.addTo(cmd.Flags(), "s")
	return cmd
}

// volumeNumbers returns the numbers of a group's volume groups. A group that was deleted since it was listed has none, and a file says
// nothing of them.
func volumeNumbers(ctx context.Context, s *session, group string) (string, error) {
	if s.fromFile {
		return "", nil
	}
	all, err := s.VolumeGroups(ctx, group)
	if err != nil && !client.IsNotFound(err) {
		return "", err
	}
	var numbers []string
	for _, v := range all {
		numbers = append(numbers, fmt.Sprint(v.VolumeNumber))
	}
	return strings.Join(numbers, ","), nil
}

// filterText returns what a filter says, a line for each thing. The linstor client shows most lists as Python writes them.
func filterText(f *client.AutoSelectFilter, linstor bool) string {
	if f == nil {
		return ""
	}
	var lines []string
	add := func(name, value string) {
		if value != "" {
			lines = append(lines, name+": "+value)
		}
	}
	words := func(list []string) string { return strings.Join(list, ", ") }
	comma := func(r rune) bool { return r == ',' }
	listed := words
	if linstor {
		listed = func(list []string) string {
			if len(list) == 0 {
				return ""
			}
			return "['" + strings.Join(list, "', '") + "']"
		}
	}
	if f.PlaceCount != nil && *f.PlaceCount > 0 {
		add("PlaceCount", fmt.Sprint(*f.PlaceCount))
	}
	add("Node(s)", words(f.NodeNameList))
	add("StoragePool(s)", words(f.Pools()))
	add("DisklessStoragePool(s)", words(f.StoragePoolDisklessList))
	if f.DisklessOnRemaining != nil && *f.DisklessOnRemaining {
		add("DisklessOnRemaining", "True")
	}
	add("NotPlaceWithRsc", listed(f.NotPlaceWithRsc))
	if f.NotPlaceWithRscRegex != nil {
		add("NotPlaceWithRscRegex", *f.NotPlaceWithRscRegex)
	}
	add("ReplicasOnSame", listed(f.ReplicasOnSame))
	add("ReplicasOnDifferent", listed(f.ReplicasOnDifferent))
	var atMost []string
	for _, key := range slices.Sorted(maps.Keys(f.XReplicasOnDifferent)) {
		atMost = append(atMost, fmt.Sprintf("%s %d", key, f.XReplicasOnDifferent[key]))
	}
	add("XReplicasOnDifferent", words(atMost))
	add("LayerStack", listed(strings.FieldsFunc(joined(f.LayerStack), comma)))
	add("ProviderList", listed(strings.FieldsFunc(joined(f.ProviderList), comma)))
	return strings.Join(lines, "\n")
}

func (a *app) querySizeInfo() *cobra.Command {
	var where placement
	cmd := &cobra.Command{
		Use: "query-size-info NAME", Aliases: []string{"qsi"}, Short: "Show how large a volume a resource group could spawn now",
		Args: exactly("NAME"),
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			filter, err := where.filter()
			if err != nil {
				return err
			}
			answer, err := s.QuerySizeInfo(ctx, args[0], client.QuerySizeInfoRequest{SelectFilter: filter})
			if err != nil {
				return err
			}
			return sizeInfo(s, answer)
		}),
	}
	pastable(cmd)
	where.addTo(cmd, "")
	where.addCount(cmd)
	return cmd
}

// sizeInfo prints an answer, which has either sizes or the reasons why there are none.
func sizeInfo(s *session, answer client.QuerySizeInfoResponse) error {
	_, failed := answer.Reports.FirstError()
	s.failed = failed || answer.SpaceInfo == nil
	if s.form != text {
		return s.writeJSON(s.last)
	}
	if len(answer.Reports) > 0 || answer.SpaceInfo == nil {
		return s.writeEntries(answer.Reports)
	}
	space := answer.SpaceInfo
	var next []string
	for _, r := range space.NextSpawnResult {
		next = append(next, r.StorPoolName+" on "+r.NodeName)
	}
	t := newTable(">MaxVolumeSize", ">AvailableSize", ">Capacity", "Next Spawn Result")
	t.row(cmp.Or(knownSize(&space.MaxVlmSize), "unlimited"), knownSize(space.AvailableSize), knownSize(space.Capacity), strings.Join(next, "\n"))
	return s.writeTable(t)
}
