// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/agent/luks"
	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/stack"
	"github.com/holdfast-storage/holdfast/internal/errs"
)

// failureOf tells people and the controller why err came.
func failureOf(step string, err error) *agentpb.Failure {
	return &agentpb.Failure{Step: step, Message: messageOf(err), Reason: reasonOf(err)}
}

// tried adds to a failure how often it came and when the next try is due.
func tried(f *agentpb.Failure, attempts uint32, at time.Time) *agentpb.Failure {
	f.Attempts = attempts
	f.NextTry = timestamppb.New(at)
	return f
}

func reasonOf(err error) agentpb.Failure_Reason {
	var (
		inUse   *pool.InUseError
		noSpace *pool.NoSpaceError
		faulty  *pool.FaultyError
		missing *pool.NotFoundError
		size    *pool.SizeError
		exists  *pool.ExistsError
		shrink  *stack.ShrinkError
		lacking *stack.UnsupportedError
		changed *pool.ChangedError
		mixed   *stack.MomentError
		locked  *luks.LockedError
	)
	switch {
	case errors.As(err, &locked):
		return agentpb.Failure_LOCKED
	case errors.As(err, &inUse), errors.As(err, &changed), errors.As(err, &mixed):
		return agentpb.Failure_IN_USE
	case errors.As(err, &noSpace):
		return agentpb.Failure_NO_SPACE
	case errors.As(err, &faulty):
		if faulty.Reason == pool.Full {
			return agentpb.Failure_NO_SPACE
		}
		return agentpb.Failure_POOL_FAULTY
	case errors.As(err, &missing) && missing.ID == pool.ID{}:
		return agentpb.Failure_POOL_FAULTY
	case errors.As(err, &size), errors.As(err, &exists), errors.As(err, &shrink):
		return agentpb.Failure_INVALID
	case errors.As(err, &lacking):
		return agentpb.Failure_UNSUPPORTED
	}
	return kindReason(err)
}

func kindReason(err error) agentpb.Failure_Reason {
	e := errs.As(err)
	if e == nil {
		return agentpb.Failure_REASON_UNSPECIFIED
	}
	switch e.Kind {
	case errs.InUse:
		return agentpb.Failure_IN_USE
	case errs.NoSpace:
		return agentpb.Failure_NO_SPACE
	case errs.Unsupported:
		return agentpb.Failure_UNSUPPORTED
	case errs.Invalid, errs.Exists, errs.NotUpToDate:
		return agentpb.Failure_INVALID
	case errs.HostFailed, errs.NotFound:
		if e.Object == errs.StoragePool {
			return agentpb.Failure_POOL_FAULTY
		}
		return agentpb.Failure_REASON_UNSPECIFIED
	case errs.Internal, errs.HasChildren, errs.Closing, errs.NotEnough, errs.Exhausted, errs.NotConnected,
		errs.Protected, errs.Unavailable, errs.TimedOut:
		return agentpb.Failure_REASON_UNSPECIFIED
	}
	return agentpb.Failure_REASON_UNSPECIFIED
}

// messageOf is what people read. A deadline of ours says so: the words of package context
// mean nothing to them.
func messageOf(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return clip(fmt.Sprintf("the host did not finish in time and will be asked again: %v", err))
	}
	return clip(err.Error())
}

// mostText bounds each text of a report: a program that writes megabytes to its error output
// must not make a report that cannot be sent.
const mostText = 4 << 10

// clip makes s fit for a protocol buffer: valid UTF-8, and not too long.
func clip(s string) string {
	if len(s) > mostText {
		s = s[:mostText] + "..."
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// clipAll clips each text, and keeps the first few.
func clipAll(list []string) []string {
	const most = 100
	short := make([]string, 0, min(len(list), most+1))
	for i, s := range list {
		if i == most {
			return append(short, fmt.Sprintf("and %d more", len(list)-most))
		}
		short = append(short, clip(s))
	}
	return short
}
