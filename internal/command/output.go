// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"strings"
	"sync"
)

// head keeps the first bytes that are written to it and notes that there were more. Like tail it is locked, because the output of a program that
// was left behind may still arrive while what came so far is read.
type head struct {
	mu    sync.Mutex
	limit int
	kept  []byte
	cut   bool
}

func (h *head) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	room := h.limit - len(h.kept)
	if len(p) > room {
		h.cut = true
		h.kept = append(h.kept, p[:room]...)
	} else {
		h.kept = append(h.kept, p...)
	}
	return len(p), nil
}

func (h *head) take() (kept []byte, cut bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return bytes.Clone(h.kept), h.cut
}

// tail keeps the last bytes that are written to it.
type tail struct {
	mu    sync.Mutex
	limit int
	kept  []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(p)
	t.kept = append(t.kept, p[max(0, n-t.limit):]...)
	if over := len(t.kept) - t.limit; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	return n, nil
}

func (t *tail) take() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return bytes.Clone(t.kept)
}

// shownStderr is the end of stderr as an error shows it: trimmed, bounded, and without the secret arguments of c.
func shownStderr(c Command, stderr []byte) string {
	const limit = 2 << 10
	text := string(stderr)
	for _, i := range c.Secret {
		if i >= 0 && i < len(c.Args) && c.Args[i] != "" {
			text = strings.ReplaceAll(text, c.Args[i], redacted)
		}
	}
	text = strings.TrimSpace(text)
	if over := len(text) - limit; over > 0 {
		text = "…" + strings.ToValidUTF8(text[over:], "")
	}
	return text
}
