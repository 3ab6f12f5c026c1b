// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package file

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/inuse"
)

// findLost returns a volume of which only a device of ours is left.
func (p *Pool) findLost(f *folder, id pool.ID) (pool.Volume, bool, error) {
	lost, err := p.lost(f, func(other pool.ID) bool { return other == id.Fold() })
	if err != nil || len(lost) == 0 {
		return pool.Volume{}, false, err
	}
	return lost[0], true, nil
}

// listLost returns all volumes of which only a device of ours is left.
func (p *Pool) listLost(f *folder, entries []entry) ([]pool.Volume, error) {
	return p.lost(f, func(id pool.ID) bool {
		return !slices.ContainsFunc(entries, func(e entry) bool { return e.id == id })
	})
}

func (p *Pool) lost(f *folder, wanted func(pool.ID) bool) ([]pool.Volume, error) {
	all, err := inuse.Loops(procDir, sysDir)
	if err != nil {
		return nil, fmt.Errorf("look for loop devices: %w", err)
	}
	var volumes []pool.Volume
	for _, loop := range all {
		path, unlinked := strings.CutSuffix(loop.Backing, deleted)
		e, ok := parseVolume(filepath.Base(path))
		if !unlinked || !ok || !wanted(e.id) {
			continue
		}
		info, bound, err := p.loops.status(loop.Name)
		if err != nil {
			return nil, err
		}
		if !bound || !owned(info, f.uuid) {
			continue
		}
		size, err := p.loops.size(loop.Name)
		if err != nil {
			return nil, err
		}
		volumes = append(volumes, pool.Volume{
			ID: e.id, Size: size, Granularity: Granularity, New: e.isNew(), Lost: true, Device: pool.Device{Path: devicePath(loop.Name), Size: size},
		})
	}
	return volumes, nil
}
