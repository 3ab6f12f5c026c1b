// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Command holdfast is all of Holdfast in one binary: `holdfast up` (controller and agent in
// one process), `holdfast controller`, `holdfast agent`, `holdfast bench`, and the client
// commands in LINSTOR's grammar. It reads flags and configuration, and wires the parts
// together in order; it decides nothing.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/holdfast-storage/holdfast/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	env := cli.Env{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv,
		Terminal: term.IsTerminal(int(os.Stdout.Fd())),
	}
	root := &cobra.Command{
		Use:   "holdfast",
		Short: "Storage for KVM hosts and Kubernetes, from the disks of many hosts",
		Long: "Holdfast turns disks and NFS shares of many hosts into volumes. Its controller speaks the LINSTOR REST API;\n" +
			"its client commands have LINSTOR's grammar.",
		Version: version,
	}
	cli.AddTo(root, env)
	for _, c := range root.Commands() {
		if c.Name() == "controller" {
			serveController(c)
		}
	}
	root.AddCommand(upCommand(), agentCommand(), benchCommand())
	code := cli.Run(ctx, root, env, os.Args[1:])
	stop()
	os.Exit(code)
}
