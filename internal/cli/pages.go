// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/internal/cli/reference"
)

// pages writes the pages about the commands: docs/cli, or those for man. It is for packaging and tests.
func (a *app) pages() *cobra.Command {
	form := choice{"markdown", []string{"markdown", "man"}}
	cmd := &cobra.Command{
		Use: "pages FOLDER", Hidden: true, Short: "Write the pages about all commands into a folder", Args: exactly("FOLDER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			pages := reference.Markdown(cmd.Root())
			if form.value == "man" {
				pages = reference.Man(cmd.Root())
			}
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			for name, content := range pages {
				if err := os.WriteFile(filepath.Join(args[0], name), []byte(content), 0o644); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().Var(&form, "form", "of the pages")
	return cmd
}
