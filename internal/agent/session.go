// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/api/agentpb"
)

const protocol = 1

// errUnknownSession says that the controller does not know the session any more.
var errUnknownSession = errors.New("the controller has ended the session")

// session is one stream of assignments and the reports that belong to it.
type session struct {
	*agent
	client agentpb.AgentClient
	id     atomic.Pointer[string] // what the controller calls the session; nil until its first message
}

// dial holds sessions, one after the other, until ctx ends.
func (a *agent) dial(ctx context.Context) {
	var failures uint32
	last := map[string]string{} // by address: what was logged
	for i := 0; ctx.Err() == nil; i++ {
		address := a.cfg.Addresses[i%len(a.cfg.Addresses)]
		began := time.Now()
		opened, err := a.connect(ctx, address)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > a.limits.RedialMost {
			failures = 0
		}
		if text := explain(err); opened || text != last[address] {
			last[address] = text
			a.log.Warn("no session with the controller", "address", address, "error", text)
		}
		if (i+1)%len(a.cfg.Addresses) != 0 {
			continue
		}
		failures++
		pause(ctx, backoff(failures, a.limits.RedialFirst, a.limits.RedialMost))
	}
}

// explain says what to do about a session that could not be had.
func explain(err error) string {
	switch status.Code(err) {
	case codes.NotFound:
		return fmt.Sprintf("%v; register the node with `linstor node create`, the agent goes on trying", err)
	case codes.FailedPrecondition:
		return fmt.Sprintf("%v; run the same version of the agent and the controller, the agent goes on trying", err)
	case codes.Unauthenticated, codes.PermissionDenied:
		return fmt.Sprintf("%v; check the node's certificate and its name, the agent goes on trying", err)
	case codes.ResourceExhausted:
		return fmt.Sprintf("%v; the assignments are larger than the agent takes", err)
	default:
		return err.Error()
	}
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// connect holds one session and returns whether there was one, and why it ended.
func (a *agent) connect(ctx context.Context, address string) (opened bool, err error) {
	conn, err := a.cfg.Dial(address)
	if err != nil {
		return false, fmt.Errorf("dial %s: %w", address, err)
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithCancelCause(ctx)
	s := &session{agent: a, client: agentpb.NewAgentClient(conn)}
	var reporting sync.WaitGroup
	defer reporting.Wait()
	defer cancel(nil)
	stop := time.AfterFunc(a.limits.Call, func() {
		cancel(fmt.Errorf("the controller sent nothing within %s", a.limits.Call))
	})
	defer stop.Stop()
	err = s.receive(ctx, func() {
		stop.Stop()
		a.log.Info("session with the controller", "address", address, "session", *s.id.Load())
		a.out.resend()
		opened = true
		reporting.Go(func() { cancel(s.report(ctx)) })
	})
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return opened, err
}

// receive takes assignments until the stream ends. first is called once the first message
// was taken over.
func (s *session) receive(ctx context.Context, first func()) error {
	stream, err := s.client.Session(ctx, s.hello(), grpc.MaxCallRecvMsgSize(s.limits.Message))
	if err != nil {
		return err
	}
	for n := 0; ; n++ {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		if err := s.take(m); err != nil {
			return err
		}
		s.note(m)
		if n == 0 {
			first()
		}
		for _, ask := range m.GetAsks() {
			s.answering.Go(func() { s.answer(ctx, ask) })
		}
	}
}

func (s *session) hello() *agentpb.Hello {
	h := &agentpb.Hello{
		Node: s.cfg.Node, Protocol: protocol, Version: s.cfg.Version, Uname: s.cfg.Uname,
		Instance:             s.instance,
		UnsupportedProviders: map[string]string{},
		UnsupportedLayers:    map[string]string{},
	}
	for _, p := range s.cfg.Providers {
		h.Providers = append(h.Providers, string(p))
	}
	for _, l := range s.cfg.Layers {
		h.Layers = append(h.Layers, string(l))
	}
	for p, why := range s.cfg.UnsupportedProviders {
		h.UnsupportedProviders[string(p)] = clip(why)
	}
	for l, why := range s.cfg.UnsupportedLayers {
		h.UnsupportedLayers[string(l)] = clip(why)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	h.AppliesTo = s.set.resultsIn // empty until a controller confirmed the set
	return h
}

// note keeps what a message says about the session itself.
func (s *session) note(m *agentpb.Assignments) {
	id := m.GetSession()
	s.id.Store(&id)
	const least, most = 50 * time.Millisecond, time.Minute
	if d := m.GetHeartbeat(); d != nil {
		s.heartbeat.Store(int64(min(max(d.AsDuration(), least), most)))
	}
}
