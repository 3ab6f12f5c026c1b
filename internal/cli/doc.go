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
// Tables are for people: they fit the terminal, in a frame or as records, and have colours only there. Without a terminal their
// columns and their forms stay the same for scripts. -o wide has more columns, -o name only what identifies each row, in the
// order in which commands take it; --bytes gives exact sizes, --watch the list again and again.
//
// -m prints the JSON of the API in the form in which the linstor client prints it (a list of the lists that the API gave), -o
// json the same without the outer list, -o yaml that as YAML. All are what the controller sent, not what this program
// understood of it.
//
// What the controller said goes to the standard output, also when it is an error; what went wrong on this side goes to
// the standard error. Either has three lines at most: what, why, and what to do. A reader of the output that goes away is not
// an error.
//
// # As linstor
//
// Called by the name linstor, the program answers as that client: entries in its blocks, no questions, no progress, no
// suggestions. As holdfast it asks before it destroys something, where it runs on a terminal and without --yes.
//
// # Adding a command
//
// A group is a method of app that returns a command, and a line in app.commands; a command of a group is a line there. Its body
// is a function of a [session], which [app.run] wraps:
//
//	func (a *app) nodeList() *cobra.Command {
//		var nodes list // a list option in LINSTOR's grammar
//		cmd := &cobra.Command{
//			Use: "list", Aliases: []string{"l"}, Short: "List nodes", Args: nothing,
//			RunE: a.run(func(ctx context.Context, s *session, _ []string) error {
//				all, err := s.Nodes(ctx, client.NodeFilter{Nodes: nodes})
//				if err != nil {
//					return err // run prints what the controller refused, and finds the exit code
//				}
//				t := newTable("Node", "State", ">Free", "+UUID").named("Node") // > right, + only with -o wide
//				for _, n := range all {
//					t.row(n.Name, a.nodeState(n), n.Free, n.UUID) // strings, cells with a colour, client.SizeKiB or a pointer to one
//				}
//				return s.list(t) // or the JSON of the last call
//			}),
//		}
//		pastable(cmd) // the flags of all lists
//		nodes.addTo(cmd.Flags(), "nodes", "n", "only these nodes")
//		return cmd
//	}
//
//	return s.changed(s.DeleteNode(ctx, name)) // a change: prints the entries of the answer
//
// Operands are named in Use with the words that completion knows: see complete.go. A command that destroys data
// asks with session.confirm before its first change. A command that takes long shows how far it is: session.begun for a
// stored job, during for a call that takes long. Mistakes in arguments are usagef.
//
// # Exit codes
//
// See the Exit constants.
package cli
