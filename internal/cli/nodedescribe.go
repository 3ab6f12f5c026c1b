// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/client"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

// branch is a node of a tree that is printed: an object and what lies on it.
type branch struct {
	Name     string    `json:"name"`
	About    string    `json:"about,omitempty"`
	Children []*branch `json:"children,omitempty"`
}

// print writes a branch and what is below it.
func (b *branch) print(out *strings.Builder, prefix string) {
	out.WriteString(printable(b.Name))
	if b.About != "" {
		out.WriteString(" (" + printable(b.About) + ")")
	}
	out.WriteByte('\n')
	for i, child := range b.Children {
		stem, below := "|-- ", "|   "
		if i == len(b.Children)-1 {
			stem, below = "`-- ", "    "
		}
		out.WriteString(prefix + stem)
		child.print(out, prefix+below)
	}
}

func (a *app) nodeDescribe() *cobra.Command {
	cmd := &cobra.Command{
		Use: "describe [NODE]", Aliases: []string{"dsc"}, Short: "Show a node, or all, with the pools, resources and volumes on it", Args: between(0, 1),
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			nodes, err := s.Nodes(ctx, client.NodeFilter{Nodes: args})
			if err != nil {
				return err
			}
			if len(nodes) == 0 && len(args) > 0 {
				return WithExit(ExitNotFound, fmt.Errorf("there is no node %s", args[0]))
			}
			pools, err := s.StoragePools(ctx, client.StoragePoolFilter{Nodes: args})
			if err != nil {
				return err
			}
			resources, err := s.AllResources(ctx, client.ResourceFilter{Nodes: args})
			if err != nil {
				return err
			}
			return s.trees(a.describe(nodes, pools, resources))
		}),
	}
	return cmd
}

// trees prints trees, with a blank line between them.
func (s *session) trees(all []*branch) error {
	if s.form != text {
		body, err := wire.Encode(all)
		if err != nil {
			return err
		}
		return s.writeJSON(body)
	}
	var out strings.Builder
	for i, b := range all {
		if i > 0 {
			out.WriteByte('\n')
		}
		b.print(&out, "")
	}
	return s.write(out.String())
}

// describe returns the tree of each node.
func (a *app) describe(nodes []client.Node, pools []client.StoragePool, resources []client.ResourceWithVolumes) []*branch {
	trees := []*branch{}
	for _, n := range nodes {
		tree := &branch{Name: n.Name, About: string(n.Type) + ", " + a.nodeState(n).text}
		at := map[string]*branch{} // pools of the node
		for _, p := range pools {
			if p.NodeName == n.Name {
				b := &branch{Name: p.StoragePoolName, About: string(p.ProviderKind)}
				if free := knownSize(p.FreeCapacity); free != "" {
					b.About += ", " + free + " of " + knownSize(p.TotalCapacity) + " free"
				}
				at[p.StoragePoolName] = b
				tree.Children = append(tree.Children, b)
			}
		}
		for _, r := range resources {
			if r.NodeName == n.Name {
				describeResource(at, r)
			}
		}
		trees = append(trees, tree)
	}
	return trees
}

// describeResource puts a replica with its volumes below the pools that they lie in.
func describeResource(pools map[string]*branch, r client.ResourceWithVolumes) {
	below := map[string]*branch{}
	for _, v := range r.Volumes {
		pool := pools[v.StoragePoolName]
		if pool == nil {
			continue
		}
		b := below[v.StoragePoolName]
		if b == nil {
			b = &branch{Name: r.Name, About: resourceState(r).text}
			below[v.StoragePoolName] = b
			pool.Children = append(pool.Children, b)
		}
		about := volumeState(r.Resource, v).text
		if size := knownSize(usable(v)); size != "" {
			about = size + ", " + about
		}
		b.Children = append(b.Children, &branch{Name: fmt.Sprintf("volume %d %s", v.VolumeNumber, v.DevicePath), About: about})
	}
}
