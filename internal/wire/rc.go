// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"maps"
	"slices"
	"time"
)

// Keys of [Rc.ObjRefs].
const (
	RefNode     = "Node"
	RefRscDfn   = "RscDfn"
	RefRscGrp   = "RscGrp"
	RefVlmNr    = "VlmNr"
	RefStorPool = "StorPoolName"
	RefNetIf    = "NetIf"
	RefSnapshot = "Snapshot"
	RefRemote   = "Remote"
	RefUUID     = "UUID"
	RefPath     = "path"

	// RefStorPoolDfn names a storage pool on whichever nodes it exists.
	RefStorPoolDfn = "StorPoolDfn"
)

// Rc is one entry of an answer (ApiCallRc in the API): what happened to which object, why, and what to do about it.
//
// The With methods return a changed copy and never change the entry that they are called on.
type Rc struct {
	RetCode        RetCode           `json:"ret_code"`
	Message        string            `json:"message"`
	Cause          string            `json:"cause,omitempty"`
	Details        string            `json:"details,omitempty"`
	Correction     string            `json:"correction,omitempty"`
	ErrorReportIDs []string          `json:"error_report_ids,omitempty"`
	ObjRefs        map[string]string `json:"obj_refs,omitempty"`
	CreatedAt      string            `json:"created_at,omitempty"` // RFC 3339 with offset
}

// NewRc returns an entry. The type bits of code say whether it is a success, information, a warning or an error.
func NewRc(code RetCode, message string) Rc {
	return Rc{RetCode: code, Message: message}
}

// WithMask adds operation and object bits where the entry has none.
func (r Rc) WithMask(mask RetCode) Rc {
	r.RetCode = r.RetCode.With(mask)
	return r
}

// WithCause says why it happened.
func (r Rc) WithCause(cause string) Rc {
	r.Cause = cause
	return r
}

// WithDetails adds what an operator may want to know beyond the message.
func (r Rc) WithDetails(details string) Rc {
	r.Details = details
	return r
}

// WithCorrection says what to do about it.
func (r Rc) WithCorrection(correction string) Rc {
	r.Correction = correction
	return r
}

// WithRef names an object that took part; key is one of the Ref constants.
func (r Rc) WithRef(key, name string) Rc {
	refs := make(map[string]string, len(r.ObjRefs)+1)
	maps.Copy(refs, r.ObjRefs)
	refs[key] = name
	r.ObjRefs = refs
	return r
}

// WithErrorReport adds the id of a stored error report.
func (r Rc) WithErrorReport(id string) Rc {
	r.ErrorReportIDs = append(slices.Clone(r.ErrorReportIDs), id)
	return r
}

// WithTime says when the entry was made.
func (r Rc) WithTime(at time.Time) Rc {
	r.CreatedAt = at.Format(time.RFC3339Nano)
	return r
}

// RcList is the body of every answer that is not data. Its order is the order of display.
type RcList []Rc

// FirstError returns the first entry of type error.
func (l RcList) FirstError() (Rc, bool) {
	for _, r := range l {
		if r.RetCode.IsError() {
			return r, true
		}
	}
	return Rc{}, false
}

// Has reports whether an entry has the type and the code of c.
func (l RcList) Has(c RetCode) bool {
	return slices.ContainsFunc(l, func(r Rc) bool { return r.RetCode.Is(c) })
}

// Finish returns the list as it goes out: each entry has the operation and object bits of mask where it had none and
// the time at where it had none, and a list without entries has one that says that nothing had to be done.
func (l RcList) Finish(mask RetCode, at time.Time) RcList {
	if len(l) == 0 {
		l = RcList{NewRc(InfoNoop, "Nothing had to be done.")}
	}
	out := make(RcList, len(l))
	for i, r := range l {
		r = r.WithMask(mask)
		if r.CreatedAt == "" {
			r = r.WithTime(at)
		}
		out[i] = r
	}
	return out
}

// HTTP statuses that errors map to.
const (
	statusUnauthorized = 401
	statusForbidden    = 403
	statusNotFound     = 404
	statusBadRequest   = 400
	statusInternal     = 500
)

// Status returns the HTTP status of the list. The first error decides; warnings and information never do. Without an
// error it is success, which is the call's own 200 or 201.
//
// Most refusals are 500 by the API's rule, also those that are the caller's doing, such as "already exists": clients
// tell them apart by their code.
func (l RcList) Status(success int) int {
	r, found := l.FirstError()
	if !found {
		return success
	}
	if r.RetCode == APICallParseError {
		return statusBadRequest
	}
	if r.RetCode == APICallAuthReq {
		return statusUnauthorized
	}
	if r.RetCode == UnknownAPICall {
		return statusNotFound
	}
	switch code := r.RetCode & CodeBits; {
	case code >= 300 && code <= 399:
		return statusNotFound
	case code >= 400 && code <= 499, code == FailSignIn&CodeBits:
		return statusForbidden
	case code == FailSignInMissingCredentials&CodeBits:
		return statusUnauthorized
	default:
		return statusInternal
	}
}
