// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package drbdtest

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// section is a statement of a configuration file, with what is in its braces.
type section struct {
	words []string
	in    []section
}

// readFile reads the resource of a configuration file.
func readFile(path string) (section, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return section{}, err
	}
	p := parser{text: string(text)}
	list := p.list()
	if len(list) != 1 || len(list[0].words) != 2 || list[0].words[0] != "resource" {
		return section{}, fmt.Errorf("%s: not one resource", path)
	}
	return list[0], nil
}

type parser struct{ text string }

// list reads statements up to a closing brace, or the end of the text: like drbdadm it does not miss the last brace.
func (p *parser) list() []section {
	var list []section
	var s section
	for {
		switch word, quoted := p.next(); {
		case word == "" && !quoted, word == "}" && !quoted:
			return list
		case word == ";" && !quoted:
			list, s = append(list, s), section{}
		case word == "{" && !quoted:
			s.in = p.list()
			list, s = append(list, s), section{}
		default:
			s.words = append(s.words, word)
		}
	}
}

func (p *parser) next() (word string, quoted bool) {
	for {
		p.text = strings.TrimLeft(p.text, " \t\n")
		if !strings.HasPrefix(p.text, "#") {
			break
		}
		_, p.text, _ = strings.Cut(p.text, "\n")
	}
	if p.text == "" {
		return "", false
	}
	if p.text[0] == '"' {
		var b strings.Builder
		i := 1
		for ; i < len(p.text) && p.text[i] != '"'; i++ {
			if p.text[i] == '\\' {
				i++
			}
			b.WriteByte(p.text[i])
		}
		p.text = p.text[i+1:]
		return b.String(), true
	}
	i := strings.IndexAny(p.text, " \t\n;{}")
	if i == 0 {
		i = 1
	}
	if i < 0 {
		i = len(p.text)
	}
	word, p.text = p.text[:i], p.text[i:]
	return word, false
}

// all returns the statements that begin with a word.
func (s section) all(word string) []section {
	var list []section
	for _, in := range s.in {
		if len(in.words) > 0 && in.words[0] == word {
			list = append(list, in)
		}
	}
	return list
}

// value returns the words after the first statement that begins with a word and has no braces.
func (s section) value(word string) string {
	for _, in := range s.all(word) {
		if in.in == nil && len(in.words) > 1 {
			return strings.Join(in.words[1:], " ")
		}
	}
	return ""
}

func (s section) number(word string) int {
	fields := strings.Fields(s.value(word))
	if len(fields) == 0 {
		return -1
	}
	n, err := strconv.Atoi(fields[len(fields)-1])
	if err != nil {
		return -1
	}
	return n
}

// options returns the options of the sections of a name.
func (s section) options(name string) map[string]string {
	options := map[string]string{}
	for _, in := range s.all(name) {
		for _, o := range in.in {
			options[o.words[0]] = strings.Join(o.words[1:], " ")
		}
	}
	return options
}
