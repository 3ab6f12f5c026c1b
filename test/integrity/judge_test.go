// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package integrity_test

import (
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/internal/schema"
)

// judge looks at two answers and at what is there afterwards.
func (s *scene) judge(d door, x deletion, made, gone answer) {
	s.t.Helper()
	s.rest()
	for _, a := range []answer{made, gone} {
		if strings.Contains(a.text, "implementation error") || strings.Contains(a.text, "panic") {
			s.t.Errorf("a fault of the software: %d %s", a.status, a.text)
		}
	}
	s.Check()
	if x.later && gone.ok() && !gone.absent() && (d.child != x.object || !made.ok()) {
		s.Until(func() bool { return !s.exists(x.object) })
	}
	child, object := s.exists(d.child), x.object != "" && s.exists(x.object)
	cascades := slices.Contains(d.cascaded, x.name) || x.away && slices.Contains(d.parents, "node")
	recreated := d.child == x.object // the door makes again what the deletion takes
	switch {
	case made.ok() && !child && (!gone.ok() || !cascades):
		s.t.Errorf("the door answered %d, but %s is not there; the deletion answered %d", made.status, d.child, gone.status)
	case !made.ok() && child && !d.moves() && !s.failed(d.child):
		s.t.Errorf("the door answered %d %s, but %s is there", made.status, made.text, d.child)
	case gone.ok() && !gone.absent() && object && (!recreated || !made.ok()):
		s.t.Errorf("the deletion answered %d, but %s is there", gone.status, x.object)
	case made.ok() && gone.ok() && !gone.absent() && slices.Contains(d.parents, x.name) && !cascades && !recreated:
		s.t.Errorf("the door answered %d and the deletion %d: they exclude each other\n%s\n%s", made.status, gone.status, made.text, gone.text)
	}
	if t := s.call(request{"GET", "/v1/resource-definitions/new-#", ""}); d.spawns() && !made.ok() && t.status == 200 {
		s.t.Errorf("the door answered %d, but its definition is there", made.status)
	}
}

// failed tells whether what a door made is there only to say that it failed.
func (s *scene) failed(child string) bool {
	return strings.Contains(s.call(request{"GET", child, ""}).text, `"FAILED_`)
}

// moves tells whether the door changes something that was there before.
func (d door) moves() bool { return d.method == "PUT" || d.changes }

func (d door) spawns() bool { return strings.HasSuffix(d.path, "/spawn") }

// rest waits until nothing is being deleted any more.
func (s *scene) rest() {
	s.t.Helper()
	s.Until(func() bool {
		v := s.Store.Snapshot()
		for r := range schema.Resources.All(v) {
			if r.Deleting || slices.ContainsFunc(r.Volumes, func(v schema.Volume) bool { return v.Deleting }) {
				return false
			}
		}
		for d := range schema.Definitions.All(v) {
			if d.Deleting {
				return false
			}
		}
		for vd := range schema.VolumeDefinitions.All(v) {
			if vd.Deleting {
				return false
			}
		}
		return true
	})
}
