// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/holdfast-storage/holdfast/internal/wire"
)

// request is one call, before a controller is chosen for it.
type request struct {
	method string
	path   string // escaped
	query  url.Values
	body   []byte
}

// reads reports whether the call changes nothing and may be repeated.
func (r request) reads() bool {
	return r.method == http.MethodGet || r.method == http.MethodHead
}

// path joins escaped segments below /v1.
func path(segments ...string) string {
	var b strings.Builder
	b.WriteString("/v1")
	for _, s := range segments {
		b.WriteByte('/')
		b.WriteString(url.PathEscape(s))
	}
	return b.String()
}

// get reads one value.
func get[T any](ctx context.Context, c *Client, path string, query url.Values) (T, error) {
	return exchange[T](ctx, c, request{method: http.MethodGet, path: path, query: query})
}

// post sends body and reads an answer that is not a list of entries.
func post[T any](ctx context.Context, c *Client, path string, body any) (T, error) {
	var none T
	encoded, err := wire.Encode(body)
	if err != nil {
		return none, fmt.Errorf("encode request: %w", err)
	}
	return exchange[T](ctx, c, request{method: http.MethodPost, path: path, body: encoded})
}

func exchange[T any](ctx context.Context, c *Client, r request) (T, error) {
	var value T
	answer, err := c.do(ctx, r)
	if err != nil {
		return value, err
	}
	if err := json.Unmarshal(answer.Answer, &value); err != nil {
		return value, answer.unexpected("it is not what this call answers: " + err.Error())
	}
	return value, nil
}

// change sends a changing request and reads the entries of the answer. A body of nil is left out.
func (c *Client) change(ctx context.Context, method, path string, query url.Values, body any) (RcList, error) {
	r := request{method: method, path: path, query: query}
	if body != nil {
		encoded, err := wire.Encode(body)
		if err != nil {
			return nil, fmt.Errorf("encode request: %w", err)
		}
		r.body = encoded
	}
	entries, err := exchange[RcList](ctx, c, r)
	if err != nil {
		return nil, err
	}
	if _, failed := entries.FirstError(); failed {
		return nil, &Error{Method: method, Path: path, Status: http.StatusOK, Entries: entries}
	}
	return entries, nil
}

// do sends r to the controllers in turn and returns the first answer below 400.
func (c *Client) do(ctx context.Context, r request) (Exchange, error) {
	if c.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.timeout)
		defer cancel()
	}
	failure := &ConnectionError{Method: r.method, Path: r.path}
	var unavailable error
	first := int(c.preferred.Load())
	for i := range c.controllers {
		at := (first + i) % len(c.controllers)
		answer, sent, err := c.follow(ctx, c.controllers[at], r)
		if err != nil {
			failure.Attempts = append(failure.Attempts, Attempt{c.controllers[at].base.Load().Host, err})
			failure.Unknown = sent && !r.reads()
			if failure.Unknown || ctx.Err() != nil {
				return Exchange{}, failure
			}
			continue
		}
		if c.trace != nil {
			c.trace(answer)
		}
		err = judge(r, answer)
		if answer.Status == http.StatusServiceUnavailable {
			unavailable = err
			continue
		}
		c.preferred.Store(int32(at))
		return answer, err
	}
	if unavailable != nil {
		return Exchange{}, unavailable
	}
	return Exchange{}, failure
}

// judge turns a status of 400 and above into an error.
func judge(r request, answer Exchange) error {
	if answer.Status < 400 {
		return nil
	}
	var entries RcList
	if err := json.Unmarshal(answer.Answer, &entries); err != nil {
		// A refused clone has its entries in an object.
		var started ResourceDefinitionCloneStarted
		if json.Unmarshal(answer.Answer, &started) != nil || len(started.Messages) == 0 {
			return answer.unexpected("it is not a list of entries")
		}
		entries = started.Messages
	}
	return &Error{Method: r.method, Path: r.path, Status: answer.Status, Entries: entries}
}

// maxRedirects bounds how often one controller may send a request elsewhere: from http to https, and once more.
const maxRedirects = 2

// follow sends r to one controller, and again where it redirects to. The method and the body stay, unlike in a browser:
// controllers redirect to their https port.
func (c *Client) follow(ctx context.Context, to *controller, r request) (answer Exchange, sent bool, err error) {
	for range maxRedirects + 1 {
		base := to.base.Load()
		var location string
		answer, location, sent, err = c.send(ctx, base, r)
		if err != nil || location == "" {
			return answer, sent, err
		}
		target, err := base.Parse(location)
		if err != nil || target.Hostname() != base.Hostname() || (base.Scheme == "https" && target.Scheme != "https") {
			return answer, false, fmt.Errorf("redirected to %q, which is not the same host or not as secure", location)
		}
		to.base.Store(&url.URL{Scheme: target.Scheme, Host: target.Host})
	}
	return answer, false, errors.New("redirected too often")
}

// send sends r once. Location is set when the answer is a redirection. Sent reports whether the request may have reached
// the controller.
func (c *Client) send(ctx context.Context, base *url.URL, r request) (answer Exchange, location string, sent bool, err error) {
	var wrote atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { wrote.Store(true) }})
	target := base.String() + r.path
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	req, err := http.NewRequestWithContext(traced, r.method, target, bytes.NewReader(r.body))
	if err != nil {
		return answer, "", false, err
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", c.userAgent)
	if len(r.body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	c.authorize(req)
	start := time.Now()
	res, err := c.http.Do(req)
	if err != nil {
		return answer, "", wrote.Load(), plain(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err == nil && len(body) > maxAnswer {
		err = fmt.Errorf("the answer is longer than %d bytes", maxAnswer)
	}
	if err != nil {
		return answer, "", true, fmt.Errorf("read answer: %w", err)
	}
	if res.StatusCode >= 300 && res.StatusCode < 400 {
		location = res.Header.Get("Location")
	}
	return Exchange{r.method, target, r.body, res.StatusCode, body, time.Since(start)}, location, true, nil
}

// plain takes away the wrapping that repeats method and URL.
func plain(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}

func (x Exchange) unexpected(problem string) error {
	const most = 80
	begin := x.Answer[:min(len(x.Answer), most)]
	for len(begin) > 0 && len(x.Answer) > most && !utf8.Valid(begin) && len(begin) > most-utf8.UTFMax {
		begin = begin[:len(begin)-1]
	}
	return &UnexpectedError{Method: x.Method, URL: x.URL, Status: x.Status, Problem: problem, Answer: string(begin)}
}
