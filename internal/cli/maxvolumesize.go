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

func (a *app) queryMaxVolumeSize() *cobra.Command {
	cmd := &cobra.Command{
		Use: "query-max-volume-size NAME", Aliases: []string{"qmvs"}, Short: "Show how large a volume of a group can be, for each name of a pool",
		Args: exactly("NAME"),
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			sizes, err := s.MaxVolumeSizes(ctx, args[0])
			if err != nil {
				return err
			}
			return s.maxVolumeSizes(sizes)
		}),
	}
	pastable(cmd)
	return cmd
}

func (a *app) maxVolumeSizeFor() *cobra.Command {
	var where placement
	cmd := &cobra.Command{
		Use: "query-max-volume-size REPLICAS", Aliases: []string{"qmvs"}, Short: "Show how large a volume with so many replicas can be, for each name of a pool",
		Args: exactly("REPLICAS"),
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			if err := where.count.Set(args[0]); err != nil {
				return err
			}
			filter, err := where.filter()
			if err != nil {
				return err
			}
			sizes, err := s.MaxVolumeSizesFor(ctx, *filter)
			if err != nil {
				return err
			}
			return s.maxVolumeSizes(sizes)
		}),
	}
	pastable(cmd)
	where.addTo(cmd, "")
	return cmd
}

// maxVolumeSizes prints an answer.
func (s *session) maxVolumeSizes(sizes client.MaxVolumeSizes) error {
	t := newTable("StoragePool", ">MaxVolumeSize", "Provisioning", "Nodes")
	for _, c := range sizes.Candidates {
		provisioning := "Thick"
		if c.AllThin {
			provisioning = "Thin"
			if ratio := sizes.DefaultMaxOversubscriptionRatio; ratio != nil {
				provisioning = fmt.Sprintf("Thin, oversubscription ratio %.1f", *ratio)
			}
		}
		t.row(c.StoragePool, c.MaxVolumeSize, provisioning, strings.Join(c.NodeNames, ", "))
	}
	if s.form == text {
		return s.writeTable(t)
	}
	return s.listJSON(s.last)
}
