// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"net/http"
	"slices"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

// Tier says who needs an operation.
type Tier string

// The tiers.
const (
	Daily   Tier = "T1"  // the whole life of a volume under linstor-csi, and the everyday command line
	Asked   Tier = "T1*" // must answer; an empty answer is enough
	Feature Tier = "T2"  // other clients, or a feature of its own
	Rare    Tier = "T3"
)

// State says whether an operation is served.
type State string

// The states.
const (
	Served  State = "served"
	Empty   State = "empty"   // answers what an installation answers that has none of these objects
	Planned State = "planned" // answers 501
)

// Route is one operation of the API.
type Route struct {
	Method string
	Path   string // as patterns of http.ServeMux have it
	Tier   Tier
	State  State

	mask   wire.RetCode // operation and object of its entries
	handle func(*Server, *request)
}

func (r Route) pattern() string { return r.Method + " " + r.Path }

// success is the code of the route's own success.
func (r Route) success() wire.RetCode {
	switch r.mask & wire.OpBits {
	case wire.OpCreate:
		return wire.Created
	case wire.OpDelete:
		return wire.Deleted
	default:
		return wire.Modified
	}
}

// Routes lists all operations of the API: those of its specification, and those that the reference server has beyond it.
// The list is the caller's own.
func Routes() []Route {
	return slices.Concat(
		controllerRoutes(), nodeRoutes(), poolRoutes(), groupRoutes(), definitionRoutes(), resourceRoutes(),
		snapshotRoutes(), cloneRoutes(), moveRoutes(), eventRoutes(), backupRoutes(), otherRoutes(),
	)
}

// The kinds of answers.
type (
	reader  func(*Server, *request) (body, error)
	changer func(*Server, *request) (wire.RcList, error)
)

// read makes the route of a read of objects.
func read(method, path string, tier Tier, object wire.RetCode, f reader) Route {
	return Route{Method: method, Path: path, Tier: tier, State: Served, mask: object, handle: func(s *Server, q *request) {
		b, err := f(s, q)
		if err != nil {
			q.fail(err)
			return
		}
		q.data(b)
	}}
}

// get makes the route of a GET.
func get(path string, tier Tier, object wire.RetCode, f reader) Route {
	return read(http.MethodGet, path, tier, object, f)
}

// none makes the route of a GET of objects that this version never has.
func none(path string, tier Tier, v any) Route {
	r := get(path, tier, 0, func(*Server, *request) (body, error) { return value{v}, nil })
	r.State = Empty
	return r
}

// change makes the route of an operation that answers with entries, and with status when none of them is an error.
func change(method, path string, tier Tier, mask wire.RetCode, status int, f changer) Route {
	return Route{Method: method, Path: path, Tier: tier, State: Served, mask: mask, handle: func(s *Server, q *request) {
		l, err := f(s, q)
		if err != nil {
			q.fail(err, l...)
			return
		}
		q.entries(l, l.Status(status))
	}}
}

func create(path string, tier Tier, object wire.RetCode, f changer) Route {
	return change(http.MethodPost, path, tier, wire.OpCreate|object, http.StatusCreated, f)
}

func modify(path string, tier Tier, object wire.RetCode, f changer) Route {
	return change(http.MethodPut, path, tier, wire.OpModify|object, http.StatusOK, f)
}

// remove makes the route of a deletion. When the object itself does not exist, the call succeeds with a warning; when its
// parent does not, it does not.
func remove(path string, tier Tier, object wire.RetCode, itself errs.Object, f changer) Route {
	return change(http.MethodDelete, path, tier, wire.OpDelete|object, http.StatusOK,
		func(s *Server, q *request) (wire.RcList, error) {
			l, err := f(s, q)
			if e := errs.As(err); e != nil && e.Kind == errs.NotFound && e.Object == itself {
				return append(l, wire.Rc{RetCode: wire.WarnNotFound, Message: e.Message, Cause: e.Cause, ObjRefs: e.Refs}), nil
			}
			return l, err
		})
}

// drop makes the route of a deletion that fails when there is nothing to delete.
func drop(path string, tier Tier, object wire.RetCode, f changer) Route {
	return change(http.MethodDelete, path, tier, wire.OpDelete|object, http.StatusOK, f)
}

// empty makes a route one of an installation that has none of its objects.
func empty(r Route) Route {
	r.State = Empty
	return r
}

// raw makes the route of a GET whose handler writes its own answer.
func raw(path string, tier Tier, f func(*Server, *request)) Route {
	return Route{Method: http.MethodGet, Path: path, Tier: tier, State: Served, handle: f}
}

// planned makes the route of an operation that is not served yet.
func planned(method, path string, tier Tier) Route {
	return Route{Method: method, Path: path, Tier: tier, State: Planned}
}
