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
	most, unanswered := s.limits.Batch, uint32(0)
	heartbeat, sent := true, time.Time{} // the first report comes at once
	for {
		b := s.out.take(most)
		if b.empty() && !heartbeat {
			var err error
			if heartbeat, err = s.waitToReport(ctx, sent); err != nil {
				return err
			}
			continue
		}
		err := s.send(ctx, b)
		switch {
		case err == nil:
			s.out.sent(b)
			unanswered, heartbeat, sent = 0, false, time.Now()
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
		}
	}
}

// waitToReport waits until something may be unsent, or a heartbeat is due after the last
// report.
func (s *session) waitToReport(ctx context.Context, sent time.Time) (heartbeat bool, err error) {
	timer := time.NewTimer(time.Until(sent.Add(time.Duration(s.heartbeat.Load()))))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false, context.Cause(ctx)
	case <-s.out.kick:
		return false, nil
	case <-timer.C:
		return true, nil
	}
}

func (s *session) send(ctx context.Context, b *batch) error {
	ctx, cancel := context.WithTimeout(ctx, s.limits.Call)
	defer cancel()
	s.mu.Lock()
	applied := s.set.resultsIn
	s.mu.Unlock()
	reply, err := s.client.Report(ctx, &agentpb.ReportRequest{
		Node: s.cfg.Node, Session: *s.id.Load(), Resources: b.resources, Pools: b.pools, Jobs: b.jobs, Host: b.host,
		Applied: applied,
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
