// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"crypto/tls"
	"net/http"
)

// WithTLS sends requests to https controllers with these settings: the authorities that are believed, and the certificate that
// the client shows. It has no effect together with [WithHTTPClient].
func WithTLS(settings *tls.Config) Option {
	return func(c *Client) { c.tls = settings }
}

// WithBasicAuth sends a user's name and password with each request, instead of a token.
func WithBasicAuth(user, password string) Option {
	return func(c *Client) { c.user, c.password = user, password }
}

// authorize puts the client's credentials into a request.
func (c *Client) authorize(r *http.Request) {
	switch {
	case c.token != "":
		r.Header.Set("Authorization", "Bearer "+c.token)
	case c.user != "":
		r.SetBasicAuth(c.user, c.password)
	}
}
