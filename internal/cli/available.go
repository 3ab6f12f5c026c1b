// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/client"
)

func (a *app) makeAvailable() *cobra.Command {
	var (
		diskful bool
		layers  commas
		tcpPort port
	)
	cmd := &cobra.Command{
		Use: "make-available NODE RESOURCE", Aliases: []string{"mkavail"}, Short: "Make a resource usable on a node", Args: exactly("NODE", "RESOURCE"),
		Long: "Make a resource usable on a node. A replica that is there stays. Otherwise one without a disk is added when the data can\n" +
			"come over the network, and one with a disk when not.",
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			ask := client.ResourceMakeAvailable{LayerList: upper[client.LayerType](layers)}
			if diskful {
				ask.Diskful = &diskful
			}
			if tcpPort.value != nil {
				ask.DrbdTCPPorts = []client.Int32{*tcpPort.value}
			}
			return s.changed(s.MakeAvailable(ctx, args[1], args[0], ask))
		}),
	}
	cmd.Flags().BoolVar(&diskful, "diskful", false, "with a disk of its own")
	cmd.Flags().VarP(&layers, "layer-list", "l", "layers from top to bottom, such as drbd,luks,storage")
	cmd.Flags().Var(&tcpPort, "drbd-tcp-port", "port of DRBD")
	return cmd
}

// waitSync asks again and again: the API has no call that waits.
func (a *app) waitSync() *cobra.Command {
	var most int
	cmd := &cobra.Command{
		Use: "wait-sync RESOURCE", Aliases: []string{"ws"}, Short: "Wait until all replicas of a resource hold the same data", Args: exactly("RESOURCE"),
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			if most > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, time.Duration(most)*time.Second)
				defer cancel()
			}
			err := s.until(ctx, func() (bool, error) { return s.SyncStatus(ctx, args[0]) })
			if ctx.Err() != nil && errors.Is(err, context.DeadlineExceeded) {
				return WithExit(ExitTimeout, fmt.Errorf("the replicas of %s do not hold the same data yet", args[0]))
			}
			return interruption(err, "holdfast resource list -r "+args[0])
		}),
	}
	cmd.Flags().IntVar(&most, "wait-timeout", 0, "seconds to wait at most (default no bound)")
	return cmd
}

// effectiveProperties lists what holds for a replica, and where it comes from.
func (a *app) effectiveProperties() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list-effective NODE RESOURCE", Aliases: []string{"le"}, Short: "List the properties that hold for a resource, and where they are set",
		Args: exactly("NODE", "RESOURCE"),
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			r, err := s.Resource(ctx, args[1], args[0])
			if err != nil {
				return err
			}
			if s.form != text {
				return s.writeJSON(s.last)
			}
			t := newTable("Key", "Value", "SetAt", "Hides")
			for _, key := range slices.Sorted(maps.Keys(r.EffectiveProps)) {
				p := r.EffectiveProps[key]
				var hides []string
				for _, o := range p.Other {
					hides = append(hides, o.Value+" ("+o.Descr+")")
				}
				t.row(key, p.Value, p.Descr, strings.Join(hides, "\n"))
			}
			return s.writeTable(t)
		}),
	}
	pastable(cmd)
	return cmd
}
