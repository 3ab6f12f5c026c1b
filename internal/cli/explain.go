// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/client"
)

func (a *app) explain() *cobra.Command {
	var where placement
	cmd := &cobra.Command{
		Use: "explain GROUP [SIZE...]", Short: "Show where the next spawn from a resource group would go, and why not elsewhere",
		Long: "Show where the next spawn of volumes of these sizes from a resource group would put its replicas, and of every storage\n" +
			"pool whether it could take one, or why not. Nothing is changed.",
		Args: between(1, -1, "GROUP"),
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			filter, err := where.filter()
			if err != nil {
				return err
			}
			sizes, err := parseSizes(args[1:])
			if err != nil {
				return err
			}
			return s.planSpawn(ctx, args[0], sizes, filter)
		}),
	}
	pastable(cmd)
	where.addTo(cmd, "")
	where.addCount(cmd)
	return cmd
}

func explainTable(x client.Explanation) *table {
	t := newTable("Node", "StoragePool", "Driver", ">FreeCapacity", ">Room", ">Score", "Verdict")
	for _, p := range x.Pools {
		score := ""
		if p.Score != nil {
			score = strconv.FormatFloat(*p.Score, 'f', 3, 64)
		}
		t.row(p.NodeName, p.StoragePoolName, string(p.ProviderKind), p.FreeCapacity, p.Room, score, verdict(x, p))
	}
	return t
}

// verdict says whether a pool is used, and as which of the replicas.
func verdict(x client.Explanation, p client.ExplainedPool) cell {
	for i, pick := range x.Picks {
		if pick.NodeName == p.NodeName && pick.StoragePoolName == p.StoragePoolName {
			return cell{fmt.Sprintf("replica %d of %d", i+1, len(x.Picks)), green}
		}
	}
	if p.Accepted {
		return cell{text: "could be used"}
	}
	return cell{p.Reason, yellow}
}

func (a *app) pendingDeletes() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list-pending-deletes", Aliases: []string{"lpd"}, Short: "List resources that are being deleted, with why they have not gone yet", Args: nothing,
		RunE: a.run(func(ctx context.Context, s *session, _ []string) error {
			all, err := s.PendingDeletes(ctx)
			if err != nil {
				return err
			}
			t := newTable("ResourceName", "Node", "NodeState", ">Attempts", "NextTry", "LastError")
			for _, d := range all {
				state := cell{"Online", green}
				if !d.Connected {
					state = cell{"OFFLINE", red}
				}
				t.row(d.ResourceName, d.NodeName, state, fmt.Sprint(d.Attempts), a.when(d.NextTryTimestamp), d.LastError)
			}
			return s.list(t)
		}),
	}
	pastable(cmd)
	return cmd
}
