// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package pooltest

import (
	"bytes"
	"crypto/sha256"
	"math/rand/v2"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
)

// content returns n bytes that belong to a label. They begin with the header of an image in the format qcow2 that names a file of the host behind it: whoever
// looks at it instead of taking it for data gives itself away.
func content(label string, n int64) []byte {
	text := make([]byte, n)
	_, _ = rand.NewChaCha8(sha256.Sum256([]byte(label))).Read(text) // It never fails.
	copy(text, "QFI\xfb\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\x68\x00\x00\x00\x0b")
	copy(text[min(0x68, len(text)):], "/etc/passwd")
	return text
}

// fill gives an open volume the content of a label.
func (u *subject) fill(t *testing.T, id pool.ID, label string) {
	t.Helper()
	if u.Fill != nil {
		u.Fill(t, id, label)
		return
	}
	d := u.open(t, id)
	if err := writeDevice(d.Path, content(label, d.Size)); err != nil {
		t.Fatalf("fill %s: %v", id, err)
	}
}

// wantContent looks whether a volume begins with n bytes of a label and goes on with zeros.
func (u *subject) wantContent(t *testing.T, id pool.ID, label string, n int64) {
	t.Helper()
	if u.Fill != nil {
		if got := u.Label(t, id); got != label {
			t.Errorf("%s has the content %q, want %q", id, got, label)
		}
		return
	}
	d := u.open(t, id)
	got, err := readDevice(d.Path, int(d.Size))
	if err != nil {
		t.Fatalf("read %s: %v", id, err)
	}
	switch {
	case d.Size < n:
		t.Errorf("%s has %d bytes, want %d", id, d.Size, n)
	case !bytes.Equal(got[:n], content(label, n)):
		t.Errorf("%s does not have the content %q in its first %d bytes", id, label, n)
	case u.Encrypted:
	case len(bytes.TrimLeft(got[n:], "\x00")) > 0:
		t.Errorf("%s has something behind its first %d bytes", id, n)
	}
}

// filled makes a finished volume with a content.
func (u *subject) filled(t *testing.T, id pool.ID, size int64, label string) {
	t.Helper()
	u.create(t, id, size)
	u.open(t, id)
	u.finish(t, id)
	u.fill(t, id, label)
}
