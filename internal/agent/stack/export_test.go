// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"context"
	"errors"
	"strings"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
)

// CopyDevice replaces what copies devices, for pools whose devices are not real.
func CopyDevice(f func(ctx context.Context, from, to pool.Device, progress pool.Progress) error) Option {
	return func(s *storage) { s.copyDevice = f }
}

// SplitWords is tested by itself because it is a parser of what users type.
func SplitWords(line string) ([]string, error) { return splitWords(line) }

// MkfsArgs returns the command line that makes a filesystem, without the device.
func MkfsArgs(fs Filesystem) (program string, args []string, err error) {
	m, err := makerOf(fs.Type)
	if err != nil {
		return "", nil, err
	}
	args, err = m.args(fs.MkfsParams)
	return m.program, args, err
}

// There is what a plan starts from: the volumes and snapshots of a wish in its order, nil for what does not exist, who uses them, and what goes on.
type There struct {
	Volume  *pool.Volume
	Parts   []*pool.Snapshot // Of a snapshot.
	Holders []pool.Holder
	Job     string
	Failed  bool // The job.
}

// Plan returns what the steps are called that lead from there to w. A snapshot that cannot be provided is an error.
func Plan(d pool.Driver, w Want, there []There) ([]string, error) {
	var h have
	for i, t := range there {
		job := progress{text: t.Job, running: t.Job != "" && !t.Failed}
		if i >= len(w.Volumes) {
			f := foundSnapshot{job: job}
			for k, s := range t.Parts {
				sw := w.Snapshots[i-len(w.Volumes)]
				p := foundPart{driver: d, id: pool.SnapshotID{Resource: w.Resource, Volume: sw.Volumes[k].Number, Snapshot: sw.Name}}
				if s != nil {
					p.exists, p.snapshot = true, *s
				}
				f.parts = append(f.parts, p)
			}
			h.snapshots = append(h.snapshots, f)
			continue
		}
		f := found{driver: d, source: d, holders: t.Holders, job: job}
		if t.Volume != nil {
			f.exists, f.volume = true, *t.Volume
		}
		h.volumes = append(h.volumes, f)
	}
	steps, err := (&storage{jobs: newJobs()}).Plan(w, h)
	var names []string
	for _, s := range steps {
		if strings.HasPrefix(s.What, "provide ") {
			err = errors.Join(err, s.Do(context.Background()))
			continue
		}
		names = append(names, s.What)
	}
	return names, err
}
