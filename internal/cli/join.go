// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/client"
)

func (a *app) nodeJoinToken() *cobra.Command {
	var expires time.Duration
	cmd := &cobra.Command{
		Use: "join-token NODE", Short: "Make a token by which a host can join as a node, once", Args: exactly("NODE"),
		Long: "Make a token by which a host can join as a node, once, and print it. It replaces the one before. Start the agent\n" +
			"of the host with it: holdfast agent --join TOKEN, or write it to a file for --join-file.",
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			var create client.JoinTokenCreate
			if expires != 0 {
				if expires < time.Second {
					return usagef("--expires %s is shorter than a second", expires)
				}
				create.ExpiresIn = new(int64(expires / time.Second))
			}
			token, err := s.CreateJoinToken(ctx, args[0], create)
			if err != nil {
				return err
			}
			if s.form != text {
				return s.listJSON(s.last)
			}
			return s.write(printable(string(token.Token)) + "\n")
		}),
	}
	cmd.Flags().DurationVar(&expires, "expires", 0, "how long the token is good, such as 1h; at most 720h (default 24h)")
	return cmd
}
