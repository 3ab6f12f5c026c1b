// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/holdfast-storage/holdfast/client"
)

type color string

const (
	none   color = ""
	red    color = "\x1b[31m"
	green  color = "\x1b[32m"
	yellow color = "\x1b[33m"
	reset        = "\x1b[0m"
)

// style says how output is drawn. The zero style is plain ASCII of any width.
type style struct {
	color bool
	drawn bool // lines are drawn with box characters
	width int  // of the terminal; 0 is no bound
	bytes bool // sizes are exact
	wide  bool // with the columns that are left out otherwise
	names bool // only what identifies a row
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
	rows    [][]value
	lined   bool  // a line between rows, where cells have several lines
	keys    []int // the columns that identify a row, in the order in which commands take them; nil is the first
}

type column struct {
	title string
	right bool // aligned to the right
	wide  bool // shown only when more columns are asked for
}

// cell is a value with its colour. It may have several lines.
type cell struct {
	text  string
	color color
}

// value is what a cell shows: a text or a size.
type value struct {
	cell

	size *client.SizeKiB // shown instead of the text
}

// newTable returns a table with columns. A title that starts with > is aligned to the right; one that starts with + is shown
// only in wide tables (+> for both).
func newTable(titles ...string) *table {
	t := &table{}
	t.add(titles...)
	return t
}

// add adds columns to a table that has no rows yet.
func (t *table) add(titles ...string) {
	for _, title := range titles {
		title, wide := strings.CutPrefix(title, "+")
		title, right := strings.CutPrefix(title, ">")
		t.columns = append(t.columns, column{title, right, wide})
	}
}

// named sets the columns that identify a row, by title, in the order in which commands take them: they are what -o name prints.
func (t *table) named(titles ...string) *table {
	for _, title := range titles {
		t.keys = append(t.keys, t.column(title))
	}
	return t
}

// column returns the position of a column, in any case of letters, or -1.
func (t *table) column(title string) int {
	return slices.IndexFunc(t.columns, func(c column) bool { return strings.EqualFold(c.title, title) })
}

// row adds a row. A value is a string, a cell, or a size or a pointer to one, which may be nil: not known.
func (t *table) row(values ...any) {
	row := make([]value, len(t.columns))
	for i, v := range values {
		switch v := v.(type) {
		case cell:
			row[i].cell = v
		case string:
			row[i].text = v
		case client.SizeKiB:
			row[i].size = &v
		case *client.SizeKiB:
			row[i].size = v
		}
	}
	t.rows = append(t.rows, row)
}

// group sorts the rows by columns, in the order given.
func (t *table) group(titles []string) error {
	var by []int
	for _, title := range titles {
		i := t.column(title)
		if i < 0 {
			return usagef("--groupby: there is no column %q; there are %s", title, strings.Join(t.titles(), ", "))
		}
		by = append(by, i)
	}
	slices.SortStableFunc(t.rows, func(a, b []value) int {
		for _, i := range by {
			if c := compareValues(a[i], b[i]); c != 0 {
				return c
			}
		}
		return 0
	})
	return nil
}

func compareValues(a, b value) int {
	if a.size != nil && b.size != nil {
		return cmp.Compare(*a.size, *b.size)
	}
	return strings.Compare(strings.ToLower(a.text), strings.ToLower(b.text))
}

func (t *table) titles() []string {
	titles := make([]string, len(t.columns))
	for i, c := range t.columns {
		titles[i] = c.title
	}
	return titles
}

// shown returns the table with the columns that a style shows, and sizes as texts.
func (t *table) shown(s style) *table {
	out := &table{lined: t.lined, rows: make([][]value, len(t.rows))}
	var kept []int
	for i, c := range t.columns {
		if s.wide || !c.wide {
			kept = append(kept, i)
			out.columns = append(out.columns, c)
		}
	}
	for r, row := range t.rows {
		out.rows[r] = make([]value, len(kept))
		for n, i := range kept {
			out.rows[r][n].cell = row[i].shown(s)
		}
	}
	return out
}

func (v value) shown(s style) cell {
	switch {
	case v.size == nil:
	case s.bytes && *v.size != client.Unlimited:
		v.text = exactSize(*v.size)
	default:
		v.text = knownSize(v.size)
	}
	return v.cell
}

// draw returns the table, as a style shows it. Text from a controller cannot break it: control characters are shown as they
// are written in Go, and only line ends make a line.
func (t *table) draw(s style) string {
	if s.names {
		return t.drawNames()
	}
	return t.shown(s).drawFitting(s)
}

// drawNames returns a line for each row, with what identifies it.
func (t *table) drawNames() string {
	keys := t.keys
	if keys == nil {
		keys = []int{0}
	}
	var b strings.Builder
	for _, row := range t.rows {
		for n, i := range keys {
			if n > 0 {
				b.WriteByte(' ')
			}
			b.WriteString(printable(row[i].text))
		}
		b.WriteByte('\n')
	}
	return b.String()
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

// drawFrame returns the table in a frame, with the text of each cell as it is.
func (t *table) drawFrame(s style) string {
	widths := t.widths()
	lines := make([][][]string, len(t.rows)) // of each cell
	titles := make([]cell, len(t.columns))
	for i, c := range t.columns {
		titles[i] = cell{text: c.title}
	}
	for r, row := range t.rows {
		lines[r] = make([][]string, len(row))
		for i, c := range row {
			lines[r][i] = cellLines(c.text)
		}
	}
	total := drawnWidth(widths) - 2
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
					line[i] = cell{text: lines[r][i][n], color: row[i].color}
				}
			}
			t.drawLine(&b, s, f.bar, widths, line)
		}
	}
	rule(f.bottom)
	return b.String()
}

// widths returns how wide the columns must be.
func (t *table) widths() []int {
	widths := make([]int, len(t.columns))
	for i, c := range t.columns {
		widths[i] = width(c.title)
	}
	for _, row := range t.rows {
		for i, c := range row {
			for _, line := range cellLines(c.text) {
				widths[i] = max(widths[i], width(line))
			}
		}
	}
	return widths
}

// drawnWidth is that of a table in its frame.
func drawnWidth(columns []int) int {
	total := 1
	for _, w := range columns {
		total += w + 3
	}
	return total
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
