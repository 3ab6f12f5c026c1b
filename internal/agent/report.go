// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/api/agentpb"
)

// mostUnanswered is how many reports in a row may fail before the controller counts as lost
// and is dialled anew.
const mostUnanswered = 3

// report sends what is unsent, and heartbeats, until the session has to end. It returns why.
func (s *session) report(ctx context.Context) error {
	most := s.limits.Batch
	unanswered := uint32(0)
	for {
		b := s.out.take(most)
		err := s.send(ctx, b)
		switch {
		case err == nil:
			unanswered = 0
		case ctx.Err() != nil || sessionEnded(err):
			return err
		default:
			s.out.putBack(b)
			if status.Code(err) == codes.ResourceExhausted && most > mostText {
				most /= 2
				continue
			}
			if unanswered++; unanswered >= mostUnanswered {
				return fmt.Errorf("the controller did not answer %d reports: %w", unanswered, err)
			}
			pause(ctx, backoff(unanswered, s.limits.RedialFirst, s.limits.RedialMost))
			continue
		}
		if err := s.nextReport(ctx); err != nil {
			return err
		}
	}
}

// nextReport waits until there is something to send, or the heartbeat is due.
func (s *session) nextReport(ctx context.Context) error {
	timer := time.NewTimer(time.Duration(s.heartbeat.Load()))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.out.kick:
	case <-timer.C:
	}
	return nil
}

func (s *session) send(ctx context.Context, b *batch) error {
	ctx, cancel := context.WithTimeout(ctx, s.limits.Call)
	defer cancel()
	s.mu.Lock()
	applied := s.set.resultsIn
	s.mu.Unlock()
	reply, err := s.client.Report(ctx, &agentpb.ReportRequest{
		Node: s.cfg.Node, Session: *s.id.Load(), Resources: b.resources, Pools: b.pools, Applied: applied,
	})
	if err != nil {
		return err
	}
	if reply.GetUnknownSession() {
		return errUnknownSession
	}
	return nil
}

// sessionEnded tells whether no further report of this session can succeed.
func sessionEnded(err error) bool {
	switch status.Code(err) {
	case codes.Aborted, codes.NotFound, codes.FailedPrecondition, codes.Unauthenticated, codes.PermissionDenied, codes.Unimplemented:
		return true
	default:
		return err == errUnknownSession //nolint:errorlint // It is never wrapped.
	}
}
