// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Markdown returns the pages of docs/cli.
func Markdown(root *cobra.Command) Pages {
	pages := Pages{"README.md": index(root)}
	for _, c := range topLevel(root) {
		pages[c.Name()+".md"] = page(c)
	}
	for _, c := range topics(root) {
		pages["topic-"+c.Name()+".md"] = "# " + c.Short + "\n\n```text\n" + strings.TrimSpace(strings.TrimPrefix(c.Long, c.Short)) + "\n```\n"
	}
	return pages
}

func index(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString("# The commands of " + root.Name() + "\n\nMade from the commands by a test: `make docs-cli` writes these pages anew. What differs from the linstor\n" +
		"client is in [differences.md](differences.md).\n\n| command | short | what |\n|---|---|---|\n")
	for _, c := range topLevel(root) {
		fmt.Fprintf(&b, "| [%s](%s.md) | %s | %s |\n", c.Name(), c.Name(), strings.Join(c.Aliases, ", "), escape(c.Short))
	}
	b.WriteString("\n## What people do on the first day\n\n")
	for _, c := range topics(root) {
		fmt.Fprintf(&b, "- [%s](topic-%s.md): %s\n", c.Name(), c.Name(), c.Short)
	}
	b.WriteString("\n## Options of all commands\n\nThey may stand before or after a command.\n\n| option | what |\n|---|---|\n")
	root.PersistentFlags().VisitAll(func(f *pflag.Flag) { writeOption(&b, shown(f)) })
	b.WriteString("\n## Exit codes\n\n| code | when |\n|--:|---|\n" + list(exitCodes(), "| %s | %s |\n"))
	b.WriteString("\n## Environment\n\n| variable | what |\n|---|---|\n" + list(variables(), "| `%s` | %s |\n"))
	return b.String()
}

// page is that of a command below the root.
func page(c *cobra.Command) string {
	var b strings.Builder
	b.WriteString("# " + c.CommandPath() + "\n\n" + paragraph(about(c)))
	for _, leaf := range leaves(c) {
		if leaf != c {
			b.WriteString("\n## " + strings.TrimPrefix(leaf.CommandPath(), c.Root().Name()+" ") + "\n\n" + paragraph(about(leaf)))
		}
		b.WriteString("\n```text\n" + usage(leaf) + "\n```\n")
		if s := short(leaf); s != "" {
			b.WriteString("\nShort: `" + s + "`\n")
		}
		if leaf.Example != "" {
			b.WriteString("\n```text\n" + unindented(leaf.Example) + "\n```\n")
		}
		writeOptions(&b, options(leaf))
	}
	return b.String()
}

func writeOptions(b *strings.Builder, all []option) {
	switch {
	case len(all) == 0:
	case len(all) > manyOptions:
		fmt.Fprintf(b, "\nOptions, which `--help` explains: %s.\n", names(all))
	default:
		b.WriteString("\n| option | what |\n|---|---|\n")
		for _, o := range all {
			writeOption(b, o)
		}
	}
}

func writeOption(b *strings.Builder, o option) {
	fmt.Fprintf(b, "| `%s` | %s |\n", escape(o.form), escape(o.text))
}

// escape keeps text from being taken for the frame of a table.
func escape(text string) string { return strings.NewReplacer("|", "\\|", "<", "&lt;").Replace(text) }

func paragraph(text string) string { return strings.ReplaceAll(text, "<", "&lt;") + "\n" }

// unindented takes the indentation of the first line from all.
func unindented(text string) string {
	indent := text[:len(text)-len(strings.TrimLeft(text, " "))]
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.TrimPrefix(strings.TrimRight(line, "\n"), indent))
	}
	return strings.Join(lines, "\n")
}
