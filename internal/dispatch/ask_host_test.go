// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package dispatch_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/dispatch"
	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
)

// question is a call that asks an agent, what it is to be asked, and what the call makes of
// the answer.
type question struct {
	call   func(*rig) (string, error)
	ask    *agentpb.Ask
	answer *agentpb.AnswerRequest
	want   string
}

func hostQuestions() map[string]question {
	job := observed.Job{ID: "j", Kind: observed.DownloadJob, URL: "http://h/i", To: observed.JobEnd{Resource: "Vol", Volume: 1}, Checksum: "md5:0"}
	jobMessage := &agentpb.Job{Id: "j", Kind: agentpb.Job_DOWNLOAD, Url: "http://h/i", To: &agentpb.JobEnd{Resource: "Vol", Volume: 1}, Checksum: "md5:0"}
	status := &agentpb.JobStatus{Job: jobMessage, State: agentpb.JobStatus_RUNNING, Done: 1, Total: 2}
	hold := dispatch.HoldRequest{Pool: "nfs", ID: "h", Holder: "me", ReadOnly: true}
	holdMessage := &agentpb.HoldRequest{Pool: "nfs", Id: "h", Holder: "me", ReadOnly: true}
	held := &agentpb.HeldPool{Pool: "nfs", State: "held", Holds: []*agentpb.Hold{{Id: "h"}}}
	jobText := func(st observed.JobStatus, err error) (string, error) {
		return fmt.Sprintf("%s %s %d/%d %v", st.ID, st.State, st.Done, st.Total, st.Job == job), err
	}
	poolText := func(p observed.HeldPool, err error) (string, error) {
		return fmt.Sprintf("%s %s %d", p.Pool, p.State, len(p.Holds)), err
	}
	return map[string]question{
		"suspend": {
			call: func(r *rig) (string, error) {
				return "", r.server.Suspend(r.Context(), "alpha", "s", []model.DefinitionName{"a", "b"}, time.Minute)
			},
			ask: &agentpb.Ask{Question: &agentpb.Ask_Suspend{
				Suspend: &agentpb.Suspend{Id: "s", Resources: []string{"a", "b"}, Limit: durationpb.New(time.Minute)},
			}},
			answer: &agentpb.AnswerRequest{},
		},
		"resume": {
			call: func(r *rig) (string, error) {
				written, err := r.server.Resume(r.Context(), "alpha", "s")
				return strings.Join(written, " "), err
			},
			ask:    &agentpb.Ask{Question: &agentpb.Ask_Resume{Resume: "s"}},
			answer: &agentpb.AnswerRequest{Written: []string{"a/0", "b/1"}},
			want:   "a/0 b/1",
		},
		"devices": {
			call: func(r *rig) (string, error) {
				list, err := r.server.Devices(r.Context(), "alpha")
				return fmt.Sprint(list), err
			},
			ask:    &agentpb.Ask{Question: &agentpb.Ask_Devices{Devices: &agentpb.Devices{}}},
			answer: &agentpb.AnswerRequest{Devices: []*agentpb.Device{{Path: "/dev/x", Size: 5, Model: "m", Serial: "s", Wwn: "w", Rotational: true}}},
			want:   "[{/dev/x 5 true m s w}]",
		},
		"backend": {
			call: func(r *rig) (string, error) {
				return "", r.server.CreateBackend(r.Context(), "alpha", dispatch.Backend{Provider: model.LVM, Name: "vg", Devices: []string{"/dev/x"}, RAIDLevel: "RAID1"})
			},
			ask: &agentpb.Ask{Question: &agentpb.Ask_CreateBackend{
				CreateBackend: &agentpb.CreateBackend{Provider: "LVM", Name: "vg", Devices: []string{"/dev/x"}, RaidLevel: "RAID1"},
			}},
			answer: &agentpb.AnswerRequest{},
		},
		"level": {
			call:   func(r *rig) (string, error) { return "", r.server.SetLogLevel(r.Context(), "alpha", "DEBUG") },
			ask:    &agentpb.Ask{Question: &agentpb.Ask_LogLevel{LogLevel: &agentpb.LogLevel{Level: "DEBUG"}}},
			answer: &agentpb.AnswerRequest{},
		},
		"start": {
			call:   func(r *rig) (string, error) { return jobText(r.server.StartJob(r.Context(), "alpha", job)) },
			ask:    &agentpb.Ask{Question: &agentpb.Ask_StartJob{StartJob: jobMessage}},
			answer: &agentpb.AnswerRequest{Job: status},
			want:   "j running 1/2 true",
		},
		"cancel": {
			call:   func(r *rig) (string, error) { return jobText(r.server.CancelJob(r.Context(), "alpha", "j")) },
			ask:    &agentpb.Ask{Question: &agentpb.Ask_CancelJob{CancelJob: "j"}},
			answer: &agentpb.AnswerRequest{Job: status},
			want:   "j running 1/2 true",
		},
		"forget": {
			call:   func(r *rig) (string, error) { return "", r.server.ForgetJob(r.Context(), "alpha", "j") },
			ask:    &agentpb.Ask{Question: &agentpb.Ask_ForgetJob{ForgetJob: "j"}},
			answer: &agentpb.AnswerRequest{},
		},
		"inspect": {
			call:   func(r *rig) (string, error) { return poolText(r.server.InspectPool(r.Context(), "alpha", "nfs")) },
			ask:    &agentpb.Ask{Question: &agentpb.Ask_InspectPool{InspectPool: "nfs"}},
			answer: &agentpb.AnswerRequest{HeldPool: held},
			want:   "nfs held 1",
		},
		"acquire": {
			call:   func(r *rig) (string, error) { return poolText(r.server.AcquireHold(r.Context(), "alpha", hold)) },
			ask:    &agentpb.Ask{Question: &agentpb.Ask_AcquireHold{AcquireHold: holdMessage}},
			answer: &agentpb.AnswerRequest{HeldPool: held},
			want:   "nfs held 1",
		},
		"release": {
			call: func(r *rig) (string, error) {
				p, teardown, err := r.server.ReleaseHold(r.Context(), "alpha", hold)
				text, err := poolText(p, err)
				return text + " " + teardown, err
			},
			ask:    &agentpb.Ask{Question: &agentpb.Ask_ReleaseHold{ReleaseHold: holdMessage}},
			answer: &agentpb.AnswerRequest{HeldPool: held, Teardown: "unmounted"},
			want:   "nfs held 1 unmounted",
		},
	}
}

func TestHostsAreAsked(t *testing.T) {
	for name, q := range hostQuestions() {
		t.Run(name, func(t *testing.T) {
			in(t, func(r *rig) {
				c := r.join("alpha")
				type answered struct {
					text string
					err  error
				}
				asked := func(a *agentpb.AnswerRequest) answered {
					got := make(chan answered, 1)
					go func() {
						text, err := q.call(r)
						got <- answered{text, err}
					}()
					synctest.Wait()
					m := c.next()
					id := m.GetAsks()[0].GetId()
					want := q.ask
					want.Id = id
					r.same(m, &agentpb.Assignments{Asks: []*agentpb.Ask{want}})
					a.Id = id
					if err := c.answer(a); err != nil {
						r.Error(err)
					}
					return <-got
				}
				if got := asked(q.answer); got.err != nil || got.text != q.want {
					r.Errorf("%q, %v; want %q", got.text, got.err, q.want)
				}
				if got := asked(&agentpb.AnswerRequest{Failure: &agentpb.Failure{Message: "no"}}); !errs.Is(got.err, errs.HostFailed) {
					r.Errorf("%v", got.err)
				}
				unsupported := &agentpb.AnswerRequest{Failure: &agentpb.Failure{Message: "no", Reason: agentpb.Failure_UNSUPPORTED}}
				if got := asked(unsupported); !errs.Is(got.err, errs.Unsupported) {
					r.Errorf("%v", got.err)
				}
				c.hangUp()
				synctest.Wait()
				if _, err := q.call(r); !errs.Is(err, errs.NotConnected) {
					r.Errorf("%v", err)
				}
			})
		})
	}
}

func TestABackendThatIsRefusedIsNoFailureOfTheHost(t *testing.T) {
	in(t, func(r *rig) {
		c := r.join("alpha")
		for reason, kind := range map[agentpb.Failure_Reason]errs.Kind{
			agentpb.Failure_REASON_UNSPECIFIED: errs.HostFailed, agentpb.Failure_IN_USE: errs.InUse, agentpb.Failure_INVALID: errs.Invalid,
			agentpb.Failure_UNSUPPORTED: errs.Unsupported,
		} {
			got := make(chan error, 1)
			go func() {
				got <- r.server.CreateBackend(r.Context(), "alpha", dispatch.Backend{Provider: model.LVM, Name: "vg"})
			}()
			synctest.Wait()
			failure := &agentpb.Failure{Step: "make the backend", Message: "device /dev/x is not free", Reason: reason}
			if err := c.answer(&agentpb.AnswerRequest{Id: c.next().GetAsks()[0].GetId(), Failure: failure}); err != nil {
				r.Error(err)
			}
			if err := <-got; !errs.Is(err, kind) || !strings.Contains(err.Error(), "device /dev/x is not free") {
				r.Errorf("%s: %v", reason, err)
			}
		}
	})
}

func TestJobsAndHostAreObserved(t *testing.T) {
	in(t, func(r *rig) {
		c := r.join("alpha")
		report := func(c *client, req *agentpb.ReportRequest) {
			t.Helper()
			req.Node, req.Session, req.Applied = c.hello.GetNode(), c.session, c.resultsIn
			if _, err := c.api.Report(r.Context(), req); err != nil {
				r.Fatal(err)
			}
		}
		jobs := func() string {
			var words []string
			for j := range r.seen.Jobs("alpha") {
				words = append(words, fmt.Sprintf("%s:%s:%v", j.ID, j.State, j.Current))
			}
			slices.Sort(words)
			return strings.Join(words, " ")
		}
		report(c, &agentpb.ReportRequest{
			Jobs: []*agentpb.JobStatus{{Job: &agentpb.Job{Id: "a"}}, {Job: &agentpb.Job{Id: "b"}, State: agentpb.JobStatus_DONE}},
			Host: &agentpb.HostStatus{TakenPorts: []uint32{7000}, HeldPools: []*agentpb.HeldPool{{Pool: "nfs", Holds: []*agentpb.Hold{{Id: "h"}}}}},
		})
		if got := jobs(); got != "a:running:true b:done:true" {
			r.Error(got)
		}
		if st, ok := r.seen.Host("alpha"); !ok || !st.Current || len(st.TakenPorts) != 1 || st.Pools[0].Holds[0].ID != "h" {
			r.Errorf("%+v", st)
		}
		report(c, &agentpb.ReportRequest{Jobs: []*agentpb.JobStatus{{Job: &agentpb.Job{Id: "b"}, Forgotten: true}}})
		if got := jobs(); got != "a:running:true" {
			r.Error(got)
		}
		c.hangUp()
		synctest.Wait()
		if st, ok := r.seen.Host("alpha"); !ok || st.Current || jobs() != "a:running:false" {
			r.Errorf("%+v, %s", st, jobs())
		}
		second := func(h *agentpb.Hello) { h.Instance = "second" }
		r.join("alpha", second).hangUp() // which tells nothing of its jobs
		synctest.Wait()
		r.join("alpha", second)
		if got := jobs(); got != "" {
			r.Errorf("jobs that two processes of the agent did not tell of: %s", got)
		}
	})
}
