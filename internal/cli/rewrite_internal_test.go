// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func FuzzRewrite(f *testing.F) {
	f.Add("-m\nnode\nlist")
	f.Add("rg\nc\ng\n-s\na\nb\n--diskless-on-remaining\nfalse\n-l\ndrbd")
	f.Add("-t\nn\nl\n--\n-s")
	f.Add("r\nc\n--auto-place\n+1\n-")
	f.Add("__complete\nn")
	f.Fuzz(func(t *testing.T, line string) {
		var out strings.Builder
		env := Env{Stdout: &out, Stderr: &out}
		root := &cobra.Command{Use: "holdfast"}
		AddTo(root, env)
		args := strings.Split(line, "\n")
		before := strings.Join(args, "\n")
		cmd, rewritten, err := rewrite(root, args)
		if cmd == nil {
			t.Fatalf("%q names no command", args)
		}
		if strings.Join(args, "\n") != before {
			t.Fatalf("%q has been changed to %q", before, args)
		}
		if err == nil && len(rewritten) > 3*len(args)+3 {
			t.Fatalf("%q becomes %q", args, rewritten)
		}
	})
}

func FuzzTable(f *testing.F) {
	f.Add("a\nb", "\x1b[31m", "\xff")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		table := newTable("One", ">Two")
		table.row(a, cell{b, red})
		table.row(c)
		drawn := table.draw(style{})
		first, _, _ := strings.Cut(drawn, "\n")
		for line := range strings.Lines(drawn) {
			line = strings.TrimSuffix(line, "\n")
			if width(line) != width(first) || strings.ContainsFunc(line, unprintable) {
				t.Fatalf("the table is broken by %q, %q, %q:\n%s", a, b, c, drawn)
			}
		}
	})
}
