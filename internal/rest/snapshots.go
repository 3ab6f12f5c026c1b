// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"fmt"
	"iter"
	"maps"
	"strings"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/resources"
	"github.com/holdfast-storage/holdfast/internal/rest/encode"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/snapshots"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

// viewSnapshots lists the snapshots of all definitions.
func (s *Server) viewSnapshots(q *request) (body, error) {
	p, e, view, err := s.paged(q)
	if err != nil {
		return nil, err
	}
	rows := schema.Snapshots.All(view)
	if names := q.names("resources"); len(names) > 0 {
		rows = func(yield func(schema.Snapshot) bool) {
			for _, d := range keys(names, definitionKey) {
				for sn := range schema.SnapshotsOf(view, d) {
					if !yield(sn) {
						return
					}
				}
			}
		}
	}
	return snapshotList(p, e, rows, keys(q.names("nodes"), nodeKey)), nil
}

func (s *Server) listSnapshots(q *request) (body, error) {
	p, e, view, err := s.paged(q)
	if err != nil {
		return nil, err
	}
	d, err := schema.FindDefinition(view, q.PathValue("resource"))
	if err != nil {
		return nil, err
	}
	return snapshotList(p, e, schema.SnapshotsOf(view, d.Name.Key()), nil), nil
}

func snapshotList(p page, e *encode.Encoder, rows iter.Seq[schema.Snapshot], nodes []model.NodeKey) body {
	rows = where(rows, func(sn *schema.Snapshot) bool { return encode.VisibleSnapshot(sn) && e.OnNode(sn, nodes) })
	return list[schema.Snapshot]{pageOf(p, rows), e.Snapshot}
}

func (s *Server) getSnapshot(q *request) (body, error) {
	e, view := s.encoder()
	sn, err := schema.FindSnapshot(view, q.PathValue("resource"), q.PathValue("snapshot"))
	if err != nil {
		return nil, err
	}
	return one[schema.Snapshot]{sn, e.Snapshot}, nil
}

func (s *Server) createSnapshot(q *request) (wire.RcList, error) {
	var b wire.SnapshotCreate
	if err := q.decode(&b); err != nil {
		return nil, err
	}
	b.ResourceName = q.PathValue("resource")
	return s.takeSnapshots(q, []wire.SnapshotCreate{b})
}

// createSnapshots takes several snapshots at one moment, all or none.
func (s *Server) createSnapshots(q *request) (wire.RcList, error) {
	var b wire.CreateMultiSnapshotRequest
	if err := q.decode(&b); err != nil {
		return nil, err
	}
	return s.takeSnapshots(q, b.Snapshots)
}

func (s *Server) takeSnapshots(q *request, asked []wire.SnapshotCreate) (wire.RcList, error) {
	list := make([]snapshots.New, len(asked))
	for i, a := range asked {
		list[i] = snapshots.New{Definition: a.ResourceName, Name: a.Name, Nodes: a.Nodes, Props: map[string]string{}}
		for _, props := range []wire.Properties{a.Props, a.SnapshotDefinitionProps} {
			maps.Copy(list[i].Props, props)
		}
	}
	made, notices, err := s.Snapshots.Create(q.Context(), list)
	if err != nil {
		return q.notices(notices), err
	}
	view := s.Store.Snapshot()
	var l wire.RcList
	for _, sn := range made {
		name := string(schema.NameOfDefinition(view, sn.Definition))
		l = append(l, done(wire.Created, sn.UUID, "snapshot %s of resource %s taken", sn.Name, name).
			WithRef(wire.RefRscDfn, name).WithRef(wire.RefSnapshot, string(sn.Name)))
	}
	return append(l, q.notices(notices)...), nil
}

func (s *Server) modifySnapshot(q *request) (wire.RcList, error) {
	var b wire.SnapshotModify
	if err := q.decode(&b); err != nil {
		return nil, err
	}
	definition, name := q.PathValue("resource"), q.PathValue("snapshot")
	notices, err := s.Snapshots.Modify(q.Context(), definition, name, propsChange(b.PropsModify))
	if err != nil {
		return nil, err
	}
	return q.with(done(wire.Modified, "", "snapshot %s of resource %s changed", name, definition), notices), nil
}

func (s *Server) deleteSnapshot(q *request) (wire.RcList, error) {
	definition, name := q.PathValue("resource"), q.PathValue("snapshot")
	nodes := q.names("nodes")
	notices, err := s.Snapshots.Delete(q.Context(), definition, name, nodes)
	if err != nil {
		return q.notices(notices), err
	}
	what := fmt.Sprintf("snapshot %s of resource %s", name, definition)
	if len(nodes) > 0 {
		what += " on " + strings.Join(nodes, ", ")
	}
	return q.with(deletedOrKept(notices, what), notices), nil
}

// deletedOrKept is the outcome of a deletion that may also wait for what is being made from it.
func deletedOrKept(notices []errs.Notice, what string) wire.Rc {
	for _, n := range notices {
		if n.Kind == errs.GoesOn {
			return done(wire.Deleted, "", "%s marked for deletion", what)
		}
	}
	return deleted(notices, what)
}

// restoreVolumeDefinitions gives a definition the volumes of a snapshot.
func (s *Server) restoreVolumeDefinitions(q *request) (wire.RcList, error) {
	var b wire.SnapshotRestore
	if err := q.decode(&b); err != nil {
		return nil, err
	}
	name := q.PathValue("snapshot")
	made, err := s.Snapshots.RestoreVolumes(q.Context(), q.PathValue("resource"), name, b.ToResource)
	if err != nil {
		return nil, err
	}
	var l wire.RcList
	for _, v := range made {
		l = append(l, done(wire.Created, v.UUID, "volume %d of resource definition %s created with %s, as in snapshot %s",
			v.Number, b.ToResource, model.FormatSize(v.Size), name).WithRef(wire.RefVlmNr, number(int32(v.Number))).
			WithRef(wire.RefRscDfn, b.ToResource))
	}
	return l, nil
}

// restoreResource makes the replicas of a definition from a snapshot.
func (s *Server) restoreResource(q *request) (wire.RcList, error) {
	var b wire.SnapshotRestore
	if err := q.decode(&b); err != nil {
		return nil, err
	}
	made, err := s.Snapshots.Restore(q.Context(), q.PathValue("resource"), q.PathValue("snapshot"), snapshots.Restore{
		To: b.ToResource, Nodes: b.Nodes, PoolRename: b.StorPoolRename,
	})
	if err != nil {
		return q.notices(made.Notices), err
	}
	out := createdReplicas(resources.Created{Definition: made.Definition, Placed: made.Placed})
	for i := range out {
		out[i] = out[i].WithRef(wire.RefRscDfn, string(made.Definition.Name))
	}
	return append(out, q.notices(made.Notices)...), nil
}

// rollBack brings a resource back to a snapshot. How a pool does that is its own affair, so what the body says of it changes
// nothing.
func (s *Server) rollBack(q *request) (wire.RcList, error) {
	var b wire.SnapshotRollback
	if err := q.decodeOptional(&b); err != nil {
		return nil, err
	}
	definition, name := q.PathValue("resource"), q.PathValue("snapshot")
	notices, err := s.Snapshots.RollBack(q.Context(), definition, name)
	if err != nil {
		return q.notices(notices), err
	}
	return q.with(done(wire.Modified, "", "resource %s rolled back to snapshot %s", definition, name), notices), nil
}
