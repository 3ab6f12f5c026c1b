// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/client"
)

// involved lists the resources that have to do with a node, with all of their replicas.
func (a *app) involved() *cobra.Command {
	var (
		used, disklessUsed bool
		most               number
		shown              propColumns
	)
	cmd := &cobra.Command{
		Use: "involved NODE", Aliases: []string{"inv"}, Short: "List the resources that have a replica on a node, with all of their replicas", Args: exactly("NODE"),
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			all, err := s.AllResources(ctx, client.ResourceFilter{})
			if err != nil {
				return err
			}
			of := map[string][]client.ResourceWithVolumes{}
			for _, r := range all {
				of[r.Name] = append(of[r.Name], r)
			}
			kept := slices.DeleteFunc(slices.Clone(all), func(r client.ResourceWithVolumes) bool {
				replicas := of[r.Name]
				diskful := len(replicas) - count(replicas, func(r client.ResourceWithVolumes) bool { return !hasDisk(r) })
				return !slices.ContainsFunc(replicas, func(r client.ResourceWithVolumes) bool { return strings.EqualFold(r.NodeName, args[0]) }) ||
					used && !slices.ContainsFunc(replicas, inUse) ||
					disklessUsed && !slices.ContainsFunc(replicas, func(r client.ResourceWithVolumes) bool { return inUse(r) && !hasDisk(r) }) ||
					most.value != nil && diskful >= int(*most.value)
			})
			return s.list(a.resourceTable(kept, false, false, &shown))
		}),
	}
	pastable(cmd)
	f := cmd.Flags()
	f.BoolVarP(&used, "inuse", "i", false, "only resources that are in use")
	f.BoolVarP(&disklessUsed, "diskless-inuse", "d", false, "only resources that are in use by a replica without a disk")
	f.VarP(&most, "min-diskful", "m", "only resources that have fewer replicas with a disk")
	shown.addTo(f, "s")
	return cmd
}

func count[T any](all []T, is func(T) bool) int {
	n := 0
	for _, x := range all {
		if is(x) {
			n++
		}
	}
	return n
}
