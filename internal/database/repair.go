// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package database

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast-storage/holdfast/internal/kv"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// Plan is what a repair would do.
type Plan struct {
	Report
	Remove []store.Aside   // rows that would be written to a file and taken out
	Leave  []store.Problem // what only a person can decide
}

// PlanRepair checks a database that no process uses and says what a repair would do.
func PlanRepair(ctx context.Context, p Place) (Plan, error) {
	r, err := CheckPlace(ctx, p)
	if err != nil {
		return Plan{}, err
	}
	return Plan{Report: r, Remove: r.Aside, Leave: r.Problems}, nil
}

// Repaired says what a repair has done.
type Repaired struct {
	Backup string // of the database as it was
	Aside  string // the file with what was taken out
	After  Report
}

// Repair carries out a plan: it makes a backup in a folder, writes the rows that cannot be used to a file there, takes them out of the
// database, and checks again. A database that has changed since the plan is refused.
func (p Plan) Repair(ctx context.Context, at Place, folder string, now time.Time) (done Repaired, err error) {
	if len(p.Remove) == 0 {
		return Repaired{After: p.Report}, nil
	}
	if at.File == "" {
		if err := unled(ctx, at); err != nil {
			return done, err
		}
	}
	e, err := at.Engine()
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	waiting, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	term, err := e.Own(waiting)
	if err != nil {
		return done, fmt.Errorf("stop the controller first: %w", err)
	}
	again, err := Check(ctx, e)
	if err != nil {
		return done, err
	}
	if again.Revision != p.Revision || len(again.Aside) != len(p.Remove) {
		return done, errors.New("the database has changed since the plan was made; make it again")
	}
	stamp := now.UTC().Format("20060102T150405Z")
	done.Backup = filepath.Join(folder, "before-repair-"+stamp+".db")
	if _, err := Backup(ctx, e, done.Backup); err != nil {
		return done, err
	}
	done.Aside = filepath.Join(folder, "set-aside-"+stamp+".json")
	if err := writeAside(done.Aside, p.Remove); err != nil {
		return done, err
	}
	var keys []string
	for _, a := range p.Remove {
		keys = append(keys, a.Stored)
	}
	for b := range pieces(nil, keys) {
		if _, err := e.Append(ctx, term, b); err != nil {
			return done, fmt.Errorf("repair the database: %w", err)
		}
	}
	done.After, err = Check(ctx, e)
	return done, err
}

// writeAside writes rows that were taken out, so that nothing is lost.
func writeAside(path string, rows []store.Aside) error {
	var list []unusable
	for _, a := range rows {
		list = append(list, unusable{a.Collection, a.Key, a.Reason, []byte(a.Stored), a.Value})
	}
	text, err := json.MarshalIndent(list, "", " ")
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("write what is set aside: %w", err)
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}

var _ kv.Engine = frozen{}
