// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/spf13/cobra"
)

// topicFiles are pages of help about the things that people do on the first day. The number in a file's name is its place in the
// list, and the first line is what it is about.
//
//go:embed topics/*.txt
var topicFiles embed.FS

// helpTopics returns the pages of help: commands that do nothing but can be asked about.
func helpTopics() []*cobra.Command {
	var index strings.Builder
	index.WriteString("The things that people do on the first day. Read one with 'holdfast help TOPIC':\n\n")
	var pages []*cobra.Command
	files, err := fs.Glob(topicFiles, "topics/*.txt")
	if err != nil { // The pattern is right.
		return nil
	}
	for _, file := range files {
		text, err := topicFiles.ReadFile(file)
		if err != nil { // The program holds it.
			continue
		}
		_, name, _ := strings.Cut(strings.TrimSuffix(path.Base(file), ".txt"), "-")
		about, _, _ := strings.Cut(string(text), "\n")
		fmt.Fprintf(&index, "  %-14s %s\n", name, about)
		pages = append(pages, &cobra.Command{Use: name, Short: about, Long: strings.TrimRight(string(text), "\n")})
	}
	return append(pages, &cobra.Command{
		Use: "topics", Short: "What people do on the first day: holdfast help topics", Long: strings.TrimRight(index.String(), "\n"),
	})
}
