// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"bufio"
	"io"
	"strconv"
	"strings"
)

// kind is the type of a metric family.
type kind string

const (
	gauge   kind = "gauge"
	counter kind = "counter"
)

// contentType is that of the text format.
const contentType = "text/plain; version=0.0.4; charset=utf-8"

// text writes metrics in the text format. An error of the writer below is kept by that.
type text struct {
	out  *bufio.Writer
	name string // of the family that is being written
	line []byte // scratch
}

func newText(w io.Writer) *text {
	const piece = 64 << 10
	return &text{out: bufio.NewWriterSize(w, piece)}
}

// family begins a family. All its samples follow before the next one. One without samples is
// written too: readers of LINSTOR's metrics look for the family.
func (t *text) family(name string, k kind, help string) {
	t.name = name
	_, _ = t.out.WriteString("# HELP " + name + " " + escapeHelp(help) + "\n# TYPE " + name + " " + string(k) + "\n")
}

// count writes a sample of the family that is a whole number. The labels are names and
// values in turn; a label without a value is left out, as the format has no other meaning
// for it.
func (t *text) count(value int64, pairs ...string) {
	t.line = appendLabels(t.line[:0], pairs...)
	t.counted(t.line, value)
}

// measure writes a sample without labels that need not be a whole number.
func (t *text) measure(value float64) {
	t.begin(nil)
	t.end(strconv.AppendFloat(t.out.AvailableBuffer(), value, 'g', -1, 64))
}

// counted writes a sample whose labels are in their written form.
func (t *text) counted(labels []byte, value int64) {
	t.begin(labels)
	t.end(strconv.AppendInt(t.out.AvailableBuffer(), value, 10))
}

func (t *text) begin(labels []byte) {
	_, _ = t.out.WriteString(t.name)
	if len(labels) > 0 {
		_ = t.out.WriteByte('{')
		_, _ = t.out.Write(labels)
		_ = t.out.WriteByte('}')
	}
	_ = t.out.WriteByte(' ')
}

func (t *text) end(value []byte) {
	_, _ = t.out.Write(value)
	_ = t.out.WriteByte('\n')
}

// appendLabels appends labels in their written form.
func appendLabels(to []byte, pairs ...string) []byte {
	first := true
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			continue
		}
		if !first {
			to = append(to, ',')
		}
		first = false
		to = append(to, pairs[i]...)
		to = append(to, '=', '"')
		to = appendEscaped(to, pairs[i+1])
		to = append(to, '"')
	}
	return to
}

func appendEscaped(to []byte, value string) []byte {
	if !strings.ContainsAny(value, "\\\"\n") {
		return append(to, value...)
	}
	for i := range len(value) {
		switch c := value[i]; c {
		case '\\', '"':
			to = append(to, '\\', c)
		case '\n':
			to = append(to, '\\', 'n')
		default:
			to = append(to, c)
		}
	}
	return to
}

func escapeHelp(help string) string {
	return strings.NewReplacer("\\", `\\`, "\n", `\n`).Replace(help)
}

// series is many samples on their way into a family or two, with labels in their written form.
type series struct {
	labels  []byte // of all samples, one after the other
	samples []sample
}

type sample struct {
	end   int   // of its labels
	state int64 // a number of some table
	bytes int64 // unknown when negative
}

// unknown is the size that is not known.
const unknown int64 = -1

func (s *series) add(state, bytes int64, pairs ...string) {
	s.labels = appendLabels(s.labels, pairs...)
	s.samples = append(s.samples, sample{end: len(s.labels), state: state, bytes: bytes})
}

// reset empties the series, which keeps its memory.
func (s *series) reset() { s.labels, s.samples = s.labels[:0], s.samples[:0] }

// states writes the state of each sample.
func (t *text) states(s *series) {
	from := 0
	for _, x := range s.samples {
		t.counted(s.labels[from:x.end], x.state)
		from = x.end
	}
}

// sizes writes the size of each sample that has one.
func (t *text) sizes(s *series) {
	from := 0
	for _, x := range s.samples {
		if x.bytes >= 0 {
			t.counted(s.labels[from:x.end], x.bytes)
		}
		from = x.end
	}
}
