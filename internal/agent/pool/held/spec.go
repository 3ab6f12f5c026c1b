// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package held

import (
	"cmp"
	"fmt"
	"path"
	"strings"

	"github.com/holdfast-storage/holdfast/internal/agent/hold"
	"github.com/holdfast-storage/holdfast/internal/agent/mount"
)

// The properties of a pool that lies on a mounted source.
const (
	typeKey      = "StorDriver/Mount/Type"
	sourceKey    = "StorDriver/Mount/Source"
	optionsKey   = "StorDriver/Mount/Options"
	residencyKey = "StorDriver/Mount/Residency"
	folderKey    = "StorDriver/StorPoolName"
	oldFolderKey = "StorDriver/FileDir"
)

// Spec says what a pool lies on.
type Spec struct {
	Pool   hold.Pool
	Folder string // Relative to the root of the source; empty for the root.
}

// Parse reads the properties of a pool of a node. It is false for a pool that lies on no mounted source.
func Parse(name, node string, property func(key string) (string, bool)) (Spec, bool, error) {
	get := func(key string) string {
		v, _ := property(key)
		return strings.TrimSpace(v)
	}
	text := get(sourceKey)
	if text == "" {
		for _, key := range []string{typeKey, optionsKey, residencyKey} {
			if get(key) != "" {
				return Spec{}, false, fmt.Errorf("pool %s has the property %s and no %s: set both or none", name, key, sourceKey)
			}
		}
		return Spec{}, false, nil
	}
	kind := mount.Kind(strings.ToLower(cmp.Or(get(typeKey), string(mount.NFS))))
	source, err := mount.ParseSource(kind, text)
	if err != nil {
		return Spec{}, false, fmt.Errorf("pool %s: %w", name, err)
	}
	options, err := mount.ParseOptions(kind, get(optionsKey))
	if err != nil {
		return Spec{}, false, fmt.Errorf("pool %s: %w", name, err)
	}
	s := Spec{Pool: hold.Pool{
		ID: name, Class: hold.Primary, Residency: hold.OnDemand,
		Spec: mount.Spec{Source: source, Options: options, Identity: mount.Identity{Create: !options.ReadOnly()}},
	}}
	switch residency := strings.ToLower(get(residencyKey)); residency {
	case "", "while-used":
	case "always":
		s.Pool.Residency = hold.Always
	default:
		return Spec{}, false, fmt.Errorf("pool %s: residency %q is not known: it is always or while-used", name, residency)
	}
	s.Folder, err = folder(name, node, cmp.Or(get(folderKey), get(oldFolderKey)))
	return s, err == nil, err
}

// folder returns the folder of a pool in its source: the one that was given, or one of its own, so that several nodes can share a source.
func folder(name, node, given string) (string, error) {
	if given == "" {
		return path.Join("holdfast", strings.ToLower(node), strings.ToLower(name)), nil
	}
	f := strings.Trim(path.Clean(given), "/")
	if f == "." || f == "" {
		return "", nil
	}
	if err := mount.CheckSubpath(f); err != nil {
		return "", fmt.Errorf("pool %s: %s: %w", name, folderKey, err)
	}
	return f, nil
}
