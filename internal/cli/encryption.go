// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/client"
)

func (a *app) encryption() *cobra.Command {
	return group("encryption", []string{"e"}, "The passphrase of the cluster, under which the keys of encrypted volumes are kept",
		a.passphraseCreate(), a.passphraseEnter(), a.passphraseModify(), a.passphraseStatus())
}

// secret returns a passphrase: the one of a flag, or one that is asked for on the terminal, twice where it is new, or that is a
// line of the input.
func (a *app) secret(ctx context.Context, given, what string, isNew bool) (client.Secret, error) {
	if given == "" {
		var err error
		if given, err = a.env.Secret(ctx, what+": "); err != nil {
			return "", fmt.Errorf("read the passphrase: %w", err)
		}
		if isNew && a.env.Asks {
			again, err := a.env.Secret(ctx, what+" again: ")
			if err != nil {
				return "", fmt.Errorf("read the passphrase: %w", err)
			}
			if again != given {
				return "", usagef("the two passphrases are not the same")
			}
		}
	}
	if given == "" {
		return "", usagef("the passphrase is empty")
	}
	return client.Secret(given), nil
}

// howGiven says how secrets are given.
const howGiven = "Without an option it is asked for, or read from the standard input: others on this host can see options."

func (a *app) passphraseCreate() *cobra.Command {
	var given string
	cmd := &cobra.Command{
		Use: "create-passphrase", Aliases: []string{"cp"}, Short: "Set the passphrase of a cluster that has none", Long: howGiven, Args: nothing,
		RunE: a.run(func(ctx context.Context, s *session, _ []string) error {
			passphrase, err := a.secret(ctx, given, "New passphrase", true)
			if err != nil {
				return err
			}
			return s.changed(s.CreatePassphrase(ctx, passphrase))
		}),
	}
	cmd.Flags().StringVarP(&given, "passphrase", "p", "", "the passphrase")
	return cmd
}

func (a *app) passphraseEnter() *cobra.Command {
	var given string
	cmd := &cobra.Command{
		Use: "enter-passphrase", Aliases: []string{"ep"}, Short: "Unlock a controller that was started anew", Long: howGiven, Args: nothing,
		RunE: a.run(func(ctx context.Context, s *session, _ []string) error {
			passphrase, err := a.secret(ctx, given, "Passphrase", false)
			if err != nil {
				return err
			}
			return s.changed(s.EnterPassphrase(ctx, passphrase))
		}),
	}
	cmd.Flags().StringVarP(&given, "passphrase", "p", "", "the passphrase")
	return cmd
}

func (a *app) passphraseModify() *cobra.Command {
	var before, after string
	cmd := &cobra.Command{
		Use: "modify-passphrase", Aliases: []string{"mp"}, Short: "Change the passphrase", Long: howGiven, Args: nothing,
		RunE: a.run(func(ctx context.Context, s *session, _ []string) error {
			old, err := a.secret(ctx, before, "Passphrase", false)
			if err != nil {
				return err
			}
			passphrase, err := a.secret(ctx, after, "New passphrase", true)
			if err != nil {
				return err
			}
			return s.changed(s.ModifyPassphrase(ctx, old, passphrase))
		}),
	}
	cmd.Flags().StringVar(&before, "old-passphrase", "", "the passphrase until now")
	cmd.Flags().StringVar(&after, "new-passphrase", "", "the passphrase from now on")
	return cmd
}

func (a *app) passphraseStatus() *cobra.Command {
	cmd := &cobra.Command{
		Use: "status", Aliases: []string{"st"}, Short: "Show whether there is a passphrase, and whether the controller knows it", Args: nothing,
		RunE: a.run(func(ctx context.Context, s *session, _ []string) error {
			status, err := s.PassphraseStatus(ctx)
			if err != nil {
				return err
			}
			if s.form != text {
				return s.writeJSON(s.last)
			}
			return s.write(printable(status) + "\n")
		}),
	}
	return cmd
}

func (a *app) volumePassphrase() *cobra.Command {
	return &cobra.Command{
		Use: "modify-passphrase RESOURCE VOLUME_NR [PASSPHRASE]", Aliases: []string{"mp"}, Short: "Change the passphrase of an encrypted volume",
		Long: "Without the passphrase it is asked for, or read from the standard input: others on this host can see arguments.",
		Args: between(2, 3, "RESOURCE", "VOLUME_NR"),
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			number, err := volumeNumber(args[1])
			if err != nil {
				return err
			}
			passphrase, err := a.secret(ctx, append(args, "")[2], "New passphrase", true)
			if err != nil {
				return err
			}
			return s.changed(s.ModifyVolumePassphrase(ctx, args[0], number, passphrase))
		}),
	}
}
