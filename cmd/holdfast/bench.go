// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/internal/bench"
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
	c.AddCommand(scaleCommand(), bareCommand())
	return c
}

func scaleCommand() *cobra.Command {
	var cfg bench.Scale
	c := &cobra.Command{
		Use:   "scale",
		Short: "Measure a large cluster of simulated hosts on this machine",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			program, err := os.Executable()
			if err != nil {
				return err
			}
			cfg.Program, cfg.Out = program, c.OutOrStdout()
			return cfg.Run(c.Context())
		},
	}
	c.Flags().IntVar(&cfg.Agents, "agents", 100, "simulated hosts")
	c.Flags().IntVar(&cfg.Definitions, "definitions", 10000, "definitions, each with two replicas")
	c.Flags().IntVar(&cfg.Clients, "clients", 8, "clients at once")
	c.Flags().IntVar(&cfg.Parallel, "parallel", 200, "spawns at once, on four hosts")
	c.Flags().StringVar(&cfg.Dir, "dir", "", "folder on the disk to measure (default: that for temporary files)")
	return c
}

// bareCommand serves the handler that the bench measures the ceiling with.
func bareCommand() *cobra.Command {
	var listen, data string
	c := &cobra.Command{
		Use: "bare", Hidden: true, Args: cobra.NoArgs, Short: "Serve the bare handler of the bench",
		RunE: func(c *cobra.Command, _ []string) error {
			return bench.Bare(c.Context(), listen, data)
		},
	}
	c.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "address")
	c.Flags().StringVar(&data, "data", "", "folder of the database")
	return c
}
