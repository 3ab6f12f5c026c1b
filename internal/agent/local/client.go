// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
)

// DefaultSocket is where the agent of a host listens.
const DefaultSocket = "/run/holdfast/agent.sock"

// Client asks the agent of this host.
type Client struct {
	socket string
	http   http.Client
}

// NewClient returns a client of the agent that listens at a socket.
func NewClient(socket string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}
	return &Client{socket: socket, http: http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}}
}

// Pools returns all pools on mounts.
func (c *Client) Pools(ctx context.Context) (all []Pool, err error) {
	return all, c.do(ctx, http.MethodGet, "/pools", nil, &all)
}

// Pool returns one pool on a mount.
func (c *Client) Pool(ctx context.Context, name string) (p Pool, err error) {
	return p, c.do(ctx, http.MethodGet, "/pools/"+url.PathEscape(name), nil, &p)
}

// Acquire acquires a hold on a pool.
func (c *Client) Acquire(ctx context.Context, pool string, r Request) (g Granted, err error) {
	return g, c.do(ctx, http.MethodPost, "/pools/"+url.PathEscape(pool)+"/holds", r, &g)
}

// Release releases a hold.
func (c *Client) Release(ctx context.Context, id string) (r Released, err error) {
	return r, c.do(ctx, http.MethodDelete, "/holds?id="+url.QueryEscape(id), nil, &r)
}

// Detach takes the mount of a pool from its place, in use or not. Whoever has files of it open goes on with them. The token is that of [Client.Pool].
func (c *Client) Detach(ctx context.Context, pool, reason, token string) (r Released, err error) {
	query := url.Values{"reason": {reason}, "token": {token}}
	return r, c.do(ctx, http.MethodDelete, "/pools/"+url.PathEscape(pool)+"/mount?"+query.Encode(), nil, &r)
}

func (c *Client) do(ctx context.Context, method, path string, body, result any) error {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://agent"+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	res, err := c.http.Do(req)
	if err != nil {
		if wrapped, ok := errors.AsType[*url.Error](err); ok {
			err = wrapped.Err
		}
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("no agent of this host listens at %s: start it or, when it runs with a folder of its own, name the socket in that folder", c.socket)
		}
		return fmt.Errorf("ask the agent of this host at %s: %w", c.socket, err)
	}
	defer func() { _ = res.Body.Close() }()
	const most = 64 << 20
	answer, err := io.ReadAll(io.LimitReader(res.Body, most))
	if err != nil {
		return fmt.Errorf("ask the agent of this host: %w", err)
	}
	if res.StatusCode != http.StatusOK {
		var f failure
		if json.Unmarshal(answer, &f) != nil || f.Error == "" {
			f.Error = fmt.Sprintf("the agent of this host answered %s", res.Status)
		}
		return errors.New(f.Error)
	}
	return json.Unmarshal(answer, result)
}
