// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
)

// A row is stored as JSON: {"schema":1,"revision":42,"row":{…}}.
type record struct {
	Schema   int             `json:"schema"`
	Revision Revision        `json:"revision"`
	Row      json.RawMessage `json:"row"`
}

// recordSpace is more than a record has around its row.
const recordSpace = 80

// encode returns the stored form of a row.
func (d *definition) encode(r *row) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(`{"schema":`)
	b.WriteString(strconv.Itoa(d.schema))
	b.WriteString(`,"revision":`)
	b.WriteString(strconv.FormatUint(uint64(r.revision), 10))
	b.WriteString(`,"row":`)
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(r.value); err != nil {
		return nil, err
	}
	b.Truncate(b.Len() - 1) // the encoder's line end
	b.WriteByte('}')
	return b.Bytes(), nil
}

// read returns the row of a stored form, brought forward to the collection's schema. Its key must be the one that it was
// stored under.
func (d *definition) read(key string, raw []byte) (r *row, err error) {
	defer func() {
		if p := recover(); p != nil {
			r, err = nil, fmt.Errorf("a function of the collection panics on it: %v", p)
		}
	}()
	rec, err := d.body(raw)
	if err != nil {
		return nil, err
	}
	value, err := d.decode(rec.Row)
	if err != nil {
		return nil, fmt.Errorf("the row does not decode: %w", err)
	}
	if have := d.encodeK(value); have != key {
		return nil, fmt.Errorf("it holds the row %s", d.showK(have))
	}
	return d.row(rec.Revision, value, key), nil
}

// StoredKey returns the engine's key of a row of a collection, given its stored form.
func StoredKey(c Registered, raw []byte) (key string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("a function of the collection panics on it: %v", p)
		}
	}()
	d := c.definition()
	body, err := d.body(raw)
	if err != nil {
		return "", err
	}
	value, err := d.decode(body.Row)
	if err != nil {
		return "", fmt.Errorf("the row does not decode: %w", err)
	}
	return d.stored(d.encodeK(value)), nil
}

// body reads a stored form, with the row brought forward to the collection's schema.
func (d *definition) body(raw []byte) (rec record, err error) {
	if err := json.Unmarshal(raw, &rec); err != nil {
		return rec, fmt.Errorf("it is not a record: %w", err)
	}
	if len(rec.Row) == 0 || string(rec.Row) == "null" {
		return rec, errors.New("the record has no row")
	}
	if rec.Schema > d.schema {
		return rec, fmt.Errorf("it has schema %d, this program knows %d", rec.Schema, d.schema)
	}
	for from := rec.Schema; from < d.schema; from++ {
		if d.upgrade == nil {
			return rec, fmt.Errorf("it has schema %d, and there is no way from there to %d", from, d.schema)
		}
		if rec.Row, err = d.upgrade(from, rec.Row); err != nil {
			return rec, fmt.Errorf("upgrade from schema %d: %w", from, err)
		}
	}
	return rec, nil
}

// row makes a row with all that is derived from it.
func (d *definition) row(revision Revision, value any, key string) *row {
	r := &row{revision: revision, value: value}
	if len(d.indexes) > 0 {
		r.entries = make([][]string, len(d.indexes))
		for i, ix := range d.indexes {
			r.entries[i] = ix.entries(value, key)
		}
	}
	if len(d.totals) > 0 {
		r.shares = make([][]share, len(d.totals))
		for i, t := range d.totals {
			r.shares[i] = t.shares(value)
		}
	}
	return r
}

// size returns the most bytes that the stored form of a row can have, or an error when it cannot be stored.
func (d *definition) size(key string, value any) (int, error) {
	m := measure{bytes: recordSpace + len(d.name) + 1 + len(key)}
	d.measure(&m, reflect.ValueOf(value).Elem())
	if m.bad != "" {
		return 0, &RowError{Collection: d.name, Key: d.showK(key), Reason: m.bad}
	}
	return m.bytes, nil
}

// unchanged panics when the row is no longer what it was when it was made. Only rows of a paranoid store know.
func (r *row) unchanged(d *definition) {
	if r.check == nil {
		return
	}
	now, err := d.encode(r)
	if err != nil || !bytes.Equal(now, r.check) {
		panic(fmt.Sprintf("store: a row of %s was changed in place: its maps, slices and pointers are shared with the state\nwas %s\nis  %s",
			d.name, r.check, now))
	}
}
