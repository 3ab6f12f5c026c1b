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

// dryRun declares the flag of commands that can show what they would do.
func dryRun(cmd *cobra.Command, flag *bool) {
	cmd.Flags().BoolVar(flag, "dry-run", false, "show what would be done, and where nothing can be placed and why; change nothing")
}

// planSpawn shows where a spawn would place, and why not elsewhere.
func (s *session) planSpawn(ctx context.Context, group string, sizes []client.SizeKiB, filter *client.AutoSelectFilter) error {
	x, err := s.Explain(ctx, group, client.ExplainRequest{VolumeSizes: sizes, SelectFilter: filter})
	if err != nil {
		return err
	}
	return s.explained(x)
}

// explained prints an explanation. One without picks ends the command as a refusal would.
func (s *session) explained(x client.Explanation) error {
	_, s.failed = x.Reports.FirstError()
	if s.form != text {
		return s.writeJSON(s.last)
	}
	if err := s.writeTable(explainTable(x)); err != nil {
		return err
	}
	return s.writeEntries(x.Reports)
}

// planner knows what is there, for plans about definitions that have replicas.
type planner struct {
	definitions map[string]client.ResourceDefinition
	replicas    map[string][]client.ResourceWithVolumes
	nodes       []string
}

func newPlanner(ctx context.Context, s *session) (*planner, error) {
	definitions, err := s.ResourceDefinitions(ctx, client.ResourceDefinitionFilter{WithVolumeDefinitions: true})
	if err != nil {
		return nil, err
	}
	nodes, err := s.Nodes(ctx, client.NodeFilter{})
	if err != nil {
		return nil, err
	}
	replicas, err := s.AllResources(ctx, client.ResourceFilter{})
	if err != nil {
		return nil, err
	}
	p := &planner{definitions: map[string]client.ResourceDefinition{}, replicas: map[string][]client.ResourceWithVolumes{}}
	for _, d := range definitions {
		p.definitions[strings.ToLower(d.Name)] = d
	}
	for _, r := range replicas {
		p.replicas[strings.ToLower(r.Name)] = append(p.replicas[strings.ToLower(r.Name)], r)
	}
	for _, n := range nodes {
		if !slices.Contains(n.Flags, client.FlagEvicted) && !slices.Contains(n.Flags, client.FlagEvacuate) {
			p.nodes = append(p.nodes, n.Name)
		}
	}
	return p, nil
}

// more asks where so many more replicas of a definition would go: to nodes that have none, and that allowed accepts.
func (p *planner) more(ctx context.Context, s *session, d client.ResourceDefinition, count int, filter client.AutoSelectFilter, allowed func(node string) bool) (client.Explanation, error) {
	filter.PlaceCount, filter.AdditionalPlaceCount = new(client.Int32(count)), nil
	for _, node := range p.nodes {
		has := slices.ContainsFunc(p.replicas[strings.ToLower(d.Name)], func(r client.ResourceWithVolumes) bool { return strings.EqualFold(r.NodeName, node) })
		if !has && allowed(node) {
			filter.NodeNameList = append(filter.NodeNameList, node)
		}
	}
	if len(filter.NodeNameList) == 0 {
		return client.Explanation{}, saying{
			what: "there is no node for another replica of " + d.Name, why: "all nodes that it may go to have one", do: "add a node, or name others",
		}
	}
	var sizes []client.SizeKiB
	for _, v := range d.VolumeDefinitions {
		sizes = append(sizes, v.Size)
	}
	return s.Explain(ctx, d.ResourceGroupName, client.ExplainRequest{VolumeSizes: sizes, SelectFilter: &filter})
}

// planPlace shows where auto-place would add replicas. The rules about replicas that are there, such as that all shall be
// alike in something, are checked when it is done.
func (s *session) planPlace(ctx context.Context, resource string, filter client.AutoSelectFilter) error {
	p, err := newPlanner(ctx, s)
	if err != nil {
		return err
	}
	d, ok := p.definitions[strings.ToLower(resource)]
	if !ok {
		_, err := s.ResourceDefinition(ctx, resource) // The controller says best that there is none.
		return err
	}
	diskful := count(p.replicas[strings.ToLower(resource)], hasDisk)
	var missing int
	switch {
	case filter.AdditionalPlaceCount != nil:
		missing = int(*filter.AdditionalPlaceCount)
	case filter.PlaceCount != nil:
		missing = int(*filter.PlaceCount) - diskful
	default:
		group, err := s.ResourceGroup(ctx, d.ResourceGroupName)
		if err != nil {
			return err
		}
		missing = 2 - diskful
		if f := group.SelectFilter; f != nil && f.PlaceCount != nil {
			missing = int(*f.PlaceCount) - diskful
		}
	}
	if missing <= 0 {
		return s.write(fmt.Sprintf("%s has %d replicas with disks; none would be added\n", printable(d.Name), diskful))
	}
	x, err := p.more(ctx, s, d, missing, filter, func(string) bool { return true })
	if err != nil {
		return err
	}
	return s.explained(x)
}

// planEvacuation shows where each replica of a node would go.
func (s *session) planEvacuation(ctx context.Context, node string, targets, avoid []string) error {
	if s.form != text {
		return usagef("--dry-run of an evacuation is a table alone: leave --output away")
	}
	if _, err := s.Node(ctx, node); err != nil {
		return err
	}
	p, err := newPlanner(ctx, s)
	if err != nil {
		return err
	}
	in := func(list []string, name string) bool {
		return slices.ContainsFunc(list, func(x string) bool { return strings.EqualFold(x, name) })
	}
	allowed := func(name string) bool {
		return !strings.EqualFold(name, node) && !in(avoid, name) && (len(targets) == 0 || in(targets, name))
	}
	t := newTable("Resource", "From", "To", "Why not")
	for _, key := range sortedKeys(p.replicas) {
		for _, r := range p.replicas[key] {
			if !strings.EqualFold(r.NodeName, node) {
				continue
			}
			if !hasDisk(r) {
				t.row(r.Name, r.NodeName, "nowhere: it has no disk", "")
				continue
			}
			to, problem := "", cell{}
			switch x, err := p.more(ctx, s, p.definitions[key], 1, client.AutoSelectFilter{}, allowed); {
			case err != nil:
				problem = cell{err.Error(), red}
			case len(x.Picks) == 1:
				to = x.Picks[0].NodeName + " (" + x.Picks[0].StoragePoolName + ")"
			default:
				first, _ := x.Reports.FirstError()
				problem = cell{oneLine(first.Message + "\n" + first.Cause), red}
			}
			s.failed = s.failed || problem.text != ""
			t.row(r.Name, r.NodeName, to, problem)
		}
	}
	if len(t.rows) == 0 {
		return s.write("no resources lie on " + printable(node) + "\n")
	}
	return s.writeTable(t)
}
