// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package snapshots

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/props"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

const (
	// autoEvery is how often it is looked whether automatic snapshots are due.
	autoEvery = 10 * time.Second
	// autoAtOnce is how many definitions get theirs at a time, so that many that are due together
	// do not crowd out everybody else.
	autoAtOnce = 4
	// autoName begins the names of automatic snapshots; their numbers follow.
	autoName = "autosnap-"
)

// autoSnapshots takes automatic snapshots until ctx ends.
func (s *Snapshots) autoSnapshots(ctx context.Context) {
	tick := time.NewTicker(autoEvery)
	defer tick.Stop()
	for {
		s.TakeDue(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// TakeDue takes the automatic snapshots that are due now, one of each definition at most,
// deletes those that are too many, and returns when that is done. When one is due follows from
// the snapshots that there are, so it makes no difference who was down since the last: one
// that could not be taken is taken as soon as it can be. Why it could not is logged when that is
// new, and not again and again.
func (s *Snapshots) TakeDue(ctx context.Context) {
	view := s.Store.Snapshot()
	cluster := props.Level{Scope: props.Controller, Props: schema.SettingsOf(view)}
	slots := make(chan struct{}, autoAtOnce)
	known, problems := s.knownProblems(), map[model.DefinitionKey]string{}
	var going sync.WaitGroup
	var mu sync.Mutex
	for d := range schema.Definitions.All(view) {
		g, _ := schema.Groups.Get(view, d.Group)
		levels := []props.Level{cluster, {Scope: props.Group, Props: g.Props}, {Scope: props.Definition, Props: d.Props}}
		every, set := props.Int("AutoSnapshot/RunEvery", levels...)
		if !set || every <= 0 || d.Deleting || ctx.Err() != nil {
			continue
		}
		keep, _ := props.Int("AutoSnapshot/Keep", levels...)
		slots <- struct{}{}
		going.Go(func() {
			defer func() { <-slots }()
			problem := s.auto(ctx, d, time.Duration(every)*time.Minute, known[d.Name.Key()])
			s.prune(ctx, d, int(keep))
			if problem != "" {
				mu.Lock()
				defer mu.Unlock()
				problems[d.Name.Key()] = problem
			}
		})
	}
	going.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.problems = problems
}

func (s *Snapshots) knownProblems() map[model.DefinitionKey]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.problems
}

// auto takes the automatic snapshot of one definition, if it is due. It returns why it could not,
// which is logged unless it was known before.
func (s *Snapshots) auto(ctx context.Context, d schema.Definition, every time.Duration, known string) (problem string) {
	all := automatic(s.Store.Snapshot(), d.Name.Key())
	if len(all) > 0 && s.Now().Sub(all[len(all)-1].Created) < every {
		return ""
	}
	err := s.takeAuto(ctx, d)
	if err == nil || ctx.Err() != nil {
		return ""
	}
	if problem = err.Error(); problem != known {
		s.log().Warn("an automatic snapshot could not be taken, it is tried again", "definition", d.Name, "err", err)
	}
	return problem
}

// prune deletes the automatic snapshots of a definition that are too many.
func (s *Snapshots) prune(ctx context.Context, d schema.Definition, keep int) {
	all := automatic(s.Store.Snapshot(), d.Name.Key())
	kept := 0
	for i, sn := range slices.Backward(all) {
		newest := i == len(all)-1
		switch {
		case sn.Deleting, sn.State == schema.SnapshotTaking, newest && sn.State != schema.SnapshotTaken:
			continue // One that failed last says why until the next.
		case sn.State == schema.SnapshotTaken:
			if kept++; keep <= 0 || kept <= keep {
				continue
			}
		}
		if _, err := s.Delete(ctx, string(d.Name), string(sn.Name), nil); err != nil && ctx.Err() == nil {
			s.log().Warn("an automatic snapshot could not be deleted", "definition", d.Name, "snapshot", sn.Name, "err", err)
		}
	}
}

// automatic lists the automatic snapshots of a definition, the oldest first.
func automatic(r store.Reader, d model.DefinitionKey) []schema.Snapshot {
	var list []schema.Snapshot
	for sn := range schema.SnapshotsOf(r, d) {
		if sn.Auto {
			list = append(list, sn)
		}
	}
	slices.SortStableFunc(list, func(a, b schema.Snapshot) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name))
	})
	return list
}

// takeAuto takes the next automatic snapshot.
func (s *Snapshots) takeAuto(ctx context.Context, d schema.Definition) error {
	r, err := s.newRequest([]New{{Definition: string(d.Name), Name: nextAuto(s.Store.Snapshot(), d)}})
	if err != nil {
		return err
	}
	r.auto = true
	_, _, err = s.create(ctx, r)
	return err
}

// nextAuto is the name after the highest number that an automatic snapshot has or that was
// asked for.
func nextAuto(r store.Reader, d schema.Definition) string {
	next, _ := props.Int("AutoSnapshot/NextAutoId", props.Level{Scope: props.Definition, Props: d.Props})
	next = max(next, 1)
	for sn := range schema.SnapshotsOf(r, d.Name.Key()) {
		digits, ok := strings.CutPrefix(strings.ToLower(string(sn.Name)), autoName)
		if n, err := strconv.ParseInt(digits, 10, 64); ok && err == nil {
			next = max(next, n+1)
		}
	}
	return fmt.Sprintf("%s%05d", autoName, next)
}
