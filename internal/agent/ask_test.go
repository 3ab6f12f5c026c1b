// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/agent"
	"github.com/holdfast-storage/holdfast/internal/agent/fakecontroller"
	"github.com/holdfast-storage/holdfast/internal/agent/pool"
)

// ask asks one question and returns the answer.
func (b *bench) ask(s *fakecontroller.Session, q *agentpb.Ask) *agentpb.AnswerRequest {
	b.t.Helper()
	b.send(s, &agentpb.Assignments{Asks: []*agentpb.Ask{q}})
	a, err := b.ctrl.Answer(b.ctx, q.GetId())
	if err != nil {
		b.t.Fatal(err)
	}
	return a
}

// questions are one of each kind that needs an ability.
func questions() map[string]*agentpb.Ask {
	return map[string]*agentpb.Ask{
		"suspend": {Question: &agentpb.Ask_Suspend{Suspend: &agentpb.Suspend{Id: "s", Limit: durationpb.New(time.Minute)}}},
		"devices": {Question: &agentpb.Ask_Devices{Devices: &agentpb.Devices{}}},
		"backend": {Question: &agentpb.Ask_CreateBackend{CreateBackend: &agentpb.CreateBackend{Name: "vg"}}},
		"start":   {Question: &agentpb.Ask_StartJob{StartJob: &agentpb.Job{Id: "j1"}}},
		"cancel":  {Question: &agentpb.Ask_CancelJob{CancelJob: "j1"}},
		"forget":  {Question: &agentpb.Ask_ForgetJob{ForgetJob: "j1"}},
		"inspect": {Question: &agentpb.Ask_InspectPool{InspectPool: "nfs"}},
		"acquire": {Question: &agentpb.Ask_AcquireHold{AcquireHold: &agentpb.HoldRequest{Pool: "nfs", Id: "h1"}}},
		"release": {Question: &agentpb.Ask_ReleaseHold{ReleaseHold: &agentpb.HoldRequest{Pool: "nfs", Id: "h1"}}},
		"level":   {Question: &agentpb.Ask_LogLevel{LogLevel: &agentpb.LogLevel{Level: "DEBUG"}}},
	}
}

func TestAsksForAbilitiesThatAreNotThereAreUnsupported(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.startOn(blindHost{b.host}, agent.Limits{})
		s := b.accept()
		b.send(s, full("1"))
		for name, q := range questions() {
			q.Id = name
			if f := b.ask(s, q).GetFailure(); f.GetReason() != agentpb.Failure_UNSUPPORTED {
				t.Errorf("%s: %v", name, f)
			}
		}
	})
}

// able is an agent's abilities, which answer with what they were asked.
type able struct {
	jobs  chan *agentpb.JobStatus
	holds chan []*agentpb.HeldPool
	fail  error

	clones []pool.ID
}

func (a *able) Clones() []pool.ID { return a.clones }

func (a *able) Start(_ context.Context, j *agentpb.Job) (*agentpb.JobStatus, error) {
	return &agentpb.JobStatus{Job: j, State: agentpb.JobStatus_RUNNING}, a.fail
}

func (a *able) Cancel(_ context.Context, id string) (*agentpb.JobStatus, error) {
	return &agentpb.JobStatus{Job: &agentpb.Job{Id: id}, State: agentpb.JobStatus_CANCELLED}, a.fail
}

func (a *able) Forget(context.Context, string) error { return a.fail }

func (a *able) Watch(ctx context.Context, changed func(*agentpb.JobStatus)) {
	for {
		select {
		case s := <-a.jobs:
			changed(s)
		case <-ctx.Done():
			return
		}
	}
}

// keeping is able's other half.
type keeping struct{ *able }

func (k keeping) Inspect(_ context.Context, name string) (*agentpb.HeldPool, error) {
	return &agentpb.HeldPool{Pool: name}, k.fail
}

func (k keeping) Acquire(_ context.Context, r *agentpb.HoldRequest) (*agentpb.HeldPool, error) {
	return &agentpb.HeldPool{Pool: r.GetPool(), Holds: []*agentpb.Hold{{Id: r.GetId()}}}, k.fail
}

func (k keeping) Release(_ context.Context, r *agentpb.HoldRequest) (*agentpb.HeldPool, string, error) {
	return &agentpb.HeldPool{Pool: r.GetPool()}, "unmounted", k.fail
}

func (k keeping) Watch(ctx context.Context, changed func([]*agentpb.HeldPool)) {
	for {
		select {
		case list := <-k.holds:
			changed(list)
		case <-ctx.Done():
			return
		}
	}
}

func (k keeping) List(context.Context) ([]*agentpb.Device, error) {
	return []*agentpb.Device{{Path: "/dev/sdz"}}, k.fail
}

func (k keeping) CreateBackend(context.Context, *agentpb.CreateBackend) error { return k.fail }

// startAble runs an agent with all abilities.
func (b *bench) startAble() *able {
	a := &able{}
	b.startWith(a, b.host)
	return a
}

func (b *bench) startWith(a *able, h agent.Host) {
	a.jobs, a.holds = make(chan *agentpb.JobStatus), make(chan []*agentpb.HeldPool)
	k := keeping{a}
	c := agent.Config{
		Node: node, Dial: func(a string) (agent.Conn, error) { return b.ctrl.Dial(a) }, Host: h,
		Uname: node, Providers: providers(), Layers: layers(), Log: b.Log,
		Jobs: a, Holds: k, Devices: k, SetLogLevel: func(string) error { return a.fail },
	}
	b.run(func(ctx context.Context) error { return agent.Run(ctx, c) })
}

// unfinished is a host whose volumes are all NEW.
type unfinished struct{ agent.Host }

func (h unfinished) Measure(ctx context.Context, p agent.Pool) (agent.Space, error) {
	space, err := h.Host.Measure(ctx, p)
	for i := range space.Volumes {
		space.Volumes[i].New = true
	}
	return space, err
}

func TestACloneThatAJobReadsIsNotUnknown(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.PutVolume("pool1", "of-a-job", 0, mib)
		b.PutVolume("pool1", "of-nobody", 0, mib)
		b.startWith(&able{clones: []pool.ID{{Resource: "of-a-job"}}}, unfinished{b.host})
		b.send(b.accept(), full("1", resource("r1", "pool1", 1)))
		b.await("what nobody has", func(n fakecontroller.Node) bool {
			return slices.Equal(n.Pools["pool1"].GetUnknownVolumes(), []string{"of-nobody_00000"})
		})
	})
}

func TestAsksAreAnsweredByTheAbilities(t *testing.T) {
	inBubble(t, func(b *bench) {
		a := b.startAble()
		s := b.accept()
		b.send(s, full("1"))
		want := map[string]string{
			"devices": "/dev/sdz", "start": "j1 RUNNING", "cancel": "j1 CANCELLED", "inspect": "nfs", "acquire": "nfs h1", "release": "nfs unmounted",
		}
		for name, q := range questions() {
			if name == "suspend" {
				continue
			}
			q.Id = name
			got := b.ask(s, q)
			var words []string
			for _, d := range got.GetDevices() {
				words = append(words, d.GetPath())
			}
			if got.GetJob() != nil {
				words = append(words, got.GetJob().GetJob().GetId(), got.GetJob().GetState().String())
			}
			if got.GetHeldPool() != nil {
				words = append(words, got.GetHeldPool().GetPool())
			}
			for _, h := range got.GetHeldPool().GetHolds() {
				words = append(words, h.GetId())
			}
			if got.GetTeardown() != "" {
				words = append(words, got.GetTeardown())
			}
			if text := strings.Join(words, " "); got.GetFailure() != nil || text != want[name] {
				t.Errorf("%s: %q, %v", name, text, got.GetFailure())
			}
		}
		a.fail = errors.New("no")
		for name, q := range questions() {
			q.Id = name + " again"
			if f := b.ask(s, q).GetFailure(); name != "suspend" && f.GetMessage() != "no" {
				t.Errorf("%s: %v", name, f)
			}
		}
	})
}

func TestJobsAndHoldsAreReportedInFullAndThenAsTheyChange(t *testing.T) {
	inBubble(t, func(b *bench) {
		a := b.startAble()
		s := b.accept()
		b.send(s, full("1"))
		a.jobs <- &agentpb.JobStatus{Job: &agentpb.Job{Id: "j1"}, State: agentpb.JobStatus_RUNNING}
		a.jobs <- &agentpb.JobStatus{Job: &agentpb.Job{Id: "j2"}, State: agentpb.JobStatus_RUNNING}
		a.holds <- []*agentpb.HeldPool{{Pool: "nfs", State: "held"}}
		all := func(n fakecontroller.Node) bool {
			return len(n.Jobs) == 2 && len(n.Host.GetHeldPools()) == 1
		}
		b.await("two jobs and a pool", all)

		b.ctrl.Forget()
		s.End(errors.New("the controller goes"))
		b.send(b.accept(), full("2"))
		b.await("all of it in a new session", all)

		a.jobs <- &agentpb.JobStatus{Job: &agentpb.Job{Id: "j1"}, State: agentpb.JobStatus_DONE}
		a.jobs <- &agentpb.JobStatus{Job: &agentpb.Job{Id: "j2"}, Forgotten: true}
		b.await("the job that is left", func(n fakecontroller.Node) bool {
			return len(n.Jobs) == 1 && n.Jobs["j1"].GetState() == agentpb.JobStatus_DONE
		})
	})
}

// pausable is a host that holds writers back.
type pausable struct {
	agent.Host

	mu      sync.Mutex
	begun   int
	resumed int
	written []pool.ID
	wants   []string
}

func (p *pausable) Suspend(_ context.Context, wants []agent.Want, _ time.Duration) (agent.Suspension, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun++
	for _, w := range wants {
		p.wants = append(p.wants, w.Resource)
	}
	return &paused{of: p}, nil
}

type paused struct {
	of   *pausable
	once sync.Once
}

func (p *paused) Resume() ([]pool.ID, error) {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	p.once.Do(func() { p.of.resumed++ })
	return p.of.written, nil
}

func (p *pausable) counts() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Sprint(p.begun, p.resumed)
}

func suspend(ask, id string, limit time.Duration, resources ...string) *agentpb.Ask {
	return &agentpb.Ask{Id: ask, Question: &agentpb.Ask_Suspend{Suspend: &agentpb.Suspend{Id: id, Resources: resources, Limit: durationpb.New(limit)}}}
}

func resume(ask, id string) *agentpb.Ask {
	return &agentpb.Ask{Id: ask, Question: &agentpb.Ask_Resume{Resume: id}}
}

func TestWritersAreHeldBackUntilResumeLimitOrTheAgentsEnd(t *testing.T) {
	inBubble(t, func(b *bench) {
		host := &pausable{Host: b.host, written: []pool.ID{{Resource: "r1"}}}
		b.startOn(host, agent.Limits{})
		s := b.accept()
		b.send(s, full("1", resource("r1", "pool1", 1), resource("r2", "pool2", 1)))
		want := func(counts string) {
			t.Helper()
			if got := host.counts(); got != counts {
				t.Errorf("suspended and resumed %s times, want %s", got, counts)
			}
		}
		for _, ask := range []string{"1", "2"} { // the second repeats the first
			if f := b.ask(s, suspend(ask, "a", time.Minute, "r1", "r2")).GetFailure(); f != nil {
				t.Fatal(f)
			}
			want("1 0")
		}
		for _, ask := range []string{"3", "4"} {
			a := b.ask(s, resume(ask, "a"))
			if a.GetFailure() != nil || strings.Join(a.GetWritten(), " ") != "r1/0" {
				t.Errorf("%v", a)
			}
			want("1 1")
		}

		_ = b.ask(s, suspend("5", "b", time.Minute, "r1"))
		elapse(time.Minute + time.Second)
		want("2 2")
		if a := b.ask(s, resume("6", "b")); a.GetFailure() != nil || len(a.GetWritten()) != 1 {
			t.Errorf("a late resume: %v", a)
		}
		elapse(15 * time.Minute)
		for ask, id := range map[string]string{"7": "b", "8": "never"} {
			if f := b.ask(s, resume(ask, id)).GetFailure(); !strings.Contains(f.GetMessage(), "no writers are held back") {
				t.Errorf("%v", f)
			}
		}
		if f := b.ask(s, suspend("9", "c", time.Minute, "r1", "absent")).GetFailure(); f == nil {
			t.Error("a resource that is not assigned was suspended")
		}
		want("2 2")

		_ = b.ask(s, suspend("10", "d", time.Hour, "r1"))
		want("3 2")
		b.stop()
		want("3 3")
	})
}
