// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"errors"
	"os"
	"regexp"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

// Database writes the whole database of the controller to files on its host.
type Database interface {
	// Named makes a backup under a name, or under one of its own, and returns its path. A name that is taken is [os.ErrExist].
	Named(ctx context.Context, name string) (path string, err error)
	// Export writes it as JSON, secrets included, in the same way.
	Export(ctx context.Context, name string) (path string, err error)
}

// backupRequest is the body of both operations.
type backupRequest struct {
	Name string `json:"backup_name"`
}

// fileName is what clients may call a file.
var fileName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

func (s *Server) backupDatabase(q *request) (wire.RcList, error) {
	return s.writeDatabase(q, "a backup of the database is", Database.Named)
}

func (s *Server) exportDatabase(q *request) (wire.RcList, error) {
	return s.writeDatabase(q, "the database, with its secrets, was exported to", Database.Export)
}

func (s *Server) writeDatabase(q *request, what string, write func(Database, context.Context, string) (string, error)) (wire.RcList, error) {
	if s.Database == nil {
		return nil, errs.New(errs.Unsupported, errs.Controller, "this controller makes no backups").
			Because("it was started without a folder for them").Fix("use `holdfast db backup` on its host")
	}
	var b backupRequest
	if err := q.decodeOptional(&b); err != nil {
		return nil, err
	}
	if b.Name != "" && !fileName.MatchString(b.Name) {
		return nil, errs.New(errs.Invalid, errs.Controller, "the name %q is not possible for a file", b.Name).About(errs.Body).
			Fix("use up to 100 letters, digits, dots, _ and -, without a folder")
	}
	path, err := write(s.Database, q.Context(), b.Name)
	switch {
	case errors.Is(err, os.ErrExist):
		return nil, errs.New(errs.Exists, errs.Controller, "there is a file of the name %q already", b.Name).Fix("choose another name")
	case err != nil:
		return nil, errs.New(errs.HostFailed, errs.Controller, "the file could not be written").Because("%v", err).
			Fix("look at the folder for backups on the controller's host, and at the space there")
	}
	return wire.RcList{done(wire.Created, "", "%s %s", what, path)}, nil
}

// databaseStatus is what is known of the database of the controller that answers.
type databaseStatus struct {
	Place      string     `json:"place"`
	Revision   uint64     `json:"revision"`
	Generation int        `json:"generation"`
	Program    string     `json:"program"`
	Writable   bool       `json:"writable"`
	Problem    string     `json:"problem,omitempty"`
	SetAside   []setAside `json:"set_aside"`
	Unknown    int        `json:"unknown_volumes"` // that hosts hold; GET /v1/orphans lists them
}

// setAside is a stored row that cannot be used.
type setAside struct {
	Collection string `json:"collection"`
	Key        string `json:"key"`
	Reason     string `json:"reason"`
}

// showDatabase says how the database is, with the rows that were set aside.
func (s *Server) showDatabase(*request) (body, error) {
	v := s.Store.Snapshot()
	d := databaseStatus{
		Place: s.Setup.Database, Revision: uint64(v.Revision()), Generation: v.Origin().Generation, Program: v.Origin().Program,
		Writable: true, SetAside: []setAside{},
	}
	if err := s.Store.Err(); err != nil {
		d.Writable, d.Problem = false, err.Error()
	}
	for _, a := range s.Store.SetAside() {
		d.SetAside = append(d.SetAside, setAside{a.Collection, a.Key, a.Reason})
	}
	if s.Inventory != nil {
		d.Unknown = len(s.Inventory.Orphans())
	}
	return value{d}, nil
}
