// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package cli holds the client commands of holdfast, in LINSTOR's grammar: names, aliases, options, tables and exit codes are
// those that users of the linstor client know, so that their habits and scripts keep working.
//
// # Use
//
// [AddTo] puts the commands and the global flags below a root command, and [Run] runs it. Nothing here ends the process,
// keeps state between runs or touches anything that is not in [Env].
//
//	root := &cobra.Command{Use: "holdfast"}
//	cli.AddTo(root, env)
//	os.Exit(cli.Run(ctx, root, env, os.Args[1:]))
//
// # Grammar
//
// An option that takes a list takes all arguments up to the next option, as in LINSTOR: -s ssd hdd. Elements may also be
// separated by commas: -s ssd,hdd. [Run] rewrites such arguments before cobra sees them. Global flags may stand before or
// after the command; their short forms -m and -t mean the global flag wherever the command has no such flag itself.
//
// # Output
//
// Tables are for people. -m prints the JSON of the API in the form in which the linstor client prints it (a list of the
// lists that the API gave), and -o json the same without the outer list. Both are what the controller sent, not what
// this program understood of it.
//
// What the controller said goes to the standard output, also when it is an error; what went wrong on this side goes to
// the standard error. A reader of the output that goes away is not an error.
//
// # Exit codes
//
// See the Exit constants.
package cli
