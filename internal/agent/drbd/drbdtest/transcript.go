// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package drbdtest

import (
	"embed"
	"io/fs"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

//go:embed testdata/*.txt
var recorded embed.FS

// Block is a recorded command.
type Block struct {
	File   string
	Host   string
	Line   string // The command line.
	Stdout string
	Stderr string
	Code   int
	Stream bool // It was ended by a signal and has no exit code.
}

var (
	commandLine = regexp.MustCompile(`^\[(\w+)\]# (.*)$`)
	exitLine    = regexp.MustCompile(`^--- exit (\d+) `)
)

// Transcripts returns all recorded commands, in the order in which they were run.
func Transcripts(tb testing.TB) []Block {
	tb.Helper()
	files, err := fs.Glob(recorded, "testdata/*.txt")
	if err != nil {
		tb.Fatal(err)
	}
	var blocks []Block
	for _, file := range files {
		text, err := recorded.ReadFile(file)
		if err != nil {
			tb.Fatal(err)
		}
		blocks = append(blocks, parse(strings.TrimPrefix(file, "testdata/"), string(text))...)
	}
	return blocks
}

// parse reads a transcript: a command, its output in sections, its exit code.
func parse(file, text string) []Block {
	var blocks []Block
	var into *string
	open := false
	for line := range strings.SplitSeq(text, "\n") {
		if m := commandLine.FindStringSubmatch(line); m != nil && !open {
			blocks = append(blocks, Block{File: file, Host: m[1], Line: m[2]})
			into, open = nil, true
			continue
		}
		if !open {
			continue
		}
		b := &blocks[len(blocks)-1]
		switch m := exitLine.FindStringSubmatch(line); {
		case m != nil:
			b.Code, _ = strconv.Atoi(m[1])
			open = false
		case line == "--- stream ended by a signal":
			b.Stream, open = true, false
		case line == "--- stdout":
			into = &b.Stdout
		case line == "--- stderr":
			into = &b.Stderr
		case into != nil:
			*into += line + "\n"
		}
	}
	return blocks
}
