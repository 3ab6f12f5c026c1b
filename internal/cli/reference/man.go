// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Man returns pages of section 1: one about the program, and one for each command below the root, named as git does.
func Man(root *cobra.Command) Pages {
	pages := Pages{root.Name() + ".1": manIndex(root)}
	for _, c := range topLevel(root) {
		pages[root.Name()+"-"+c.Name()+".1"] = manPage(c)
	}
	return pages
}

func manHead(name, what string) string {
	return fmt.Sprintf(".TH %s 1\n.SH NAME\n%s \\- %s\n", strings.ToUpper(roff(name)), roff(name), roff(what))
}

func manIndex(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString(manHead(root.Name(), root.Short))
	b.WriteString(".SH SYNOPSIS\n.B " + root.Name() + "\nCOMMAND [OPTIONS]\n.SH DESCRIPTION\n" + roffText(about(root)))
	b.WriteString(".SH COMMANDS\n")
	for _, c := range topLevel(root) {
		b.WriteString(".TP\n.BR " + roff(root.Name()+"-"+c.Name()) + " (1)\n" + roffText(c.Short))
	}
	b.WriteString(".SH OPTIONS\n")
	root.PersistentFlags().VisitAll(func(f *pflag.Flag) { manOption(&b, shown(f)) })
	b.WriteString(".SH EXIT STATUS\n")
	for _, code := range exitCodes() {
		b.WriteString(".TP\n.B " + code[0] + "\n" + roffText(code[1]))
	}
	b.WriteString(".SH ENVIRONMENT\n")
	for _, v := range variables() {
		b.WriteString(".TP\n.B " + roff(v[0]) + "\n" + roffText(v[1]))
	}
	for _, c := range topics(root) {
		b.WriteString(".SH " + strings.ToUpper(roff(c.Short)) + "\n.nf\n" + roffText(strings.TrimSpace(strings.TrimPrefix(c.Long, c.Short))) + ".fi\n")
	}
	return b.String()
}

func manPage(c *cobra.Command) string {
	var b strings.Builder
	b.WriteString(manHead(strings.ReplaceAll(c.CommandPath(), " ", "-"), c.Short))
	b.WriteString(".SH SYNOPSIS\n.nf\n")
	for _, leaf := range leaves(c) {
		b.WriteString(roffText(usage(leaf)))
	}
	b.WriteString(".fi\n.SH DESCRIPTION\n" + roffText(about(c)))
	for _, leaf := range leaves(c) {
		if leaf != c {
			b.WriteString(".SS " + roff(leaf.CommandPath()) + "\n" + roffText(about(leaf)))
		}
		if s := short(leaf); s != "" {
			b.WriteString(".PP\nShort: " + roff(s) + "\n")
		}
		if leaf.Example != "" {
			b.WriteString(".PP\n.nf\n" + roffText(leaf.Example) + ".fi\n")
		}
		all := options(leaf)
		if len(all) > manyOptions {
			b.WriteString(".PP\n" + roffText("Options, which --help explains: "+names(all)+"."))
			continue
		}
		for _, o := range all {
			manOption(&b, o)
		}
	}
	b.WriteString(".SH SEE ALSO\n.BR " + roff(c.Root().Name()) + " (1)\n")
	return b.String()
}

func manOption(b *strings.Builder, o option) {
	b.WriteString(".TP\n.B " + roff(o.form) + "\n" + roffText(o.text))
}

// roff escapes text within a line.
func roff(text string) string {
	return strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "\n", " ").Replace(text)
}

// roffText escapes lines: one that begins as a request of roff would is kept from being one.
func roffText(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = roff(strings.TrimRight(line, "\n"))
		if strings.HasPrefix(line, ".") {
			line = `\&` + line
		}
		if line == "" {
			line = ".PP"
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}
