// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package dispatch_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/schema"
)

type checked struct {
	pool observed.PoolStatus
	err  error
}

// checkPool asks alpha for a pool, and returns where the answer comes.
func (r *rig) checkPool(ctx context.Context) <-chan checked {
	c := make(chan checked, 1)
	go func() {
		p, err := r.server.CheckPool(ctx, "alpha", schema.Pool{Name: "Fast", Provider: model.ZFS, Props: model.PropsOf(map[string]string{"a": "b"})})
		c <- checked{p, err}
	}()
	synctest.Wait()
	return c
}

// answer answers an ask.
func (c *client) answer(a *agentpb.AnswerRequest) error {
	a.Node, a.Session = c.hello.GetNode(), c.session
	_, err := c.api.Answer(c.r.Context(), a)
	return err
}

func TestPoolIsCheckedByTheAgent(t *testing.T) {
	in(t, func(r *rig) {
		c := r.join("alpha")
		answer := r.checkPool(r.Context())
		m := c.next()
		ask := m.GetAsks()[0]
		r.same(m, &agentpb.Assignments{Asks: []*agentpb.Ask{{
			Id: ask.GetId(), Question: &agentpb.Ask_CheckPool{CheckPool: &agentpb.Pool{Name: "Fast", Provider: "ZFS", Props: map[string]string{"a": "b"}}},
		}}})
		if m.GetAppliesTo() != "" || m.GetResultsIn() != "" {
			r.Error("an ask has no place in the chain")
		}
		for range 2 { // answered twice, since the first answer got lost
			if err := c.answer(&agentpb.AnswerRequest{Id: ask.GetId(), Pool: &agentpb.PoolStatus{Free: new(int64(5))}}); err != nil {
				r.Error(err)
			}
		}
		if got := <-answer; got.err != nil || *got.pool.Free != 5 || !got.pool.Current || got.pool.Total != nil {
			r.Errorf("%+v", got)
		}

		answer = r.checkPool(r.Context())
		id := c.next().GetAsks()[0].GetId()
		_ = c.answer(&agentpb.AnswerRequest{Id: id, Failure: &agentpb.Failure{Step: "zfs list", Message: "no such pool"}})
		got := <-answer
		if !errs.Is(got.err, errs.HostFailed) || !strings.Contains(got.err.Error(), "zfs list: no such pool") {
			r.Errorf("%v", got.err)
		}
	})
}

func TestHoldersAreAskedOfTheAgent(t *testing.T) {
	in(t, func(r *rig) {
		c := r.join("alpha")
		type held struct {
			by  []string
			err error
		}
		answer := make(chan held, 1)
		go func() {
			by, err := r.server.Holders(r.Context(), "alpha", "Vol")
			answer <- held{by, err}
		}()
		synctest.Wait()
		ask := c.next().GetAsks()[0]
		if ask.GetHolders() != "Vol" {
			r.Errorf("%v", ask)
		}
		_ = c.answer(&agentpb.AnswerRequest{Id: ask.GetId(), Holders: []string{"qemu"}})
		if got := <-answer; got.err != nil || len(got.by) != 1 {
			r.Errorf("%+v", got)
		}
	})
}

func TestUnknownVolumesAreRemovedByTheAgent(t *testing.T) {
	in(t, func(r *rig) {
		c := r.join("alpha")
		type gone struct {
			removed []string
			err     error
		}
		ask := func(a *agentpb.AnswerRequest) gone {
			answer := make(chan gone, 1)
			go func() {
				removed, err := r.server.RemoveUnknown(r.Context(), "alpha", "Fast", []string{"a_00000", "b_00000"})
				answer <- gone{removed, err}
			}()
			synctest.Wait()
			q := c.next().GetAsks()[0]
			if q.GetRemoveUnknown().GetPool() != "Fast" || len(q.GetRemoveUnknown().GetVolumes()) != 2 {
				r.Errorf("%v", q)
			}
			a.Id = q.GetId()
			_ = c.answer(a)
			return <-answer
		}
		if got := ask(&agentpb.AnswerRequest{Removed: []string{"a_00000", "b_00000"}}); got.err != nil || len(got.removed) != 2 {
			r.Errorf("%+v", got)
		}
		got := ask(&agentpb.AnswerRequest{Removed: []string{"a_00000"}, Failure: &agentpb.Failure{Message: "b is in use"}})
		if !errs.Is(got.err, errs.HostFailed) || len(got.removed) != 1 || !strings.Contains(got.err.Error(), "b is in use") {
			r.Errorf("%+v", got)
		}
	})
}

func TestAskEndsWithoutAnAnswer(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(c *client, cancel context.CancelFunc)
		want errs.Kind
	}{
		{"when the session ends", func(c *client, _ context.CancelFunc) { c.hangUp() }, errs.NotConnected},
		{"when the agent starts anew", func(c *client, _ context.CancelFunc) { c.r.dial("alpha") }, errs.NotConnected},
		{"when the caller gives up", func(_ *client, cancel context.CancelFunc) { cancel() }, errs.TimedOut},
		{"after its time", func(c *client, _ context.CancelFunc) {
			for range 6 {
				time.Sleep(5 * time.Second)
				c.report()
			}
		}, errs.TimedOut},
	} {
		t.Run(c.name, func(t *testing.T) {
			in(t, func(r *rig) {
				client := r.join("alpha")
				ctx, cancel := context.WithCancel(r.Context())
				defer cancel()
				answer := r.checkPool(ctx)
				id := client.next().GetAsks()[0].GetId()
				c.do(client, cancel)
				synctest.Wait()
				select {
				case got := <-answer:
					if !errs.Is(got.err, c.want) {
						r.Errorf("got %v", got.err)
					}
				default:
					r.Fatal("it did not end")
				}
				err := client.answer(&agentpb.AnswerRequest{Id: id})
				if over := client.end() != codes.OK; over != (status.Code(err) == codes.Aborted) {
					r.Errorf("a late answer: %v", err)
				}
			})
		})
	}
}

func TestNodeThatIsNotThereCannotBeAsked(t *testing.T) {
	in(t, func(r *rig) {
		_, err := r.server.CheckPool(r.Context(), "alpha", schema.Pool{})
		if !errs.Is(err, errs.NotConnected) {
			r.Errorf("never seen: %v", err)
		}
		r.join("alpha").hangUp()
		synctest.Wait()
		_, err = r.server.Holders(r.Context(), "alpha", "vol")
		if !errs.Is(err, errs.NotConnected) || errs.As(err).Cause == "" {
			r.Errorf("gone: %v", err)
		}
	})
}

// A node that reads nothing does not gather questions.
func TestOpenAsksAreBounded(t *testing.T) {
	in(t, func(r *rig) {
		c := r.join("alpha")
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		results := make(chan error, 300)
		for range 300 {
			go func() {
				_, err := r.server.Holders(ctx, "alpha", "vol")
				results <- err
			}()
		}
		synctest.Wait()
		if len(results) != 300-256 {
			r.Fatalf("%d were refused", len(results))
		}
		for range len(results) {
			if err := <-results; !errs.Is(err, errs.Unavailable) {
				r.Fatal(err)
			}
		}
		cancel()
		synctest.Wait()
		for range len(results) {
			if err := <-results; !errors.Is(err, context.Canceled) {
				r.Fatal(err)
			}
		}
		answer := r.checkPool(r.Context())
		for {
			m := c.next()
			if ask := m.GetAsks()[len(m.GetAsks())-1]; ask.GetCheckPool() != nil {
				_ = c.answer(&agentpb.AnswerRequest{Id: ask.GetId(), Pool: &agentpb.PoolStatus{}})
				break
			}
		}
		if got := <-answer; got.err != nil {
			r.Error(got.err)
		}
	})
}
