// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

// Ports that controllers listen on unless told otherwise.
const (
	DefaultPort    = "3370"
	DefaultTLSPort = "3371"
)

const (
	defaultTimeout = 5 * time.Minute
	dialTimeout    = 10 * time.Second
	maxAnswer      = 1 << 30 // bytes
)

// Client sends requests to one of several controllers.
type Client struct {
	http      *http.Client
	timeout   time.Duration
	token     string
	user      string
	password  string
	tls       *tls.Config
	userAgent string
	trace     func(Exchange)

	controllers []*controller
	preferred   atomic.Int32 // index of the controller that answered last
}

// controller is where one controller is reached. Its base moves when it redirects from http to https.
type controller struct {
	base atomic.Pointer[url.URL]
}

// Option changes how a client works.
type Option func(*Client)

// WithHTTPClient sends requests with h: for TLS settings, proxies and tests. Its CheckRedirect is not used.
func WithHTTPClient(h *http.Client) Option {
	return func(c *Client) {
		own := *h
		c.http = &own
	}
}

// WithTimeout bounds each call, over all controllers that are tried. The default is five minutes, since a call may wait
// for hosts; zero or less means no bound but the context's.
func WithTimeout(d time.Duration) Option {
	return func(c *Client) { c.timeout = d }
}

// WithToken sends a bearer token with each request.
func WithToken(token string) Option {
	return func(c *Client) { c.token = token }
}

// WithUserAgent names the program in the User-Agent header.
func WithUserAgent(name string) Option {
	return func(c *Client) { c.userAgent = name }
}

// Exchange is a request and its answer.
type Exchange struct {
	Method   string
	URL      string
	Request  []byte // nil when there was no body; holds secrets where the request did
	Status   int
	Answer   []byte
	Duration time.Duration
}

// WithTrace calls f after each answer, from the goroutine of the call. The exchange must not be changed.
func WithTrace(f func(Exchange)) Option {
	return func(c *Client) { c.trace = f }
}

// New returns a client of the controllers at addresses. An address is a host name or IP address with or without a port,
// or an URL with the scheme http, https, linstor or linstor+ssl. It connects to nothing yet.
func New(addresses []string, options ...Option) (*Client, error) {
	if len(addresses) == 0 {
		return nil, errors.New("no controller address given")
	}
	c := &Client{timeout: defaultTimeout, userAgent: "holdfast-client"}
	for _, option := range options {
		option(c)
	}
	if c.http == nil {
		c.http = &http.Client{Transport: newTransport(c.tls)}
	}
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for _, address := range addresses {
		base, err := parseAddress(address)
		if err != nil {
			return nil, err
		}
		at := &controller{}
		at.base.Store(base)
		c.controllers = append(c.controllers, at)
	}
	return c, nil
}

// newTransport returns a transport with which a controller that does not answer costs seconds, not the whole timeout.
func newTransport(secure *tls.Config) *http.Transport {
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         dialer.DialContext,
		TLSHandshakeTimeout: dialTimeout,
		TLSClientConfig:     secure,
		MaxIdleConnsPerHost: 16,
		IdleConnTimeout:     90 * time.Second,
		ForceAttemptHTTP2:   true,
	}
}

// parseAddress turns what people write into a base URL.
func parseAddress(address string) (*url.URL, error) {
	scheme, rest, hasScheme := strings.Cut(strings.TrimSpace(address), "://")
	if !hasScheme {
		scheme, rest = "http", strings.TrimSpace(address)
	}
	port := DefaultPort
	switch strings.ToLower(scheme) {
	case "http", "linstor":
		scheme = "http"
	case "https", "linstor+ssl":
		scheme, port = "https", DefaultTLSPort
	default:
		return nil, fmt.Errorf("controller address %q: scheme %q is not http, https, linstor or linstor+ssl", address, scheme)
	}
	rest = strings.TrimRight(rest, "/")
	if ip := net.ParseIP(rest); ip != nil && ip.To4() == nil {
		rest = "[" + rest + "]"
	}
	base, err := url.Parse(scheme + "://" + rest)
	if err != nil {
		return nil, fmt.Errorf("controller address %q: %w", address, err)
	}
	if base.Hostname() == "" || base.User != nil || base.Path != "" || base.RawQuery != "" || base.Fragment != "" {
		return nil, fmt.Errorf("controller address %q: want host, host:port or scheme://host:port", address)
	}
	if base.Port() == "" {
		base.Host = net.JoinHostPort(base.Hostname(), port)
	}
	return base, nil
}
