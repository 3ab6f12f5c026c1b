// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"

	"github.com/spf13/cobra"
)

func (a *app) remote() *cobra.Command {
	return group("remote", nil, "What backups can be shipped to", a.remoteList())
}

func (a *app) remoteList() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"l"}, Short: "List remotes", Args: nothing,
		RunE: a.run(func(ctx context.Context, s *session, _ []string) error {
			all, err := s.Remotes(ctx)
			if err != nil {
				return err
			}
			t := newTable("Name", "Type", "Info")
			for _, r := range all.S3Remotes {
				t.row(r.RemoteName, "S3", r.Region+"."+r.Endpoint+"/"+r.Bucket)
			}
			for _, r := range all.LinstorRemotes {
				t.row(r.RemoteName, "Linstor", r.URL)
			}
			for _, r := range all.EBSRemotes {
				t.row(r.RemoteName, "EBS", r.AvailabilityZone)
			}
			if s.form != text {
				return s.writeJSON(s.last)
			}
			return s.writeTable(t)
		}),
	}
	pastable(cmd)
	return cmd
}
