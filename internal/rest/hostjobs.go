// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/holdfast-storage/holdfast/internal/dispatch"
	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

// Work has hosts do jobs, and hold pools that lie on mounts. *dispatch.Server does.
type Work interface {
	StartJob(ctx context.Context, node model.NodeKey, j observed.Job) (observed.JobStatus, error)
	CancelJob(ctx context.Context, node model.NodeKey, id string) (observed.JobStatus, error)
	ForgetJob(ctx context.Context, node model.NodeKey, id string) error
	InspectPool(ctx context.Context, node model.NodeKey, pool model.PoolName) (observed.HeldPool, error)
	AcquireHold(ctx context.Context, node model.NodeKey, h dispatch.HoldRequest) (observed.HeldPool, error)
	ReleaseHold(ctx context.Context, node model.NodeKey, h dispatch.HoldRequest) (held observed.HeldPool, teardown string, err error)
}

// hostNode returns the node that the path names.
func (s *Server) hostNode(q *request) (schema.Node, error) {
	if s.Work == nil {
		return schema.Node{}, errs.New(errs.Unsupported, errs.Node, "this controller has hosts do nothing")
	}
	return schema.FindNode(s.Store.Snapshot(), q.PathValue("node"))
}

// listHostJobs lists the jobs of a host, the oldest first: all, or those in these states.
func (s *Server) listHostJobs(q *request) (body, error) {
	n, err := s.hostNode(q)
	if err != nil {
		return nil, err
	}
	p, err := q.page()
	if err != nil {
		return nil, err
	}
	states := q.names("states")
	rows := where(s.Observed.Jobs(n.Name.Key()), func(j *observed.JobStatus) bool {
		return len(states) == 0 || slices.ContainsFunc(states, func(s string) bool { return strings.EqualFold(s, string(j.State)) })
	})
	return values(pageOf(p, rows), func(j *observed.JobStatus) wire.HostJob { return hostJob(n.Name, j) }), nil
}

func (s *Server) getHostJob(q *request) (body, error) {
	n, err := s.hostNode(q)
	if err != nil {
		return nil, err
	}
	j, ok := s.Observed.Job(observed.JobID{Node: n.Name.Key(), ID: q.PathValue("job")})
	if !ok {
		return nil, noHostJob(n.Name, q.PathValue("job"))
	}
	return value{hostJob(n.Name, &j)}, nil
}

func noHostJob(node model.NodeName, id string) error {
	return errs.New(errs.NotFound, errs.NoObject, "node %s has no job %s", node, id).
		Because("only the newest of those that have ended are kept")
}

// createHostJob begins a job on a host, or joins the one that has its id.
func (s *Server) createHostJob(q *request) (wire.RcList, error) {
	n, err := s.hostNode(q)
	if err != nil {
		return nil, err
	}
	var b wire.HostJobCreate
	if err := q.decode(&b); err != nil {
		return nil, err
	}
	if b.ID == "" {
		b.ID = uuid.NewString()
	}
	j, err := jobOf(b)
	if err != nil {
		return nil, err
	}
	for _, end := range []observed.JobEnd{j.From, j.To} {
		if err := s.plain(end); err != nil {
			return nil, err
		}
	}
	st, err := s.Work.StartJob(q.Context(), n.Name.Key(), j)
	if err != nil {
		return nil, err
	}
	rc := done(wire.Created, "", "%s %s begun on node %s", st.Kind, st.ID, n.Name).WithDetails("Job: " + st.ID)
	return wire.RcList{rc.WithRef("Job", st.ID)}, nil
}

// plain refuses volumes whose data is not what lies in the pool: a host works on what lies there.
func (s *Server) plain(e observed.JobEnd) error {
	if e.Resource == "" {
		return nil
	}
	d, err := schema.FindDefinition(s.Store.Snapshot(), string(e.Resource))
	if err != nil {
		return err
	}
	for _, l := range d.Layers {
		if l != model.Storage {
			return errs.New(errs.Unsupported, errs.ResourceDefinition, "jobs do not work on volumes of the resource definition %s", d.Name).
				Because("it has the layer %s, and what lies in its pools is not what its users see", l).
				Fix("copy its data by a host on which it is in use")
		}
	}
	return nil
}

// jobOf is the job that a body describes. Its host knows whether it is possible.
func jobOf(b wire.HostJobCreate) (observed.Job, error) {
	kind := observed.JobKind(strings.ToLower(b.Kind))
	switch kind {
	case observed.CopyJob, observed.DownloadJob, observed.ExportJob, observed.ImportJob:
	default:
		return observed.Job{}, errs.New(errs.Invalid, errs.NoObject, "the kind of job %q is not known", b.Kind).
			Fix("use copy, download, export or import")
	}
	return observed.Job{
		ID: b.ID, Kind: kind, From: jobEnd(b.From), To: jobEnd(b.To), URL: b.URL, Checksum: b.Checksum, Format: strings.ToLower(b.Format),
	}, nil
}

func jobEnd(e *wire.JobEnd) observed.JobEnd {
	if e == nil {
		return observed.JobEnd{}
	}
	return observed.JobEnd{
		Resource: model.DefinitionName(e.ResourceName), Volume: model.VolumeNumber(e.VolumeNumber), Snapshot: model.SnapshotName(e.SnapshotName),
		Pool: model.PoolName(e.StoragePool), Path: e.Path,
	}
}

// deleteHostJob cancels a job that goes on, and forgets one that has ended.
func (s *Server) deleteHostJob(q *request) (wire.RcList, error) {
	n, err := s.hostNode(q)
	if err != nil {
		return nil, err
	}
	id := q.PathValue("job")
	st, known := s.Observed.Job(observed.JobID{Node: n.Name.Key(), ID: id})
	if !known {
		return nil, noHostJob(n.Name, id)
	}
	if st.State.Over() {
		if err := s.Work.ForgetJob(q.Context(), n.Name.Key(), id); err != nil {
			return nil, err
		}
		return wire.RcList{done(wire.Deleted, "", "job %s of node %s forgotten", id, n.Name)}, nil
	}
	st, err = s.Work.CancelJob(q.Context(), n.Name.Key(), id)
	if err != nil {
		return nil, err
	}
	if st.State.Over() {
		return wire.RcList{done(wire.Deleted, "", "job %s of node %s has ended: %s", id, n.Name, st.State)}, nil
	}
	return wire.RcList{done(wire.Deleted, "", "job %s of node %s is being cancelled", id, n.Name)}, nil
}

func hostJob(node model.NodeName, j *observed.JobStatus) wire.HostJob {
	out := wire.HostJob{
		NodeName: string(node),
		HostJobCreate: wire.HostJobCreate{
			ID: j.ID, Kind: string(j.Kind), From: wireEnd(j.From), To: wireEnd(j.To), URL: j.URL, Checksum: j.Checksum, Format: j.Format,
		},
		State: string(j.State), DoneBytes: j.Done, TotalBytes: j.Total, Result: j.Result, CreateTimestamp: j.Created.UnixMilli(),
		EndTimestamp: stamp(j.Ended), Current: j.Current,
	}
	if j.Failure != nil {
		out.Problem, out.Attempts = j.Failure.Message, int32(j.Failure.Attempts)
	}
	return out
}

func wireEnd(e observed.JobEnd) *wire.JobEnd {
	if e == (observed.JobEnd{}) {
		return nil
	}
	return &wire.JobEnd{
		ResourceName: string(e.Resource), VolumeNumber: int32(e.Volume), SnapshotName: string(e.Snapshot), StoragePool: string(e.Pool), Path: e.Path,
	}
}
