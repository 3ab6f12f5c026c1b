// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

type color string

const (
	none   color = ""
	red    color = "\x1b[31m"
	green  color = "\x1b[32m"
	yellow color = "\x1b[33m"
	reset        = "\x1b[0m"
)

// style says how output is drawn. The zero style is plain ASCII.
type style struct {
	color bool
	drawn bool // lines are drawn with box characters
}

// worse reports whether c tells of something worse than other does.
func (c color) worse(other color) bool { return c.severity() > other.severity() }

func (c color) severity() int {
	switch c {
	case red:
		return 3
	case yellow:
		return 2
	case none:
		return 1
	default:
		return 0
	}
}

func (s style) paint(c color, text string) string {
	if !s.color || c == none || text == "" {
		return text
	}
	return string(c) + text + reset
}

// table is what lists are shown in.
type table struct {
	columns []column
	rows    [][]cell
	lined   bool // a line between rows, where cells have several lines
}

type column struct {
	title string
	right bool // aligned to the right
}

// cell is a value with its colour. It may have several lines.
type cell struct {
	text  string
	color color
}

// newTable returns a table with columns; a title that starts with > is aligned to the right.
func newTable(titles ...string) *table {
	t := &table{}
	for _, title := range titles {
		name, right := strings.CutPrefix(title, ">")
		t.columns = append(t.columns, column{name, right})
	}
	return t
}

// row adds a row. A value is a string or a cell.
func (t *table) row(values ...any) {
	cells := make([]cell, len(t.columns))
	for i, v := range values {
		switch v := v.(type) {
		case cell:
			cells[i] = v
		case string:
			cells[i] = cell{text: v}
		}
	}
	t.rows = append(t.rows, cells)
}

// tall reports whether a cell has several lines.
func (t *table) tall() bool {
	for _, row := range t.rows {
		for _, c := range row {
			if strings.Contains(c.text, "\n") {
				return true
			}
		}
	}
	return false
}

// frame holds the characters of a table: left, fill and right of its top, head, inner and bottom lines, and what stands
// between cells.
type frame struct {
	top, head, inner, bottom [3]string
	bar                      string
}

func (s style) frame() frame {
	if s.drawn {
		return frame{
			top:    [3]string{"┌", "─", "┐"},
			head:   [3]string{"╞", "═", "╡"},
			inner:  [3]string{"├", "─", "┤"},
			bottom: [3]string{"└", "─", "┘"},
			bar:    "│",
		}
	}
	return frame{
		top:    [3]string{"+", "-", "+"},
		head:   [3]string{"|", "=", "|"},
		inner:  [3]string{"|", "-", "|"},
		bottom: [3]string{"+", "-", "+"},
		bar:    "|",
	}
}

// draw returns the table. Text from a controller cannot break it: control characters are shown as they are written in
// Go, and only line ends make a line.
func (t *table) draw(s style) string {
	widths := make([]int, len(t.columns))
	lines := make([][][]string, len(t.rows)) // of each cell
	titles := make([]cell, len(t.columns))
	for i, c := range t.columns {
		titles[i] = cell{text: c.title}
		widths[i] = width(c.title)
	}
	for r, row := range t.rows {
		lines[r] = make([][]string, len(row))
		for i, c := range row {
			lines[r][i] = cellLines(c.text)
			for _, line := range lines[r][i] {
				widths[i] = max(widths[i], width(line))
			}
		}
	}
	total := len(widths)*3 - 1
	for _, w := range widths {
		total += w
	}
	f := s.frame()
	var b strings.Builder
	rule := func(of [3]string) { b.WriteString(of[0] + strings.Repeat(of[1], total) + of[2] + "\n") }
	rule(f.top)
	t.drawLine(&b, s, f.bar, widths, titles)
	rule(f.head)
	for r, row := range t.rows {
		if r > 0 && t.lined {
			rule(f.inner)
		}
		for n := range height(lines[r]) {
			line := make([]cell, len(row))
			for i := range row {
				if n < len(lines[r][i]) {
					line[i] = cell{lines[r][i][n], row[i].color}
				}
			}
			t.drawLine(&b, s, f.bar, widths, line)
		}
	}
	rule(f.bottom)
	return b.String()
}

func (t *table) drawLine(b *strings.Builder, s style, bar string, widths []int, line []cell) {
	b.WriteString(bar)
	for i, c := range line {
		pad := strings.Repeat(" ", widths[i]-width(c.text))
		if t.columns[i].right {
			b.WriteString(" " + pad + s.paint(c.color, c.text) + " ")
		} else {
			b.WriteString(" " + s.paint(c.color, c.text) + pad + " ")
		}
		b.WriteString(bar)
	}
	b.WriteString("\n")
}

func height(cells [][]string) int {
	most := 1
	for _, lines := range cells {
		most = max(most, len(lines))
	}
	return most
}

func cellLines(text string) []string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = printable(line)
	}
	return lines
}

// printable returns line with everything that could move the cursor or colour the terminal made visible.
func printable(line string) string {
	if strings.IndexFunc(line, unprintable) < 0 && utf8.ValidString(line) {
		return line
	}
	var b strings.Builder
	for _, r := range line {
		if unprintable(r) {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }

// width returns how many characters wide a terminal shows text, if all are of single width.
func width(text string) int { return utf8.RuneCountInString(text) }
