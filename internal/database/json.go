// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package database

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/holdfast-storage/holdfast/internal/kv"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// exportFormat is the form of an export.
const exportFormat = 1

// document is an export. Keys of rows are not in it: they are made of the rows.
type document struct {
	Format     int                 `json:"holdfast_export"`
	Program    string              `json:"program"`
	Generation int                 `json:"generation"`
	Revision   store.Revision      `json:"revision"`
	Rows       map[string][]record `json:"rows"`               // by collection
	Unusable   []unusable          `json:"unusable,omitempty"` // are not imported
}

// record is a row as the store has it.
type record struct {
	Schema   int             `json:"schema"`
	Revision store.Revision  `json:"revision"`
	Row      json.RawMessage `json:"row"`
}

// unusable is a row that could not be used.
type unusable struct {
	Collection string `json:"collection"`
	Key        string `json:"key"`
	Reason     string `json:"reason"`
	Stored     []byte `json:"stored_key"`
	Value      []byte `json:"stored_value"`
}

// Export writes a database, which need not be owned, as JSON. It holds everything, secrets included.
func Export(ctx context.Context, e kv.Engine, w io.Writer) error {
	entries, err := all(ctx, e)
	if err != nil {
		return fmt.Errorf("export the database: %w", err)
	}
	v, aside, err := store.Read(ctx, frozen{entries: entries}, schema.Collections())
	if err != nil {
		return fmt.Errorf("export the database: %w", err)
	}
	d := document{
		Format: exportFormat, Program: v.Origin().Program, Generation: v.Origin().Generation, Revision: v.Revision(), Rows: map[string][]record{},
	}
	skip := map[string]bool{store.OwnRow(0, store.Origin{}).Key: true}
	for _, a := range aside {
		skip[a.Stored] = true
		d.Unusable = append(d.Unusable, unusable{a.Collection, a.Key, a.Reason, []byte(a.Stored), a.Value})
	}
	for _, entry := range entries {
		if skip[entry.Key] {
			continue
		}
		var r record
		if err := json.Unmarshal(entry.Value, &r); err != nil {
			return fmt.Errorf("export the database: the row %q: %w", entry.Key, err)
		}
		name, _, _ := strings.Cut(entry.Key, "/")
		d.Rows[name] = append(d.Rows[name], r)
	}
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	out.SetIndent("", " ")
	return out.Encode(d)
}

// ExportFile writes an export to a new file that its owner alone can read.
func ExportFile(ctx context.Context, e kv.Engine, path string) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("export the database: %w", err)
	}
	w := bufio.NewWriter(f)
	err = Export(ctx, e, w)
	if err = errors.Join(err, w.Flush(), f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// Import puts an export in the place of a database that no process uses. The former database is saved beside. An export with a
// row that does not decode, that occurs twice, or whose parents are not in it is refused.
func Import(ctx context.Context, r io.Reader, source string, to Place, now time.Time) (Replaced, error) {
	entries, err := parse(r)
	if err != nil {
		return Replaced{}, fmt.Errorf("import %s: %w", source, err)
	}
	return replace(ctx, "the import of "+source, source, entries, to, now, false)
}

// parse reads an export strictly.
func parse(r io.Reader) ([]kv.Entry, error) {
	var d document
	in := json.NewDecoder(r)
	in.DisallowUnknownFields()
	if err := in.Decode(&d); err != nil {
		return nil, fmt.Errorf("it is not an export: %w", err)
	}
	if _, err := in.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("it is not an export: something follows its end")
	}
	if d.Format != exportFormat {
		return nil, fmt.Errorf("it is not an export of format %d, which this program knows", exportFormat)
	}
	known := map[string]store.Registered{}
	for _, c := range schema.Collections() {
		known[c.Name()] = c
	}
	entries := []kv.Entry{store.OwnRow(d.Revision, store.Origin{Generation: d.Generation, Program: d.Program})}
	seen := map[string]bool{}
	for name, rows := range d.Rows {
		c, ok := known[name]
		if !ok {
			return nil, fmt.Errorf("this program has no collection %q", name)
		}
		for i, row := range rows {
			raw, err := json.Marshal(row)
			if err != nil {
				return nil, fmt.Errorf("row %d of %s: %w", i+1, name, err)
			}
			key, err := store.StoredKey(c, raw)
			if err != nil {
				return nil, fmt.Errorf("row %d of %s: %w", i+1, name, err)
			}
			if seen[key] {
				return nil, fmt.Errorf("row %d of %s occurs twice: %s", i+1, name, bytes.TrimSpace(row.Row))
			}
			seen[key] = true
			entries = append(entries, kv.Entry{Key: key, Value: raw})
		}
	}
	return entries, nil
}
