// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-storage/holdfast/internal/agent/device"
	"github.com/holdfast-storage/holdfast/internal/durable"
	"github.com/holdfast-storage/holdfast/internal/model"
)

// record is a making that has begun and is not done.
type record struct {
	Provider model.Provider `json:"provider"`
	Name     string         `json:"name"`
	Token    string         `json:"token"`
	Members  []member       `json:"members"`
}

// member is a device that a backend is made of.
type member struct {
	Path   string `json:"path"` // as it was asked for
	Size   int64  `json:"size"`
	Serial string `json:"serial,omitempty"`
	WWN    string `json:"wwn,omitempty"`
	UUID   string `json:"uuid"` // of its physical volume
}

// newRecord returns a record of what is asked for, with the devices as they were found.
func newRecord(w spec, found []device.Device) record {
	r := record{Provider: w.Provider, Name: w.Name, Token: rand.Text()}
	for i, d := range found {
		r.Members = append(r.Members, member{Path: w.Devices[i], Size: d.Size, Serial: d.Serial, WWN: d.WWN, UUID: volumeUUID()})
	}
	return r
}

// volumeUUID returns a new identifier in the form of LVM's.
func volumeUUID() string {
	text := rand.Text() + rand.Text()
	var parts []string
	for _, n := range []int{6, 4, 4, 4, 4, 4, 6} {
		parts = append(parts, text[:n])
		text = text[n:]
	}
	return strings.Join(parts, "-")
}

func (r record) spec() spec {
	w := spec{Provider: r.Provider, Name: r.Name}
	for _, m := range r.Members {
		w.Devices = append(w.Devices, m.Path)
	}
	return w
}

func (r record) file() string { return r.spec().file() }

// mark is what the group or zpool of a making carries.
func (r record) mark() string { return markOf(r.Provider) + r.Token }

// markOf is how marks begin of what is made for a provider.
func markOf(p model.Provider) string { return string(p) + "." }

// write writes a record down. It is on disk when it returns.
func (s *Service) write(r record) error {
	if s.c.Dir == "" {
		return nil
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.c.Dir, 0o700); err != nil {
		return err
	}
	if err := durable.Folder(filepath.Dir(s.c.Dir)); err != nil {
		return err
	}
	return durable.Write(filepath.Join(s.c.Dir, r.file()), text)
}

// erase forgets a record, so that it will not be undone any more.
func (s *Service) erase(r record) error {
	if s.c.Dir == "" {
		return nil
	}
	return durable.Remove(filepath.Join(s.c.Dir, r.file()))
}

// records returns what is written down. It is an error that a record cannot be read; the others are returned all the same.
func (s *Service) records() ([]record, error) {
	if s.c.Dir == "" {
		return nil, nil
	}
	names, err := filepath.Glob(filepath.Join(s.c.Dir, "*.json"))
	if err != nil {
		return nil, err
	}
	var (
		list []record
		bad  []error
	)
	for _, name := range names {
		r, err := readRecord(name)
		switch {
		case errors.Is(err, os.ErrNotExist): // The making has ended.
		case err != nil:
			bad = append(bad, fmt.Errorf("read %s: %w", name, err))
		default:
			list = append(list, r)
		}
	}
	return list, errors.Join(bad...)
}

// going tells whether a making is still written down.
func (s *Service) going(r record) (bool, error) {
	now, err := readRecord(filepath.Join(s.c.Dir, r.file()))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return now.Token == r.Token, err
}

func readRecord(name string) (record, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return record{}, err
	}
	var r record
	if err := json.Unmarshal(text, &r); err != nil {
		return record{}, err
	}
	if err := model.CheckBackend(r.Provider, r.Name); err != nil || r.Token == "" || r.file() != filepath.Base(name) {
		return record{}, errors.New("it is not the record of a backend")
	}
	return r, nil
}
