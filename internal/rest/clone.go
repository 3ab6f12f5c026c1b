// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"net/http"
	"net/url"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/snapshots"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

// clone begins a clone. Its success is the only answer of the API that has entries inside another object; a refusal is a
// list of entries as everywhere.
func (s *Server) clone(q *request) {
	source := q.PathValue("resource")
	made, notices, err := s.beginClone(q, source)
	if err != nil {
		q.fail(err)
		return
	}
	name := string(made.Name)
	entries := append(wire.RcList{done(wire.Created, made.UUID, "resource definition %s is being cloned to %s", source, name).
		WithRef(wire.RefRscDfn, name)}, q.notices(notices)...)
	out := q.output(http.StatusCreated)
	out.Value(wire.ResourceDefinitionCloneStarted{
		Location:   "/v1/resource-definitions/" + url.PathEscape(source) + "/clone/" + url.PathEscape(name),
		SourceName: source, CloneName: name, Messages: entries.Finish(q.route.mask, s.Now()),
	})
	out.end()
}

func (s *Server) beginClone(q *request, source string) (schema.Definition, []errs.Notice, error) {
	var b wire.ResourceDefinitionCloneRequest
	if err := q.decode(&b); err != nil {
		return schema.Definition{}, nil, err
	}
	if len(b.VolumePassphrases) > 0 {
		return schema.Definition{}, nil, noOwnPassphrase(errs.ResourceDefinition)
	}
	return s.Snapshots.Clone(q.Context(), source, snapshots.NewClone{
		Name: b.Name, ExternalName: b.ExternalName, Group: b.ResourceGroup, Layers: upper(b.LayerList), Props: propsChange(b.PropsModify),
	})
}

func (s *Server) cloneStatus(q *request) (body, error) {
	st, err := s.Snapshots.Status(q.PathValue("resource"), q.PathValue("resourceClone"))
	if err != nil {
		return nil, err
	}
	out := wire.ResourceDefinitionCloneStatus{Done: wire.RoundDown(st.Done), Total: wire.RoundUp(st.Total), Problem: st.Problem}
	switch st.State {
	case schema.Cloning:
		out.Status = wire.CloneCloning
	case schema.CloneDone:
		out.Status = wire.CloneComplete
	case schema.CloneFailed:
		out.Status = wire.CloneFailed
	}
	return value{out}, nil
}
