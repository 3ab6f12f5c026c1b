// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/props"
	"github.com/holdfast-storage/holdfast/internal/store"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

// decode reads the body of a request. A body that is refused is an error for the client.
func (q *request) decode(v any) error {
	if err := q.jsonOnly(); err != nil {
		return err
	}
	return badBody(wire.Decode(q.Body, v))
}

// decodeOptional is decode for calls that may come without a body, which leaves v as it is.
func (q *request) decodeOptional(v any) error {
	if err := q.jsonOnly(); err != nil {
		return err
	}
	_, err := wire.DecodeOptional(q.Body, v)
	return badBody(err)
}

// jsonOnly refuses a body that says that it is something else than JSON. Many clients do not say what it is, and some, as curl
// and Python's libraries, call everything a form when nobody tells them otherwise; what is really a form does not decode.
func (q *request) jsonOnly() error {
	said := q.Header.Get("Content-Type")
	if said == "" || q.ContentLength == 0 {
		return nil
	}
	kind, _, err := mime.ParseMediaType(said)
	switch {
	case err != nil:
	case strings.HasSuffix(kind, "/json"), strings.HasSuffix(kind, "+json"):
		return nil
	case kind == "application/octet-stream", kind == "application/x-www-form-urlencoded":
		return nil
	}
	return &refusal{http.StatusUnsupportedMediaType, wire.NewRc(wire.APICallParseError,
		fmt.Sprintf("a body of the type %q is not read", said)).WithCorrection("send JSON, with Content-Type: application/json")}
}

func badBody(err error) error {
	if err == nil {
		return nil
	}
	if bad, ok := errors.AsType[*wire.DecodeError](err); ok {
		return &refusal{bad.Status(), wire.NewRc(wire.APICallParseError, "the request was not understood").WithCause(bad.Error())}
	}
	return &refusal{http.StatusBadRequest, wire.NewRc(wire.APICallParseError, "the request could not be read").WithCause(err.Error())}
}

// names returns the values of a repeated parameter. Empty ones are none.
func (q *request) names(param string) []string {
	return slices.DeleteFunc(q.URL.Query()[param], func(s string) bool { return s == "" })
}

// flag reads a boolean parameter in any case.
func (q *request) flag(param string) bool {
	return strings.EqualFold(q.URL.Query().Get(param), "true")
}

// volumeNumber reads the volume number in the path.
func (q *request) volumeNumber(object errs.Object) (int32, error) {
	text := q.PathValue("volume_number")
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 0 || model.VolumeNumber(n) > model.MaxVolumeNumber {
		return 0, errs.New(errs.Invalid, object, "the volume number %q is not possible", text).About(errs.VolumeNumber).
			Fix("use a number from 0 to %d", model.MaxVolumeNumber)
	}
	return int32(n), nil
}

// page is the part of a list that is asked for. The zero page is the whole list.
type page struct{ offset, limit int }

// page reads the paging parameters. An offset without a limit is ignored, as in LINSTOR.
func (q *request) page() (page, error) {
	var p page
	for param, to := range map[string]*int{"offset": &p.offset, "limit": &p.limit} {
		text := q.URL.Query().Get(param)
		if text == "" {
			continue
		}
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return p, errs.New(errs.Invalid, errs.NoObject, "the parameter %s=%q is not possible", param, text).About(errs.Query).
				Fix("use a whole number of at most 31 bits")
		}
		*to = int(n)
	}
	if p.limit <= 0 {
		return page{}, nil
	}
	return p, nil
}

// of yields the part of a sequence that the page is.
func pageOf[T any](p page, seq iter.Seq[T]) iter.Seq[T] {
	if p.limit == 0 {
		return seq
	}
	return func(yield func(T) bool) {
		at := 0
		for v := range seq {
			if at++; at <= p.offset {
				continue
			}
			if !yield(v) || at-p.offset >= p.limit {
				return
			}
		}
	}
}

// where yields the elements for which keep is true.
func where[T any](seq iter.Seq[T], keep func(*T) bool) iter.Seq[T] {
	return func(yield func(T) bool) {
		for v := range seq {
			if keep(&v) && !yield(v) {
				return
			}
		}
	}
}

// matching yields the elements whose properties fit the props parameters.
func matching[T any](seq iter.Seq[T], filters []string, of func(*T) model.Props) iter.Seq[T] {
	if len(filters) == 0 {
		return seq
	}
	return where(seq, func(v *T) bool { return of(v).Matches(filters) })
}

// keys returns the keys of names, sorted, each once.
func keys[K cmp.Ordered](names []string, key func(string) K) []K {
	out := make([]K, len(names))
	for i, n := range names {
		out[i] = key(n)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// chosen yields the rows that are named, in the order of their keys, and all rows when none is named.
func chosen[K cmp.Ordered, V any](r store.Reader, c *store.Collection[K, V], names []string, key func(string) K) iter.Seq[V] {
	if len(names) == 0 {
		return c.All(r)
	}
	return func(yield func(V) bool) {
		for _, k := range keys(names, key) {
			if v, ok := c.Get(r, k); ok && !yield(v) {
				return
			}
		}
	}
}

func nodeKey(s string) model.NodeKey             { return model.NodeName(s).Key() }
func poolKey(s string) model.PoolKey             { return model.PoolName(s).Key() }
func groupKey(s string) model.GroupKey           { return model.GroupName(s).Key() }
func definitionKey(s string) model.DefinitionKey { return model.DefinitionName(s).Key() }

// propsChange is what a request wants of properties. Some clients put a slash before keys.
func propsChange(m wire.PropsModify) model.PropsChange {
	return props.CleanChange(model.PropsChange{Set: m.OverrideProps, Delete: m.DeleteProps, DeleteNamespaces: m.DeleteNamespaces})
}
