// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

// Reports keeps reports of faults of the software, the newest in memory. What a user did wrong is never one. The zero value
// is empty; all methods may be called from several goroutines.
type Reports struct {
	mu      sync.Mutex
	process string // the first part of all ids
	made    int
	kept    []report // the oldest first
}

// Bounds of what is kept.
const (
	maxReports    = 256
	maxReportText = 32 << 10 // bytes
)

// reportNode is where the reports of this store come from, as clients name it.
const reportNode = "Controller"

// report is one fault.
type report struct {
	id      string
	at      time.Time
	message string
	text    string
	version string
	client  string
}

// add keeps a report about a request and returns its id. It never holds the body of the request, which may have secrets.
func (r *Reports) add(q *request, what, stack string) string {
	message, _, _ := strings.Cut(what, "\n")
	text := fmt.Sprintf("Request:  %s %s\nId:       %s\nClient:   %s\nVersion:  %s\nProblem:  %s\n\n%s",
		q.Method, q.URL.Path, q.id, q.RemoteAddr, q.server.Build.Version, what, stack)
	if len(text) > maxReportText {
		text = text[:maxReportText] + "\n(cut)"
	}
	now := q.server.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.process == "" {
		var b [4]byte
		_, _ = rand.Read(b[:]) // It never fails.
		r.process = strings.ToUpper(hex.EncodeToString(b[:]))
	}
	id := fmt.Sprintf("%s-00000-%06d", r.process, r.made)
	r.made++
	if len(r.kept) == maxReports {
		r.kept = slices.Delete(r.kept, 0, 1)
	}
	r.kept = append(r.kept, report{
		id: id, at: now, message: message, text: text, version: q.server.Build.Version, client: q.RemoteAddr,
	})
	return id
}

// Counts returns how many reports are kept, and how many were made since the start.
func (r *Reports) Counts() (kept, made int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.kept), r.made
}

// find returns the reports that fit, the newest first.
func (r *Reports) find(fits func(report) bool) []report {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []report
	for _, x := range slices.Backward(r.kept) {
		if fits(x) {
			out = append(out, x)
		}
	}
	return out
}

// remove forgets the reports that fit and returns how many they were.
func (r *Reports) remove(fits func(report) bool) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := len(r.kept)
	r.kept = slices.DeleteFunc(r.kept, fits)
	return before - len(r.kept)
}

func (x report) wire(content bool) wire.ErrorReport {
	out := wire.ErrorReport{
		NodeName: reportNode, ErrorTime: x.at.UnixMilli(), Filename: "ErrorReport-" + x.id + ".log", Module: wire.ModuleController,
		Version: x.version, Peer: x.client, Exception: "fault", ExceptionMessage: x.message,
	}
	if content {
		out.Text = x.text
	}
	return out
}

// span is the time that reports are asked for, in milliseconds since the epoch; nil is open.
type span struct{ since, to *int64 }

func (s span) holds(at time.Time) bool {
	ms := at.UnixMilli()
	return (s.since == nil || ms >= *s.since) && (s.to == nil || ms <= *s.to)
}

func (q *request) span() (span, error) {
	var s span
	for param, to := range map[string]**int64{"since": &s.since, "to": &s.to} {
		text := q.URL.Query().Get(param)
		if text == "" {
			continue
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return s, errs.New(errs.Invalid, errs.NoObject, "the parameter %s=%q is not possible", param, text).About(errs.Query).
				Fix("use milliseconds since 1970")
		}
		*to = &n
	}
	return s, nil
}

func onNode(names []string) bool {
	return len(names) == 0 || slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, reportNode) })
}

// listReports answers without the texts, unless they are asked for.
func (s *Server) listReports(q *request) (body, error) {
	when, err := q.span()
	if err != nil {
		return nil, err
	}
	p, err := q.page()
	if err != nil {
		return nil, err
	}
	nodes, content := q.names("node"), q.flag("withContent")
	found := s.Reports.find(func(x report) bool { return onNode(nodes) && when.holds(x.at) })
	return values(pageOf(p, slices.Values(found)), func(x *report) wire.ErrorReport { return x.wire(content) }), nil
}

func (s *Server) getReport(q *request) (body, error) {
	id := q.PathValue("reportid")
	found := s.Reports.find(func(x report) bool { return x.id == id })
	if len(found) == 0 {
		return nil, noReport(id)
	}
	return value{[]wire.ErrorReport{found[0].wire(true)}}, nil
}

func noReport(id string) error {
	return errs.New(errs.NotFound, errs.NoObject, "error report %s does not exist", id).
		Because("the newest %d reports since the start of the controller are kept", maxReports)
}

func (s *Server) deleteReport(q *request) (wire.RcList, error) {
	id := q.PathValue("reportid")
	if s.Reports.remove(func(x report) bool { return x.id == id }) == 0 {
		return nil, noReport(id)
	}
	return wire.RcList{done(wire.Deleted, "", "error report %s deleted", id)}, nil
}

// deleteReports deletes the reports that fit all that the body says.
func (s *Server) deleteReports(q *request) (wire.RcList, error) {
	var b wire.ErrorReportDelete
	if err := q.decode(&b); err != nil {
		return nil, err
	}
	when := span{(*int64)(b.Since), (*int64)(b.To)}
	n := s.Reports.remove(func(x report) bool {
		return onNode(b.Nodes) && when.holds(x.at) && (len(b.IDs) == 0 || slices.Contains(b.IDs, x.id)) &&
			(b.Exception == "" || strings.Contains(x.message, b.Exception)) && (b.Version == "" || b.Version == x.version)
	})
	return wire.RcList{done(wire.Deleted, "", "%s deleted", counted(n, "error report"))}, nil
}

func (s *Server) countReports(*request) (body, error) {
	return value{wire.Stats{Count: int64(len(s.Reports.find(func(report) bool { return true })))}}, nil
}
