// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strings"
)

// narrowest is how far a column is made narrower before a table is shown as records instead.
const narrowest = 10

// drawFitting returns the table as it fits a terminal: the widest columns become narrower and their cells taller. Where that
// is not enough, each row is shown as a record, a line for each column. Nothing is left out.
func (t *table) drawFitting(s style) string {
	widths := t.widths()
	if s.width <= 0 || drawnWidth(widths) <= s.width {
		return t.drawFrame(s)
	}
	if !t.narrow(widths, s.width) {
		return t.drawRecords(s)
	}
	for _, row := range t.rows {
		for i := range row {
			row[i].text = wrap(row[i].text, widths[i])
		}
	}
	t.lined = t.lined || t.tall()
	return t.drawFrame(s)
}

// narrow makes the widest columns narrower until the table fits, and reports whether it does.
func (t *table) narrow(widths []int, most int) bool {
	for excess := drawnWidth(widths) - most; excess > 0; excess-- {
		widest := -1
		for i, w := range widths {
			if least := max(narrowest, width(t.columns[i].title)); w > least && (widest < 0 || w > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return false
		}
		widths[widest]--
	}
	return true
}

// drawRecords returns a block of lines for each row.
func (t *table) drawRecords(s style) string {
	titles := 0
	for _, c := range t.columns {
		titles = max(titles, width(c.title))
	}
	var b strings.Builder
	for r, row := range t.rows {
		if r > 0 {
			b.WriteByte('\n')
		}
		for i, c := range row {
			title := t.columns[i].title
			for n, line := range cellLines(c.text) {
				if n > 0 {
					title = ""
				}
				b.WriteString(strings.TrimRight(title+strings.Repeat(" ", titles-width(title))+"  "+s.paint(c.color, line), " ") + "\n")
			}
		}
	}
	return b.String()
}

// wrap breaks lines that are longer than most, after a blank or a comma where there is one.
func wrap(text string, most int) string {
	var out []string
	for _, line := range cellLines(text) {
		rest := []rune(line)
		for len(rest) > most {
			cut := most
			for i := most; i > most/2; i-- {
				if rest[i-1] == ' ' || rest[i-1] == ',' || rest[i] == ' ' {
					cut = i
					break
				}
			}
			out = append(out, strings.TrimRight(string(rest[:cut]), " "))
			rest = []rune(strings.TrimLeft(string(rest[cut:]), " "))
		}
		out = append(out, string(rest))
	}
	return strings.Join(out, "\n")
}
