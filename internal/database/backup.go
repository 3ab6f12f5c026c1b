// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package database

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/holdfast-storage/holdfast/internal/kv"
	"github.com/holdfast-storage/holdfast/internal/kv/boltkv"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// Backup writes the newest durable state of a database, which may be in use by this process or, in etcd, by another one, to a new file.
// The file is read back and checked before Backup answers. Rows that cannot be used are in it as they are.
func Backup(ctx context.Context, e kv.Engine, path string) (Report, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return Report{}, fmt.Errorf("back up the database: %w", err)
	}
	revision, entries := e.Load(ctx)
	n, err := boltkv.Write(path, revision, entries)
	if err != nil {
		return Report{}, fmt.Errorf("back up the database: %w", err)
	}
	report, err := verify(ctx, path, n)
	if err != nil {
		return Report{}, errors.Join(fmt.Errorf("the backup %s does not read back: %w", path, err), os.Remove(path))
	}
	return report, nil
}

// verify reads a backup whole.
func verify(ctx context.Context, path string, rows int) (Report, error) {
	e, err := boltkv.OpenReader(ctx, path)
	if err != nil {
		return Report{}, err
	}
	list, err := all(ctx, e)
	if err == nil && len(list) != rows {
		err = fmt.Errorf("it has %d rows of %d", len(list), rows)
	}
	if err = errors.Join(err, e.Close()); err != nil {
		return Report{}, err
	}
	return Check(ctx, frozen{entries: list})
}

// CopyBackup copies a backup to a new file, and checks the copy.
func CopyBackup(ctx context.Context, from, to string) (Report, error) {
	e, err := boltkv.OpenReader(ctx, from)
	if err != nil {
		return Report{}, err
	}
	r, err := Backup(ctx, e, to)
	return r, errors.Join(err, e.Close())
}

// Backups keeps backups of one database in a folder, and removes the oldest ones. Its methods may be called at the same time.
type Backups struct {
	Engine kv.Engine
	Folder string
	Every  time.Duration // between those that it makes by itself; 6 h when 0
	Keep   int           // of each kind; 14 when 0
	Log    *slog.Logger
	Now    func() time.Time // time.Now when nil

	mu   sync.Mutex
	last store.Revision // of the newest backup made by Run
}

// The reasons that are parts of the names of backups.
const (
	byItself = "automatic"
	byWish   = "asked"
)

// backupName is how backups are called: the time is for people, the revision orders them, since clocks may jump.
var backupName = regexp.MustCompile(`^holdfast-\d{8}T\d{6}Z-r(\d+)-([a-z-]+)\.db$`)

// Make makes a backup now, and returns its path.
func (b *Backups) Make(ctx context.Context, reason string) (string, error) {
	path, _, err := b.make(ctx, reason)
	return path, err
}

func (b *Backups) make(ctx context.Context, reason string) (string, store.Revision, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now
	if b.Now != nil {
		now = b.Now
	}
	temporary := filepath.Join(b.Folder, "."+reason+".db")
	if err := os.Remove(temporary); err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", 0, fmt.Errorf("back up the database: %w", err)
	}
	report, err := Backup(ctx, b.Engine, temporary)
	if err != nil {
		return "", 0, err
	}
	path := filepath.Join(b.Folder, fmt.Sprintf("holdfast-%s-r%d-%s.db", now().UTC().Format("20060102T150405Z"), report.Revision, reason))
	if err := os.Rename(temporary, path); err != nil {
		return "", 0, fmt.Errorf("back up the database: %w", err)
	}
	return path, report.Revision, b.rotate(reason)
}

// Named makes a backup under a name of the caller, which is never removed by itself.
func (b *Backups) Named(ctx context.Context, name string) (string, error) {
	if name == "" {
		return b.Make(ctx, byWish)
	}
	path, err := b.place(name, ".db")
	if err != nil {
		return "", err
	}
	_, err = Backup(ctx, b.Engine, path)
	return path, err
}

// Export writes the database as JSON under a name of the caller.
func (b *Backups) Export(ctx context.Context, name string) (string, error) {
	if name == "" {
		now := time.Now
		if b.Now != nil {
			now = b.Now
		}
		name = "export-" + now().UTC().Format("20060102T150405Z")
	}
	path, err := b.place(name, ".json")
	if err != nil {
		return "", err
	}
	return path, ExportFile(ctx, b.Engine, path)
}

// plainName is what callers may call a file.
var plainName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

// NameError refuses the name of a file.
type NameError struct{ Name string }

func (e *NameError) Error() string {
	return fmt.Sprintf("the name %q is not possible: use up to 100 letters, digits, dots, _ and -, without a folder", e.Name)
}

func (b *Backups) place(name, ending string) (string, error) {
	if !plainName.MatchString(name) {
		return "", &NameError{name}
	}
	if filepath.Ext(name) != ending {
		name += ending
	}
	if err := os.MkdirAll(b.Folder, 0o700); err != nil {
		return "", fmt.Errorf("make the folder of the backups: %w", err)
	}
	return filepath.Join(b.Folder, name), nil
}

// Run makes backups from time to time, where something has changed, until ctx ends.
func (b *Backups) Run(ctx context.Context) {
	const often = 6 * time.Hour
	tick := time.NewTicker(cmp.Or(b.Every, often))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if err := b.automatic(ctx); err != nil && ctx.Err() == nil && b.Log != nil {
			b.Log.Error("the automatic backup was not made", "error", err)
		}
	}
}

// automatic makes a backup unless the newest one shows the same state.
func (b *Backups) automatic(ctx context.Context) error {
	report, err := Check(ctx, b.Engine)
	if err != nil || report.Revision == b.last {
		return err
	}
	path, revision, err := b.make(ctx, byItself)
	if err == nil {
		b.last = revision
		if b.Log != nil {
			b.Log.Info("a backup was made", "path", path, "revision", revision)
		}
	}
	return err
}

// rotate removes the oldest backups of a reason.
func (b *Backups) rotate(reason string) error {
	const most = 14
	keep := cmp.Or(b.Keep, most)
	type found struct {
		name     string
		revision uint64
	}
	var mine []found
	for name, why := range List(b.Folder) {
		if why != reason {
			continue
		}
		n, err := strconv.ParseUint(backupName.FindStringSubmatch(name)[1], 10, 64)
		if err != nil {
			continue
		}
		mine = append(mine, found{name, n})
	}
	slices.SortFunc(mine, func(x, y found) int {
		return cmp.Or(cmp.Compare(x.revision, y.revision), cmp.Compare(x.name, y.name))
	})
	for i := range len(mine) - keep {
		if err := os.Remove(filepath.Join(b.Folder, mine[i].name)); err != nil {
			return fmt.Errorf("remove an old backup: %w", err)
		}
	}
	return nil
}

// List returns the names of the backups in a folder that were made by themselves or without a name, with the reason of each.
func List(folder string) map[string]string {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil
	}
	list := map[string]string{}
	for _, e := range entries {
		if m := backupName.FindStringSubmatch(e.Name()); m != nil {
			list[e.Name()] = m[2]
		}
	}
	return list
}

// Newest returns the path of the backup of the newest state in a folder; empty when there is none.
func Newest(folder string) string {
	best, newest := "", uint64(0)
	for name := range List(folder) {
		n, err := strconv.ParseUint(backupName.FindStringSubmatch(name)[1], 10, 64)
		if err == nil && (best == "" || n > newest || n == newest && name > best) {
			best, newest = name, n
		}
	}
	if best == "" {
		return ""
	}
	return filepath.Join(folder, best)
}
