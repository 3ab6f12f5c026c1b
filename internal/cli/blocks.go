// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/client"
)

const indent = "    "

// blocks returns entries as people read them: the type, then what happened, why, what to do, and details.
func blocks(entries client.RcList, s style) string {
	var b strings.Builder
	for _, e := range entries {
		b.WriteString(s.paint(typeColor(e.RetCode), e.RetCode.Type()) + ":\n")
		if e.Cause == "" && e.Correction == "" && e.Details == "" && len(e.ErrorReportIDs) == 0 {
			paragraph(&b, e.Message)
			continue
		}
		for _, part := range []struct{ title, text string }{
			{"Description", e.Message},
			{"Cause", e.Cause},
			{"Correction", e.Correction},
			{"Details", e.Details},
			{"Error reports", strings.Join(e.ErrorReportIDs, "\n")},
		} {
			if part.text != "" {
				b.WriteString(part.title + ":\n")
				paragraph(&b, part.text)
			}
		}
	}
	return b.String()
}

func paragraph(b *strings.Builder, text string) {
	for line := range strings.Lines(strings.TrimRight(text, "\n")) {
		b.WriteString(indent + printable(strings.TrimSuffix(line, "\n")) + "\n")
	}
}

// printableText is as printable for a text of several lines, in which tabs may stay. It ends with a line end.
func printableText(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		parts := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		for i, part := range parts {
			parts[i] = printable(part)
		}
		b.WriteString(strings.Join(parts, "\t") + "\n")
	}
	return b.String()
}

func typeColor(code client.RetCode) color {
	switch {
	case code.IsError():
		return red
	case code.IsWarning():
		return yellow
	case code.IsSuccess():
		return green
	default:
		return none
	}
}

// reports returns the reports of list entries, each once, in the order in which they came.
func reports(all ...client.RcList) client.RcList {
	var out client.RcList
	seen := map[string]bool{}
	for _, r := range slices.Concat(all...) {
		if key := r.RetCode.Type() + r.Message; !seen[key] {
			seen[key] = true
			out = append(out, r)
		}
	}
	return out
}

// sayings returns entries in three lines at most for each: what happened, why, and what to do about it. Details, such as
// identifiers, are shown on request.
func sayings(entries client.RcList, s style, details bool) string {
	var b strings.Builder
	for _, e := range entries {
		b.WriteString(s.paint(typeColor(e.RetCode), e.RetCode.Type()+":") + " " + oneLine(e.Message) + "\n")
		for _, part := range []struct{ title, text string }{
			{"why: ", e.Cause},
			{"do:  ", e.Correction},
		} {
			if part.text != "" {
				b.WriteString("  " + part.title + oneLine(part.text) + "\n")
			}
		}
		if more := oneLine(e.Details); more != "" && (details || (e.Cause == "" && e.Correction == "" && !strings.HasPrefix(more, "UUID"))) {
			b.WriteString("  details: " + more + "\n")
		}
		if len(e.ErrorReportIDs) > 0 && details {
			b.WriteString("  reports: " + oneLine(strings.Join(e.ErrorReportIDs, ", ")) + "\n")
		}
	}
	return b.String()
}
