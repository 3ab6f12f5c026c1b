// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package database

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast-storage/holdfast/internal/kv"
	"github.com/holdfast-storage/holdfast/internal/kv/boltkv"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// revisionStep is by how much a database that replaces another one is ahead of it: no agent has seen a revision of that range, so
// none takes the new state for one that it knows.
const revisionStep = 1 << 20

// Replaced says what became of a database that was replaced.
type Replaced struct {
	Report        // of the new one
	Saved  string // where the former one was saved; empty when there was none
}

// UnsoundError refuses to put a database into place.
type UnsoundError struct {
	Source string
	Report Report
}

func (e *UnsoundError) Error() string {
	var what strings.Builder
	for _, a := range e.Report.Aside {
		fmt.Fprintf(&what, "\n  %s %s: %s", a.Collection, a.Key, a.Reason)
	}
	for _, p := range e.Report.Problems {
		what.WriteString("\n  " + p.String())
	}
	return fmt.Sprintf("%s is not a sound database, so nothing was changed:%s", e.Source, what.String())
}

// Restore puts a backup in the place of a database that no process uses. The former database is saved beside, also when it is
// damaged. A backup that is not sound is put back only when unsound is true.
func Restore(ctx context.Context, backup string, to Place, now time.Time, unsound bool) (Replaced, error) {
	e, err := boltkv.OpenReader(ctx, backup)
	if err != nil {
		return Replaced{}, fmt.Errorf("the backup cannot be used: %w", err)
	}
	entries, err := all(ctx, e)
	if err = errors.Join(err, e.Close()); err != nil {
		return Replaced{}, fmt.Errorf("the backup cannot be used: %w", err)
	}
	return replace(ctx, "the restore of "+backup, backup, entries, to, now, unsound)
}

// replace puts entries in the place of a database.
func replace(ctx context.Context, what, source string, entries []kv.Entry, to Place, now time.Time, unsound bool) (Replaced, error) {
	report, err := Check(ctx, frozen{entries: entries})
	if err != nil {
		return Replaced{}, fmt.Errorf("%s cannot be used: %w", source, err)
	}
	if report.Revision == 0 {
		return Replaced{}, fmt.Errorf("%s holds no state", source)
	}
	if !report.Sound() && !unsound {
		return Replaced{}, &UnsoundError{source, report}
	}
	done := Replaced{Report: report}
	if to.File != "" {
		done.Saved, err = replaceFile(ctx, entries, report, to.File, now)
	} else {
		done.Saved, err = replaceEtcd(ctx, what, entries, report, to, now)
	}
	if err != nil {
		return done, err
	}
	after, err := CheckPlace(ctx, to)
	if err != nil {
		return done, fmt.Errorf("the new database does not read back: %w", err)
	}
	if after.Rows != report.Rows || len(after.Aside) != len(report.Aside) {
		return done, fmt.Errorf("the new database has %d rows and %d unusable ones, %s has %d and %d", after.Rows, len(after.Aside), source, report.Rows, len(report.Aside))
	}
	done.Report = after
	return done, nil
}

// ahead returns entries with the store's own row moved behind both revisions.
func ahead(entries []kv.Entry, report Report, former store.Revision) []kv.Entry {
	own := store.OwnRow(max(report.Revision, former)+revisionStep, report.Origin)
	out := make([]kv.Entry, 0, len(entries)+1)
	for _, e := range entries {
		if e.Key != own.Key {
			out = append(out, e)
		}
	}
	return append(out, own)
}

// replaceFile puts a file in the place of another one, which is renamed.
func replaceFile(ctx context.Context, entries []kv.Entry, report Report, path string, now time.Time) (saved string, err error) {
	var former store.Revision
	if _, err := os.Stat(path); err == nil {
		owner := boltkv.New(path)
		waiting, cancel := context.WithTimeout(ctx, lockPatience)
		_, err := owner.Own(waiting)
		cancel()
		// Its lock is held until the new file is in place.
		defer func() { _ = owner.Close() }()
		switch {
		case errors.Is(err, kv.ErrInUse):
			return "", fmt.Errorf("stop the controller first: %w", err)
		case err == nil:
			if v, checked := Check(ctx, owner); checked == nil {
				former = v.Revision
			}
		}
		saved = beside(path, "replaced", now)
	}
	fresh := path + ".new"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	sequence := func(yield func(kv.Entry, error) bool) {
		for _, e := range ahead(entries, report, former) {
			if !yield(e, nil) {
				return
			}
		}
	}
	if _, err := boltkv.Write(fresh, 1, sequence); err != nil {
		return "", err
	}
	if saved != "" {
		if err := os.Link(path, saved); err != nil {
			return "", errors.Join(fmt.Errorf("save the former database: %w", err), os.Remove(fresh))
		}
	}
	if err := os.Rename(fresh, path); err != nil {
		return "", err
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return saved, err
	}
	return saved, errors.Join(d.Sync(), d.Close())
}

// beside returns a free name for what a file was.
func beside(path, what string, now time.Time) string {
	name := path + "." + what + "-" + now.UTC().Format("20060102T150405Z")
	for free, n := name, 2; ; free, n = fmt.Sprintf("%s-%d", name, n), n+1 {
		if _, err := os.Lstat(free); errors.Is(err, os.ErrNotExist) {
			return free
		}
	}
}

// lockPatience is how long the process that has a file is waited for: it may just be stopping.
const lockPatience = 3 * time.Second

// replaceEtcd makes entries the content of a map in etcd. The former content is saved to a file in the folder for temporary files of
// the caller's choice, by TMPDIR.
func replaceEtcd(ctx context.Context, what string, entries []kv.Entry, report Report, to Place, now time.Time) (saved string, err error) {
	e, err := to.Engine()
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	if err := unled(ctx, to); err != nil {
		return "", err
	}
	var former store.Revision
	if have, err := all(ctx, e); err != nil {
		return "", err
	} else if len(have) > 0 {
		saved = filepath.Join(os.TempDir(), "holdfast-etcd-replaced-"+now.UTC().Format("20060102T150405Z")+".db")
		if r, err := Backup(ctx, e, saved); err == nil {
			former = r.Revision
		} else if _, err := os.Stat(saved); err != nil {
			revision, raw := e.Load(ctx)
			if _, err := boltkv.Write(saved, revision, raw); err != nil {
				return "", fmt.Errorf("save the former database: %w", err)
			}
		}
	}
	return saved, fill(ctx, e, what, ahead(entries, report, former))
}

// Migrate copies a database to another place, which must be empty, and compares what arrived. No controller may use either
// meanwhile. The source stays as it is, but for a file, which is renamed so that no controller goes on with it by mistake.
func Migrate(ctx context.Context, from, to Place, now time.Time) (Replaced, error) {
	source, err := from.Reader(ctx)
	if err != nil {
		return Replaced{}, err
	}
	entries, err := all(ctx, source)
	if err = errors.Join(err, source.Close()); err != nil {
		return Replaced{}, err
	}
	if from.File == "" {
		if err := unled(ctx, from); err != nil {
			return Replaced{}, err
		}
	}
	if err := empty(ctx, to); err != nil {
		return Replaced{}, err
	}
	done, err := replace(ctx, "the migration from "+from.String(), from.String(), entries, to, now, true)
	if err != nil {
		return done, err
	}
	if err := same(ctx, entries, to); err != nil {
		return done, err
	}
	done.Saved = ""
	if from.File != "" {
		done.Saved = beside(from.File, "migrated", now)
		if err := os.Rename(from.File, done.Saved); err != nil {
			return done, fmt.Errorf("the migration is complete, but the former file was not renamed: %w", err)
		}
	}
	return done, nil
}

// empty refuses a place that holds rows.
func empty(ctx context.Context, p Place) error {
	if p.File != "" {
		if _, err := os.Stat(p.File); err == nil {
			return fmt.Errorf("%s exists already: move it away first", p)
		}
		return nil
	}
	e, err := p.Engine()
	if err != nil {
		return err
	}
	have, err := all(ctx, e)
	if err = errors.Join(err, e.Close()); err != nil {
		return err
	}
	for _, entry := range have {
		if entry.Key == store.PartialKey {
			return nil // a migration that was not finished is done again
		}
	}
	if len(have) > 0 {
		return fmt.Errorf("%s holds %d rows already: choose another prefix, or remove them", p, len(have))
	}
	return nil
}

// same compares rows with what is at a place. The store's own row is ahead there.
func same(ctx context.Context, entries []kv.Entry, p Place) error {
	e, err := p.Reader(ctx)
	if err != nil {
		return err
	}
	have, err := all(ctx, e)
	if err = errors.Join(err, e.Close()); err != nil {
		return err
	}
	arrived := make(map[string]string, len(have))
	for _, entry := range have {
		arrived[entry.Key] = string(entry.Value)
	}
	own := store.OwnRow(0, store.Origin{}).Key
	for _, entry := range entries {
		if entry.Key != own && arrived[entry.Key] != string(entry.Value) {
			return fmt.Errorf("the row %q did not arrive as it was: do not start a controller on %s", entry.Key, p)
		}
	}
	if len(have) != len(entries) {
		return fmt.Errorf("%d rows arrived of %d: do not start a controller on %s", len(have), len(entries), p)
	}
	return nil
}
