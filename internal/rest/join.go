// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"math"
	"time"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/identity"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

// Joiner makes the tokens by which hosts join.
type Joiner interface {
	// NewToken makes a join token of a node, and returns it with the time until which it is good.
	NewToken(ctx context.Context, node string, life time.Duration) (identity.Token, time.Time, error)
}

// createJoinToken is the one answer that has the token: it can be asked for again only by making another.
func (s *Server) createJoinToken(q *request) (body, error) {
	var b wire.JoinTokenCreate
	if err := q.decodeOptional(&b); err != nil {
		return nil, err
	}
	var life time.Duration
	if b.ExpiresIn != nil {
		if *b.ExpiresIn < 1 || *b.ExpiresIn > int64(math.MaxInt64/time.Second) {
			return nil, errs.New(errs.Invalid, errs.Node, "a join token cannot be good for %d seconds", *b.ExpiresIn).About(errs.Body).
				Fix("give 1 second or more in expires_in_s, or leave it out")
		}
		life = time.Duration(*b.ExpiresIn) * time.Second
	}
	if s.Joiner == nil {
		return nil, errs.New(errs.Unsupported, errs.Node, "there are no join tokens").
			Because("this controller serves agents in plain text").Fix("start it without --plaintext")
	}
	token, expires, err := s.Joiner.NewToken(q.Context(), q.PathValue("node"), life)
	if err != nil {
		return nil, err
	}
	return value{wire.JoinToken{NodeName: string(token.Node), Token: wire.Secret(token.Text()), Expires: expires.UnixMilli()}}, nil
}
