// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-storage/holdfast/internal/dispatch"
	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

// hosts is hosts that do jobs and hold pools, and tell of their jobs at once.
type hosts struct {
	c    *cluster
	held observed.HeldPool
}

func (h *hosts) tell(node model.NodeKey, st observed.JobStatus) observed.JobStatus {
	h.c.seen.Report(node, observed.Report{Jobs: []observed.JobStatus{st}})
	return st
}

func (h *hosts) StartJob(_ context.Context, node model.NodeKey, j observed.Job) (observed.JobStatus, error) {
	if j.To.Resource == "refused" {
		return observed.JobStatus{}, errs.New(errs.HostFailed, errs.Node, "the host refuses").Because("of its reasons")
	}
	return h.tell(node, observed.JobStatus{Job: j, State: observed.JobRunning, Done: 1, Total: 4, Created: time.UnixMilli(1000)}), nil
}

func (h *hosts) CancelJob(_ context.Context, node model.NodeKey, id string) (observed.JobStatus, error) {
	st, _ := h.c.seen.Job(observed.JobID{Node: node, ID: id})
	st.State, st.Ended, st.Failure = observed.JobCancelled, time.UnixMilli(2000), &observed.Failure{Message: "it was cancelled"}
	return h.tell(node, st), nil
}

func (h *hosts) ForgetJob(_ context.Context, node model.NodeKey, id string) error {
	h.tell(node, observed.JobStatus{Job: observed.Job{ID: id}, Forgotten: true})
	return nil
}

func (h *hosts) InspectPool(context.Context, model.NodeKey, model.PoolName) (observed.HeldPool, error) {
	return h.held, nil
}

func (h *hosts) AcquireHold(_ context.Context, _ model.NodeKey, r dispatch.HoldRequest) (observed.HeldPool, error) {
	h.held.State, h.held.Target = "ready", "/mnt/x"
	h.held.Holds = append(h.held.Holds, observed.Hold{ID: r.ID, Kind: "operator", Holder: r.Holder, ReadOnly: r.ReadOnly, Created: time.UnixMilli(3000)})
	return h.held, nil
}

func (h *hosts) ReleaseHold(context.Context, model.NodeKey, dispatch.HoldRequest) (observed.HeldPool, string, error) {
	h.held.Holds = nil
	return h.held, "deferred: it is in use", nil
}

func newHosts(t *testing.T) (*cluster, *hosts) {
	t.Helper()
	c := newCluster(t)
	c.node("Alpha")
	c.connection("alpha", observed.Online)
	c.pool("alpha", "vault", "FILE_THIN")
	for _, name := range []string{"db", "web", "refused"} {
		c.must(http.StatusCreated, "POST", "/v1/resource-definitions", `{"resource_definition":{"name":"`+name+`","layer_data":[{"type":"STORAGE"}]}}`)
	}
	c.must(http.StatusCreated, "POST", "/v1/resource-definitions", `{"resource_definition":{"name":"drbd","layer_data":[{"type":"DRBD"},{"type":"STORAGE"}]}}`)
	h := &hosts{c: c, held: observed.HeldPool{Pool: "vault", Source: "nas:/x", State: "absent"}}
	c.server.Work = h
	return c, h
}

func TestJobsOfAHost(t *testing.T) {
	c, _ := newHosts(t)
	a := c.must(http.StatusCreated, "POST", "/v1/nodes/alpha/jobs", `{"id":"j1","kind":"DOWNLOAD","url":"http://x/y","to":{"resource_name":"db"},"format":"QCOW2"}`)
	if !strings.Contains(string(a.body), "Job: j1") {
		t.Errorf("the answer is %s", a.body)
	}
	c.must(http.StatusCreated, "POST", "/v1/nodes/alpha/jobs", `{"kind":"copy","from":{"resource_name":"db","snapshot_name":"s"},"to":{"resource_name":"web"}}`)
	all := read[[]wire.HostJob](c, "/v1/nodes/ALPHA/jobs")
	if len(all) != 2 {
		t.Fatalf("the jobs are %+v", all)
	}
	want := wire.HostJob{
		NodeName: "Alpha", State: "running", DoneBytes: 1, TotalBytes: 4, CreateTimestamp: 1000, Current: true,
		HostJobCreate: wire.HostJobCreate{ID: "j1", Kind: "download", URL: "http://x/y", Format: "qcow2", To: &wire.JobEnd{ResourceName: "db"}},
	}
	if diff := cmp.Diff(want, read[wire.HostJob](c, "/v1/nodes/alpha/jobs/j1")); diff != "" {
		t.Error(diff)
	}
	c.must(http.StatusOK, "DELETE", "/v1/nodes/alpha/jobs/j1", "")
	if j := read[wire.HostJob](c, "/v1/nodes/alpha/jobs/j1"); j.State != "cancelled" || j.Problem != "it was cancelled" || j.EndTimestamp == nil {
		t.Errorf("the cancelled job is %+v", j)
	}
	if some := read[[]wire.HostJob](c, "/v1/nodes/alpha/jobs?states=CANCELLED"); len(some) != 1 || some[0].ID != "j1" {
		t.Errorf("those that were cancelled are %+v", some)
	}
	c.must(http.StatusOK, "DELETE", "/v1/nodes/alpha/jobs/j1", "")
	c.do("GET", "/v1/nodes/alpha/jobs/j1", "").code(http.StatusNotFound, wire.UnknownAPICall)
	c.do("DELETE", "/v1/nodes/alpha/jobs/j1", "").code(http.StatusNotFound, wire.UnknownAPICall)
}

func TestBadRequestsForJobsOfAHost(t *testing.T) {
	c, _ := newHosts(t)
	for body, status := range map[string]int{
		`{"id":"j","kind":"dance"}`:                                 http.StatusInternalServerError,
		`{"id":"j","kind":"copy","to":{"resource_name":"refused"}}`: http.StatusInternalServerError,
		`{`: http.StatusBadRequest,
	} {
		c.must(status, "POST", "/v1/nodes/alpha/jobs", body)
	}
	c.must(http.StatusNotFound, "POST", "/v1/nodes/alpha/jobs", `{"id":"j","kind":"copy","from":{"resource_name":"none"},"to":{"resource_name":"db"}}`)
	if a := c.do("POST", "/v1/nodes/alpha/jobs", `{"id":"j","kind":"copy","from":{"resource_name":"drbd"},"to":{"resource_name":"db"}}`); a.status < 400 || !strings.Contains(string(a.body), "DRBD") {
		t.Errorf("a replicated volume: %d %s", a.status, a.body)
	}
	c.must(http.StatusNotFound, "POST", "/v1/nodes/none/jobs", `{"id":"j","kind":"copy"}`)
	c.must(http.StatusNotFound, "GET", "/v1/nodes/none/jobs", "")
	if all := read[[]wire.HostJob](c, "/v1/nodes/alpha/jobs"); len(all) != 0 {
		t.Errorf("there are jobs: %+v", all)
	}
}

func TestHoldsOfAPool(t *testing.T) {
	c, h := newHosts(t)
	const holds = "/v1/nodes/alpha/storage-pools/VAULT/holds"
	if p := read[wire.HeldPool](c, holds); p.State != "absent" || p.Source != "nas:/x" || p.NodeName != "Alpha" {
		t.Errorf("at first: %+v", p)
	}
	c.must(http.StatusCreated, "POST", holds, `{"id":"h/1","holder":"me","read_only":true}`)
	want := []wire.Hold{{ID: "h/1", Kind: "operator", Holder: "me", ReadOnly: true, CreateTimestamp: new(int64(3000))}}
	if diff := cmp.Diff(want, read[wire.HeldPool](c, holds).Holds); diff != "" {
		t.Error(diff)
	}
	c.seen.Report("alpha", observed.Report{Host: &observed.HostStatus{Pools: []observed.HeldPool{h.held}}})
	if all := read[[]wire.HeldPool](c, "/v1/nodes/alpha/held-pools"); len(all) != 1 || all[0].StoragePoolName != "vault" {
		t.Errorf("the pools of the host are %+v", all)
	}
	a := c.must(http.StatusOK, "DELETE", holds+"?id=h%2F1", "")
	if !strings.Contains(string(a.body), "deferred: it is in use") {
		t.Errorf("the answer is %s", a.body)
	}
	c.must(http.StatusBadRequest, "DELETE", holds, "")
	c.must(http.StatusInternalServerError, "POST", holds, `{"holder":"me"}`)
	c.must(http.StatusNotFound, "GET", "/v1/nodes/alpha/storage-pools/none/holds", "")
}
