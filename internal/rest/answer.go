// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

// data answers a read.
func (q *request) data(b body) {
	out := q.output(http.StatusOK)
	b.write(out)
	out.end()
}

// entries answers with a list of entries. Each gets the operation and the object of the call, and the names in its path,
// where it has none of its own.
func (q *request) entries(l wire.RcList, status int) {
	l = l.Finish(q.route.mask, q.server.Now())
	refs := q.refs()
	for i := range l {
		for _, r := range refs {
			if _, has := l[i].ObjRefs[r.key]; !has {
				l[i] = l[i].WithRef(r.key, r.name)
			}
		}
	}
	out := q.output(status)
	out.Value(l)
	out.end()
}

// ref is a name in the path of a request, under the key that entries have for it.
type ref struct{ key, name string }

// refs returns the objects that the path names.
func (q *request) refs() []ref {
	var refs []ref
	for _, p := range []struct{ wildcard, key string }{
		{"node", wire.RefNode},
		{"resource", wire.RefRscDfn},
		{"resource_group", wire.RefRscGrp},
		{"volume_number", wire.RefVlmNr},
		{"storagepool", wire.RefStorPool},
		{"netinterface", wire.RefNetIf},
		{"snapshot", wire.RefSnapshot},
	} {
		name := q.PathValue(p.wildcard)
		if name == "" {
			continue
		}
		if p.key == wire.RefStorPool && q.route.mask&wire.ObjBits == wire.ObjStorPoolDfn {
			p.key = wire.RefStorPoolDfn
		}
		refs = append(refs, ref{p.key, name})
	}
	return refs
}

// fail answers with an error. Entries about what was done before it come first.
func (q *request) fail(err error, before ...wire.Rc) {
	if refused, ok := errors.AsType[*refusal](err); ok {
		q.problem = refused.entry.Message
		q.entries(append(before, refused.entry), refused.status)
		return
	}
	e := errs.As(schema.Refusal(err))
	entry := entryOf(e)
	q.problem = e.Error()
	if e.Kind == errs.Internal {
		q.report = q.server.Reports.add(q, chain(err), string(debug.Stack()))
		entry = entry.WithErrorReport(q.report)
	}
	l := append(wire.RcList(before), entry)
	code := status(e)
	if code == http.StatusServiceUnavailable {
		q.w.Header().Set("Retry-After", "1")
	}
	if code == 0 {
		code = l.Status(http.StatusOK)
	}
	q.entries(l, code)
}

// chain is all that is known of an error.
func chain(err error) string {
	var texts []string
	for ; err != nil; err = errors.Unwrap(err) {
		texts = append(texts, err.Error())
	}
	return strings.Join(texts, "\ncaused by: ")
}

func entryOf(e *errs.Error) wire.Rc {
	return wire.Rc{
		RetCode: code(e), Message: e.Message, Cause: e.Cause, Details: e.Details, Correction: e.Correction, ObjRefs: e.Refs,
	}
}

// refusal is an error about the request itself, with the status that HTTP has for it.
type refusal struct {
	status int
	entry  wire.Rc
}

func (r *refusal) Error() string { return r.entry.Message }

func noSuchPath(path string) error {
	return &refusal{http.StatusNotFound, wire.NewRc(wire.UnknownAPICall, fmt.Sprintf("the path %q is not part of the API", path)).
		WithCorrection("see the list of operations of the LINSTOR REST API v1")}
}

func noSuchMethod(method, path, allowed string) error {
	return &refusal{http.StatusMethodNotAllowed, wire.NewRc(wire.UnknownAPICall,
		fmt.Sprintf("the path %q does not take %s", path, method)).WithCorrection("it takes " + allowed)}
}

// notThereYet answers for an operation of the API that this version does not serve.
func notThereYet(r Route) error {
	return &refusal{http.StatusNotImplemented, wire.NewRc(wire.FailImplError,
		fmt.Sprintf("%s %s is not there yet", r.Method, r.Path)).
		WithCause("this version of Holdfast does not serve this operation of the API").
		WithCorrection("use a later version")}
}

func panicked(report string) wire.Rc {
	return wire.NewRc(wire.FailImplError, "the request ended by a fault of the controller").
		WithCause("see error report " + report).WithErrorReport(report).
		WithCorrection("look at the objects before trying again, and report the fault with the text of the error report")
}

// done is the entry of a success. The UUID is that of the object, where the call made one.
func done(code wire.RetCode, uuid, format string, args ...any) wire.Rc {
	rc := wire.NewRc(code, fmt.Sprintf(format, args...))
	if uuid != "" {
		rc = rc.WithDetails("UUID: "+uuid).WithRef(wire.RefUUID, uuid)
	}
	return rc
}

// counted is a number of things.
func counted(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// with returns an outcome followed by its notices.
func (q *request) with(outcome wire.Rc, notices []errs.Notice) wire.RcList {
	return append(wire.RcList{outcome}, q.notices(notices)...)
}

func (q *request) notices(notices []errs.Notice) wire.RcList {
	var l wire.RcList
	for _, n := range notices {
		l = append(l, wire.NewRc(noticeCode(n.Kind, q.route.success()), n.Message))
	}
	return l
}
