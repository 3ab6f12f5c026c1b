// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package mount

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"strings"
	"unicode"
)

// Kind is the way a source comes to its place.
type Kind string

// The kinds of sources.
const (
	NFS      Kind = "nfs"      // An export of an NFS server: server:/path, version 3 or 4.
	Block    Kind = "block"    // A file system on a block device: a path under /dev.
	Bind     Kind = "bind"     // A folder of this host, by its real path.
	Existing Kind = "existing" // What the operator mounts at a path himself. It is looked at and neither mounted nor unmounted.
)

// Source names what is mounted. Two sources are the same when they are equal; ParseSource makes the spellings of one source equal. Names
// of one server are not looked up: that a second name leads to the same file system shows only when both are mounted.
type Source struct {
	Kind   Kind   `json:"kind"`
	Server string `json:"server,omitempty"` // Of NFS alone: a name or an address, in lower case.
	Path   string `json:"path"`             // The export, the device, the folder or the operator's mount point: absolute and clean.
}

const maxPath = 4095 // What the kernel takes.

// ParseSource reads a source as users write it.
func ParseSource(kind Kind, text string) (Source, error) {
	if err := plainText(text); err != nil {
		return Source{}, fmt.Errorf("source %q: %w", text, err)
	}
	s := Source{Kind: kind, Path: text}
	switch kind {
	case NFS:
		var err error
		if s.Server, s.Path, err = splitExport(text); err != nil {
			return Source{}, err
		}
	case Block:
		if !strings.HasPrefix(path.Clean(text), "/dev/") {
			return Source{}, fmt.Errorf("source %q is no block device: give a path under /dev", text)
		}
	case Bind, Existing:
	default:
		return Source{}, fmt.Errorf("mounts of the kind %q are not known: use %s, %s, %s or %s", kind, NFS, Block, Bind, Existing)
	}
	if !path.IsAbs(s.Path) {
		return Source{}, fmt.Errorf("path %q of source %q is not absolute: begin it with /", s.Path, text)
	}
	s.Path = path.Clean(s.Path)
	if s.Path == "/" && kind != NFS {
		return Source{}, fmt.Errorf("source %q is the root of this host: give a folder of its own", text)
	}
	return s, nil
}

// splitExport takes server:/path apart. The server may be an IPv6 address in brackets.
func splitExport(text string) (server, export string, err error) {
	if rest, ok := strings.CutPrefix(text, "["); ok {
		server, export, ok = strings.Cut(rest, "]:")
		if !ok || !strings.Contains(server, ":") {
			return "", "", fmt.Errorf("source %q: write [address]:/path with an IPv6 address", text)
		}
	} else {
		server, export, _ = strings.Cut(text, ":")
	}
	server = strings.TrimSuffix(strings.ToLower(server), ".")
	if server == "" || strings.HasPrefix(server, "-") || strings.ContainsAny(server, " /,[]") || !strings.HasPrefix(export, "/") {
		return "", "", fmt.Errorf("source %q is no NFS export: write server:/path", text)
	}
	return server, export, nil
}

// plainText refuses what could not be told apart in a list of mounts or an option.
func plainText(text string) error {
	if len(text) > maxPath {
		return fmt.Errorf("%d bytes are too long: use at most %d", len(text), maxPath)
	}
	if strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) || r == unicode.ReplacementChar }) {
		return errors.New("it has a control character in it")
	}
	return nil
}

// Device returns the source as programs and the kernel's table write it: server:/path or the path.
func (s Source) Device() string {
	if s.Kind != NFS {
		return s.Path
	}
	if strings.Contains(s.Server, ":") {
		return "[" + s.Server + "]:" + s.Path
	}
	return s.Server + ":" + s.Path
}

// String returns the kind and the source, as people read it.
func (s Source) String() string { return string(s.Kind) + " " + s.Device() }

// Key returns a name of the source that can be a file name: the same for equal sources, different for others, and readable.
func (s Source) Key() string {
	const shown, digits = 32, 12
	readable := strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, s.Device()), "-")
	if len(readable) > shown {
		readable = readable[len(readable)-shown:]
	}
	sum := sha256.Sum256([]byte(string(s.Kind) + "\x00" + s.Server + "\x00" + s.Path))
	return string(s.Kind) + "-" + strings.Trim(readable, "-") + "-" + hex.EncodeToString(sum[:])[:digits]
}

// Spec says how a source is wanted at its place. It is a value and can be compared.
type Spec struct {
	Source   Source   `json:"source"`
	FSType   string   `json:"fstype,omitempty"`  // Of Block: the type of its file system, empty to detect it. Of Existing: what it must be, empty for any.
	Device   string   `json:"device,omitempty"`  // Of Existing: what must be mounted there, as the kernel's table writes it. Empty: anything.
	Options  Options  `json:"options,omitempty"` // What the user wants on top of the fixed options.
	Identity Identity `json:"identity,omitzero"`
}

// Identity is what the file system must carry: a marker file in its root with a uuid.
type Identity struct {
	UUID   string `json:"uuid,omitempty"`   // What the marker must say. Empty: whatever it says, or no marker.
	Create bool   `json:"create,omitempty"` // Whether a file system without a marker is given one, with UUID or with a new uuid.
}
