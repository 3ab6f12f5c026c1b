// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Command holdfast is all of Holdfast in one binary: `holdfast up` (controller and agent in
// one process), `holdfast controller`, `holdfast agent`, `holdfast bench`, and the client
// commands in LINSTOR's grammar. Called as `linstor` it is those commands alone. It reads flags and configuration, and wires the parts
// together in order; it decides nothing.
package main

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/holdfast-storage/holdfast/internal/cli"
)

func main() {
	help(os.Args)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	env := cli.Env{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv, ReadFile: os.ReadFile,
		Terminal: term.IsTerminal(int(os.Stdout.Fd())), Width: width,
		Asks: term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stderr.Fd())),
	}
	code := cli.Run(ctx, commands(filepath.Base(os.Args[0]), env), env, os.Args[1:])
	stop()
	os.Exit(code)
}

// commands returns all commands of the program. Called by the name linstor, as a symbolic link lets it be, it is a client
// alone, and answers as the linstor client does.
func commands(name string, env cli.Env) *cobra.Command {
	root := &cobra.Command{
		Use:   "holdfast",
		Short: "Storage for KVM hosts and Kubernetes, from the disks of many hosts",
		Long: "Holdfast turns disks and NFS shares of many hosts into volumes. Its controller speaks the LINSTOR REST API;\n" +
			"its client commands have LINSTOR's grammar. `holdfast help topics` leads through the first day.",
		Version: version,
	}
	if name == "linstor" {
		root.Use = name
		cli.AddTo(root, env)
		return root
	}
	cli.AddTo(root, env)
	for _, c := range root.Commands() {
		if c.Name() == "controller" {
			serveController(c)
		}
	}
	root.AddCommand(upCommand(), agentCommand(), benchCommand(), databaseCommand())
	return root
}

// width returns how many columns the terminal has that is written to, or 0.
func width() int {
	columns, _, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil {
		return 0
	}
	return columns
}
