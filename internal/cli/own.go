// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/client"
)

// The commands that LINSTOR does not have.

func (a *app) orphans() *cobra.Command {
	return group("orphans", nil, "Volumes on hosts that the controller knows nothing of", a.orphanList(), a.orphanRemove())
}

func (a *app) orphanList() *cobra.Command {
	var nodes, pools list
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"l"}, Short: "List orphans on connected hosts", Args: nothing,
		RunE: a.run(func(ctx context.Context, s *session, _ []string) error {
			all, err := s.Orphans(ctx, client.OrphanFilter{Nodes: nodes, StoragePools: pools})
			if err != nil {
				return err
			}
			t := newTable("Node", "StoragePool", "Volume")
			for _, o := range all {
				t.row(o.NodeName, o.StoragePoolName, o.Volume)
			}
			return s.list(t)
		}),
	}
	pastable(cmd)
	nodes.addTo(cmd.Flags(), "nodes", "n", "only orphans on these nodes")
	pools.addTo(cmd.Flags(), "storage-pools", "s", "only orphans in pools of these names")
	return cmd
}

func (a *app) orphanRemove() *cobra.Command {
	return &cobra.Command{
		Use: "remove NODE STORAGE_POOL VOLUME...", Aliases: []string{"rm"}, Short: "Destroy orphans with their data",
		Long: "Destroy orphans in a storage pool, by the names that they have on the host. Their data is lost. The host looks again\n" +
			"first: one that is in use, or that the controller knows by then, stays.",
		Args: between(3, -1, "NODE", "STORAGE_POOL", "VOLUME"),
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			if ok, err := s.confirm(ctx, func(context.Context) ([]string, error) {
				var lines []string
				for _, volume := range args[2:] {
					lines = append(lines, "volume "+volume+" in the pool "+args[1]+" of "+args[0])
				}
				return fewer(lines), nil
			}); !ok {
				return err
			}
			return s.changed(s.RemoveOrphans(ctx, args[0], args[1], args[2:]))
		}),
	}
}

func (a *app) jobs() *cobra.Command {
	return group("job", []string{"jobs"}, "Work that goes on beyond the command that began it", append(a.hostJobs(), a.jobList(), a.jobShow())...)
}

func (a *app) jobList() *cobra.Command {
	var states, nodes list
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"l", "ls"}, Short: "List jobs, the oldest first", Args: nothing,
		Long: "List jobs, the oldest first: those of the cluster, and those of hosts. With JSON or YAML those of the cluster are listed,\n" +
			"or with --nodes those of hosts.",
		RunE: a.run(func(ctx context.Context, s *session, _ []string) error {
			if len(nodes) > 0 {
				return s.listHostJobs(ctx, nodes, states)
			}
			all, err := s.Jobs(ctx, client.JobFilter{States: states})
			if err != nil {
				return err
			}
			t := newTable("Job", "Kind", "Object", "State", ">Done", "Begun", "NextTry", "Problem")
			for _, j := range all {
				problem := ""
				if len(j.Problems) > 0 {
					problem = j.Problems[0]
				}
				t.row(j.ID, j.Kind, j.Object, jobState(j), fmt.Sprintf("%d/%d", j.Done, j.Total), a.when(&j.CreateTimestamp),
					a.when(j.NextTryTimestamp), problem)
			}
			if err := s.list(t); err != nil || s.form != text || s.fromFile {
				return err
			}
			hosts, err := s.allHostJobs(ctx, nil, states)
			if foreign(err) { // A controller whose hosts do no jobs.
				return nil
			}
			if err != nil || len(hosts) == 0 {
				return err
			}
			return s.writeTable(a.hostJobTable(hosts))
		}),
	}
	pastable(cmd)
	nodes.addTo(cmd.Flags(), "nodes", "n", "only jobs of these hosts")
	states.addTo(cmd.Flags(), "states", "", "only jobs in these states: waiting, running, done, failed, cancelled")
	return cmd
}

func jobState(j client.Job) cell {
	switch {
	case j.State == "done":
		return cell{j.State, green}
	case j.State == "failed":
		return cell{j.State, red}
	case j.Failed > 0:
		return cell{j.State, yellow}
	default:
		return cell{text: j.State}
	}
}

func (a *app) jobShow() *cobra.Command {
	var node string
	cmd := &cobra.Command{
		Use: "show JOB", Aliases: []string{"s"}, Short: "Show a job with all problems of its newest try", Args: exactly("JOB"),
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			if node != "" {
				j, err := s.HostJob(ctx, node, args[0])
				if err != nil {
					return err
				}
				return s.showHostJob(j)
			}
			j, err := s.Job(ctx, args[0])
			if client.IsNotFound(err) {
				on, found, err := s.hostJobNamed(ctx, args[0])
				if err != nil {
					return err
				}
				if found {
					return s.showHostJob(on)
				}
			}
			if err != nil {
				return err
			}
			if s.form != text {
				return s.writeJSON(s.last)
			}
			t := newTable("Key", "Value")
			for _, row := range [][2]string{
				{"Job", j.ID},
				{"Kind", j.Kind},
				{"Object", j.Object},
				{"State", j.State},
				{"Done", fmt.Sprintf("%d of %d", j.Done, j.Total)},
				{"Problems", fmt.Sprint(j.Failed)},
				{"Attempts", fmt.Sprint(j.Attempts)},
				{"Begun", a.when(&j.CreateTimestamp)},
				{"Looked at", a.when(&j.UpdateTimestamp)},
				{"Next try", a.when(j.NextTryTimestamp)},
				{"Ended", a.when(j.EndTimestamp)},
			} {
				t.row(row[0], row[1])
			}
			if err := s.writeTable(t); err != nil || len(j.Problems) == 0 {
				return err
			}
			return s.write("\n" + printableText(strings.Join(j.Problems, "\n")))
		}),
	}
	pastable(cmd)
	cmd.Flags().StringVarP(&node, "node", "n", "", "the job is one of this host")
	return cmd
}
