// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/client"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

func (a *app) advise() *cobra.Command {
	return group("advise", []string{"adv"}, "What may go wrong, and what to do about it", a.adviseResource(), a.adviseMaintenance())
}

// advice is a problem of a resource. Its fields are those that the linstor client prints.
type advice struct {
	Resource string `json:"resource"`
	What     string `json:"what"`
	Fix      string `json:"fix"`

	kind string // as the linstor client names it for its filter
}

// adviceKinds are the kinds of advice that can be filtered for.
func adviceKinds() []string {
	return []string{"single-replica", "pot-split-brain", "diskless-in-use", "too-few-replicas", "too-many-replicas", "no-tiebreaker"}
}

// advised makes a command that gives advice.
func (a *app) advised(cmd *cobra.Command, find func(ctx context.Context, s *session, args []string) ([]advice, error)) *cobra.Command {
	var kinds, resources list
	cmd.RunE = a.run(func(ctx context.Context, s *session, args []string) error {
		for _, k := range kinds {
			if !slices.Contains(adviceKinds(), k) {
				return usagef("--filter: %q: want some of %s", k, strings.Join(adviceKinds(), ", "))
			}
		}
		all, err := find(ctx, s, args)
		if err != nil {
			return err
		}
		kept := slices.DeleteFunc(all, func(x advice) bool {
			named := func(name string) bool { return strings.EqualFold(name, x.Resource) }
			return len(kinds) > 0 && !slices.Contains(kinds, x.kind) || len(resources) > 0 && !slices.ContainsFunc(resources, named)
		})
		for i := range kept {
			kept[i].Fix = cmd.Root().Name() + " " + kept[i].Fix
		}
		if s.form != text {
			body, err := wire.Encode(append([]advice{}, kept...))
			if err != nil {
				return err
			}
			return s.writeJSON(body)
		}
		t := newTable("Resource", "Issue", "Possible fix")
		for _, x := range kept {
			t.row(x.Resource, x.What, x.Fix)
		}
		return s.writeTable(t)
	})
	pastable(cmd)
	kinds.addTo(cmd.Flags(), "filter", "f", "only advice of these kinds: "+strings.Join(adviceKinds(), ", "))
	resources.addTo(cmd.Flags(), "resources", "r", "only these resources")
	return cmd
}

func (a *app) adviseResource() *cobra.Command {
	return a.advised(&cobra.Command{
		Use: "resource", Aliases: []string{"r"}, Short: "Show resources that are not as their groups say", Args: nothing,
	}, func(ctx context.Context, s *session, _ []string) ([]advice, error) {
		groups, err := s.ResourceGroups(ctx, client.ResourceGroupFilter{})
		if err != nil {
			return nil, err
		}
		definitions, err := s.ResourceDefinitions(ctx, client.ResourceDefinitionFilter{})
		if err != nil {
			return nil, err
		}
		pools, err := s.StoragePools(ctx, client.StoragePoolFilter{})
		if err != nil {
			return nil, err
		}
		replicas, err := replicasByResource(ctx, s)
		if err != nil {
			return nil, err
		}
		var all []advice
		for _, d := range definitions {
			filter := &client.AutoSelectFilter{}
			for _, g := range groups {
				if g.Name == d.ResourceGroupName && g.SelectFilter != nil {
					filter = g.SelectFilter
				}
			}
			all = append(all, disklessInUse(d.Name, replicas[d.Name], filter, pools)...)
			all = append(all, replicaCounts(d.Name, replicas[d.Name], filter, pools)...)
		}
		return all, nil
	})
}

func (a *app) adviseMaintenance() *cobra.Command {
	return a.advised(&cobra.Command{
		Use: "maintenance NODE", Aliases: []string{"m"}, Short: "Show what would suffer if a node went down", Args: exactly("NODE"),
	}, func(ctx context.Context, s *session, args []string) ([]advice, error) {
		replicas, err := replicasByResource(ctx, s)
		if err != nil {
			return nil, err
		}
		var all []advice
		for _, name := range slices.Sorted(maps.Keys(replicas)) {
			list := replicas[name]
			here := func(r client.ResourceWithVolumes) bool { return strings.EqualFold(r.NodeName, args[0]) }
			if !slices.ContainsFunc(list, here) {
				continue
			}
			diskful := slices.DeleteFunc(slices.Clone(list), func(r client.ResourceWithVolumes) bool { return !hasDisk(r) })
			switch {
			case len(diskful) == 1 && here(diskful[0]):
				all = append(all, advice{name, "Node hosts only replica of resource, would become unavailable.", moreReplicas(name, 2), "single-replica"})
			case len(list) < 3 && replicated(list):
				all = append(all, advice{
					name, "Node hosts one of 2 replicas with no tiebreaker, may lead to split-brain.", tieBreaker(name), "pot-split-brain",
				})
			}
		}
		return all, nil
	})
}

// replicasByResource returns the replicas to rely on, by resource.
func replicasByResource(ctx context.Context, s *session) (map[string][]client.ResourceWithVolumes, error) {
	all, err := s.AllResources(ctx, client.ResourceFilter{})
	if err != nil {
		return nil, err
	}
	out := map[string][]client.ResourceWithVolumes{}
	for _, r := range all {
		if relied(r) {
			out[r.Name] = append(out[r.Name], r)
		}
	}
	return out, nil
}

// relied reports whether a replica is one to rely on.
func relied(r client.ResourceWithVolumes) bool {
	return !slices.ContainsFunc(r.Flags, func(f string) bool {
		return f == client.FlagDelete || f == client.FlagEvicted || f == client.FlagEvacuate
	})
}

// replicated reports whether replicas vote about who may write.
func replicated(replicas []client.ResourceWithVolumes) bool {
	return slices.ContainsFunc(replicas, func(r client.ResourceWithVolumes) bool {
		return slices.Contains(r.LayerObject.Types(), client.LayerDRBD)
	})
}

func hasDisk(r client.ResourceWithVolumes) bool {
	return !slices.Contains(r.Flags, client.FlagDiskless)
}

func inUse(r client.ResourceWithVolumes) bool {
	return r.State != nil && r.State.InUse != nil && *r.State.InUse
}

func moreReplicas(name string, n int) string {
	return fmt.Sprintf("rd ap --place-count %d %s", n, name)
}

func tieBreaker(name string) string {
	return "rd ap --drbd-diskless --place-count 1 " + name
}

// disklessInUse finds a replica that is used over the network on a node where the data could be.
func disklessInUse(name string, replicas []client.ResourceWithVolumes, filter *client.AutoSelectFilter, pools []client.StoragePool) []advice {
	for _, r := range replicas {
		fits := func(p client.StoragePool) bool {
			allowed := filter.Pools()
			return p.NodeName == r.NodeName && p.ProviderKind != client.Diskless &&
				(len(allowed) == 0 || slices.ContainsFunc(allowed, func(n string) bool { return strings.EqualFold(n, p.StoragePoolName) }))
		}
		if !hasDisk(r) && inUse(r) && slices.ContainsFunc(pools, fits) {
			return []advice{{
				name, "Resource is diskless and in-use, but a matching storage pool exists.",
				fmt.Sprintf("r mkavail --diskful %s %s", r.NodeName, name), "diskless-in-use",
			}}
		}
	}
	return nil
}

// replicaCounts finds what there is too few or too many of.
func replicaCounts(name string, replicas []client.ResourceWithVolumes, filter *client.AutoSelectFilter, pools []client.StoragePool) []advice {
	expected := 2
	if filter.PlaceCount != nil && *filter.PlaceCount > 0 {
		expected = int(*filter.PlaceCount)
	}
	diskful, nodes, removable := 0, map[string]bool{}, []string{}
	for _, r := range replicas {
		if hasDisk(r) {
			diskful++
			if !inUse(r) {
				removable = append(removable, r.NodeName)
			}
		}
	}
	for _, p := range pools {
		nodes[p.NodeName] = true
	}
	switch {
	case diskful < expected:
		return []advice{{
			name, fmt.Sprintf("Resource expected to have %d replicas, got only %d.", expected, diskful), moreReplicas(name, expected), "too-few-replicas",
		}}
	case diskful > expected:
		some := removable[:min(diskful-expected, len(removable))]
		return []advice{{
			name, fmt.Sprintf("Resource should only have %d replicas, but has %d.", expected, diskful),
			fmt.Sprintf("r d %s %s", strings.Join(some, " "), name), "too-many-replicas",
		}}
	case expected == 2 && len(replicas) == 2 && len(nodes) > 2 && replicated(replicas):
		return []advice{{name, "Resource has 2 replicas but no tie-breaker, could lead to split brain.", tieBreaker(name), "no-tiebreaker"}}
	}
	return nil
}
