// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package mount

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Options is a set of mount options in the one spelling that ParseOptions gives it: sorted, without repetitions and without what is the
// default anyway. Two sets that mean the same are equal. The zero value is the defaults.
type Options string

// ParseOptions reads options as fstab and mount write them. Of contradicting ones the last wins, as in mount. Options that would take the
// mount out of our hands are refused: bg, remount, bind and their like.
func ParseOptions(kind Kind, text string) (Options, error) {
	if err := plainText(text); err != nil {
		return "", fmt.Errorf("mount options %q: %w", text, err)
	}
	words, err := splitOptions(text)
	if err != nil {
		return "", fmt.Errorf("mount options %q: %w", text, err)
	}
	set := map[string]string{} // By what the option is about.
	for _, word := range words {
		name, value, valued := strings.Cut(word, "=")
		if why := refused(kind, name); why != "" {
			return "", fmt.Errorf("mount option %q is not possible: %s", word, why)
		}
		name, word = modern(name, value, word)
		switch {
		case noted(name):
		case defaults(word):
			delete(set, subject(name))
		case valued || name != word:
			set[name] = word
		default:
			set[subject(name)] = word
		}
	}
	return Options(strings.Join(slices.Sorted(maps.Values(minor(set))), ",")), nil
}

// List returns the options one by one.
func (o Options) List() []string {
	if o == "" {
		return nil
	}
	words, _ := splitOptions(string(o))
	return words
}

// ReadOnly tells whether nothing can be written through the mount.
func (o Options) ReadOnly() bool { return slices.Contains(o.List(), "ro") }

// splitOptions cuts at commas that are not within double quotes, as mount does.
func splitOptions(text string) ([]string, error) {
	var words []string
	quoted, begin := false, 0
	for i := 0; i <= len(text); i++ {
		switch {
		case i < len(text) && text[i] == '"':
			quoted = !quoted
		case i == len(text) || text[i] == ',' && !quoted:
			if word := strings.TrimSpace(text[begin:i]); word != "" {
				words = append(words, word)
			}
			begin = i + 1
		}
	}
	if quoted {
		return nil, errors.New("a quotation mark is open at the end")
	}
	return words, nil
}

// refused says why an option cannot be had, or nothing.
func refused(kind Kind, name string) string {
	switch name {
	case "bg":
		return "a mount that goes on in the background would happen when nobody waits for it"
	case "remount", "bind", "rbind", "move", "beneath":
		return "it is another operation than mounting"
	case "shared", "rshared", "slave", "rslave", "private", "rprivate", "unbindable", "runbindable":
		return "the propagation of mounts is set by the agent"
	case "loop", "offset", "sizelimit", "encryption":
		return "give the block device itself"
	case "user", "users", "owner", "group":
		return "only root mounts pools"
	case "suid", "dev", "exec":
		return "pools are mounted nosuid, nodev and noexec"
	case "":
		return "it has no name"
	}
	if strings.HasPrefix(name, "x-") || strings.HasPrefix(name, "X-") {
		return "it is for other programs"
	}
	if kind == Bind && !bindOption(name) {
		return "a folder that is bound has only ro, rw, noatime, nodiratime, relatime and strictatime"
	}
	if kind == Existing && name != "ro" && name != "rw" {
		return "what the operator mounted has the options that he gave it; only ro and rw can be asked for"
	}
	return ""
}

func bindOption(name string) bool {
	switch name {
	case "ro", "rw", "noatime", "nodiratime", "relatime", "strictatime", "nosuid", "nodev", "noexec", "defaults", "auto", "noauto", "nofail", "_netdev":
		return true
	}
	return false
}

// noted tells whether an option only says how fstab is read, or is fixed by us anyway.
func noted(name string) bool {
	switch name {
	case "defaults", "auto", "noauto", "nofail", "_netdev", "comment", "nosuid", "nodev", "noexec", "intr", "nointr", "retry":
		return true
	}
	return false
}

// modern gives an option its present name.
func modern(name, value, word string) (string, string) {
	switch name {
	case "nfsvers", "vers":
		return "vers", "vers=" + value
	case "v3", "v4", "v4.0", "v4.1", "v4.2":
		return "vers", "vers=" + name[1:]
	case "tcp", "udp", "rdma":
		return "proto", "proto=" + name
	case "norelatime", "atime", "nostrictatime":
		return "atime", "relatime"
	}
	return name, word
}

// minor writes vers=4,minorversion=1 as vers=4.1.
func minor(set map[string]string) map[string]string {
	if m, ok := strings.CutPrefix(set["minorversion"], "minorversion="); ok && (set["vers"] == "vers=4" || set["vers"] == "") {
		set["vers"] = "vers=4." + m
		delete(set, "minorversion")
	}
	return set
}

// subject returns what an option without a value is about, so that the contrary of an option replaces it.
func subject(name string) string {
	switch name {
	case "ro", "rw":
		return "rw"
	case "hard", "soft", "softerr":
		return "hard"
	case "fg", "bg":
		return "fg"
	case "atime", "noatime", "relatime", "strictatime":
		return "atime"
	case "async", "sync":
		return "sync"
	}
	return strings.TrimPrefix(name, "no")
}

// defaults tells whether an option is what one has without it.
func defaults(word string) bool {
	switch word {
	case "rw", "hard", "fg", "relatime", "async", "lock", "ac", "cto", "acl", "sharecache", "rdirplus", "resvport", "diratime",
		"proto=tcp", "port=2049":
		return true
	}
	return false
}
