// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/holdfast-storage/holdfast/internal/wire"
)

// Health asks whether a controller serves. A controller that is not well answers in plain text, which is in the [*Error].
func (c *Client) Health(ctx context.Context) error {
	_, err := c.do(ctx, request{method: http.MethodGet, path: "/health"})
	if answer, ok := errors.AsType[*UnexpectedError](err); ok {
		sick := wire.NewRc(wire.FailUnknownError, "The controller is not healthy.").WithCause(strings.TrimSpace(answer.Answer))
		return &Error{Method: http.MethodGet, Path: "/health", Status: answer.Status, Entries: RcList{sick}}
	}
	return err
}

// ControllerVersion returns the versions of the controller and of the API that it serves.
func (c *Client) ControllerVersion(ctx context.Context) (ControllerVersion, error) {
	return get[ControllerVersion](ctx, c, path("controller", "version"), nil)
}

// ControllerProperties returns the controller's properties.
func (c *Client) ControllerProperties(ctx context.Context) (Properties, error) {
	return get[Properties](ctx, c, path("controller", "properties"), nil)
}

// ModifyControllerProperties changes the controller's properties.
func (c *Client) ModifyControllerProperties(ctx context.Context, modify ControllerPropsModify) (RcList, error) {
	return c.change(ctx, http.MethodPost, path("controller", "properties"), nil, modify)
}

// DeleteControllerProperty deletes one of the controller's properties.
func (c *Client) DeleteControllerProperty(ctx context.Context, key string) (RcList, error) {
	segments := strings.Split(key, "/")
	for i, s := range segments {
		segments[i] = url.PathEscape(s)
	}
	return c.change(ctx, http.MethodDelete, path("controller", "properties")+"/"+strings.Join(segments, "/"), nil, nil)
}

// ControllerConfig returns how the controller is set up.
func (c *Client) ControllerConfig(ctx context.Context) (ControllerConfig, error) {
	return get[ControllerConfig](ctx, c, path("controller", "config"), nil)
}

// ModifyControllerConfig changes what can be changed while the controller runs: the level of its log.
func (c *Client) ModifyControllerConfig(ctx context.Context, modify ControllerConfig) (RcList, error) {
	return c.change(ctx, http.MethodPut, path("controller", "config"), nil, modify)
}

// KeyValueStores returns all key-value stores.
func (c *Client) KeyValueStores(ctx context.Context) ([]KeyValueStore, error) {
	return get[[]KeyValueStore](ctx, c, path("key-value-store"), nil)
}

// KeyValueStore returns one key-value store. See [IsNotFound].
func (c *Client) KeyValueStore(ctx context.Context, name string) (KeyValueStore, error) {
	one, err := get[[]KeyValueStore](ctx, c, path("key-value-store", name), nil)
	if err != nil {
		return KeyValueStore{}, err
	}
	if len(one) != 1 {
		return KeyValueStore{}, absent(path("key-value-store", name), wire.FailNotFoundKVS, "There is no key-value store "+name+".")
	}
	return one[0], nil
}

// ModifyKeyValueStore changes a key-value store. It is made with its first key and goes with its last.
func (c *Client) ModifyKeyValueStore(ctx context.Context, name string, modify KeyValueStoreModify) (RcList, error) {
	return c.change(ctx, http.MethodPut, path("key-value-store", name), nil, modify)
}

// DeleteKeyValueStore deletes a key-value store with all its keys.
func (c *Client) DeleteKeyValueStore(ctx context.Context, name string) (RcList, error) {
	return c.change(ctx, http.MethodDelete, path("key-value-store", name), nil, nil)
}

// ErrorReports returns the reports that the filter selects, newest first.
func (c *Client) ErrorReports(ctx context.Context, filter ErrorReportFilter) ([]ErrorReport, error) {
	return get[[]ErrorReport](ctx, c, path("error-reports"), filter.query())
}

// ErrorReport returns one report with its text. See [IsNotFound].
func (c *Client) ErrorReport(ctx context.Context, id string) (ErrorReport, error) {
	one, err := get[[]ErrorReport](ctx, c, path("error-reports", id), url.Values{"withContent": {"true"}})
	if err != nil {
		return ErrorReport{}, err
	}
	if len(one) == 0 {
		return ErrorReport{}, absent(path("error-reports", id), wire.FailUnknownError, "There is no error report "+id+".")
	}
	return one[0], nil
}

// DeleteErrorReports deletes the reports that fit all fields of what is asked.
func (c *Client) DeleteErrorReports(ctx context.Context, ask ErrorReportDelete) (RcList, error) {
	return c.change(ctx, http.MethodPatch, path("error-reports"), nil, ask)
}

// absent returns the error for an object that an answer of success does not contain.
func absent(path string, code RetCode, message string) error {
	return &Error{Method: http.MethodGet, Path: path, Status: http.StatusNotFound, Entries: RcList{wire.NewRc(code, message)}}
}
