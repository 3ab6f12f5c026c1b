// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/internal/bench"
	"github.com/holdfast-storage/holdfast/internal/telemetry"
)

func benchCommand() *cobra.Command {
	var cfg bench.Config
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure rates, latencies and memory on this machine",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			program, err := os.Executable()
			if err != nil {
				return err
			}
			cfg.Program, cfg.Out, cfg.Device = program, c.OutOrStdout(), os.Getuid() == 0
			return bench.Run(c.Context(), cfg)
		},
	}
	c.Flags().IntSliceVar(&cfg.Sizes, "definitions", []int{1000, 5000, 20000}, "numbers of definitions to measure at")
	c.Flags().IntVar(&cfg.Clients, "clients", 8, "clients at once")
	c.Flags().StringVar(&cfg.Dir, "dir", "", "folder on the disk to measure (default: that for temporary files)")
	c.AddCommand(bareCommand())
	return c
}

// bareCommand serves the handler that the bench measures the ceiling with.
func bareCommand() *cobra.Command {
	var listen, data string
	c := &cobra.Command{
		Use: "bare", Hidden: true, Args: cobra.NoArgs, Short: "Serve the bare handler of the bench",
		RunE: func(c *cobra.Command, _ []string) error {
			return bench.Bare(c.Context(), listen, data, telemetry.Handler(telemetry.Registry()))
		},
	}
	c.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "address")
	c.Flags().StringVar(&data, "data", "", "folder of the database")
	return c
}
