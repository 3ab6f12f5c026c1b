// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"slices"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

func (s *Server) listKeyValues(*request) (body, error) {
	e, view := s.encoder()
	return list[schema.KeyValueInstance]{schema.KeyValues.All(view), e.KeyValue}, nil
}

// getKeyValue answers with a list of one.
func (s *Server) getKeyValue(q *request) (body, error) {
	name := q.PathValue("instance")
	e, view := s.encoder()
	k, ok := schema.KeyValues.Get(view, model.InstanceName(name).Key())
	if !ok {
		return nil, errs.New(errs.NotFound, errs.KeyValueStore, "key-value store %s does not exist", name).
			Because("it has no keys")
	}
	return list[schema.KeyValueInstance]{slices.Values([]schema.KeyValueInstance{k}), e.KeyValue}, nil
}

func (s *Server) modifyKeyValue(q *request) (wire.RcList, error) {
	var b wire.KeyValueStoreModify
	if err := q.decode(&b); err != nil {
		return nil, err
	}
	name := q.PathValue("instance")
	notices, err := s.Catalog.ModifyInstance(q.Context(), name, propsChange(b.PropsModify))
	if err != nil {
		return nil, err
	}
	return q.with(done(wire.Modified, "", "key-value store %s changed", name), notices), nil
}

func (s *Server) deleteKeyValue(q *request) (wire.RcList, error) {
	name := q.PathValue("instance")
	if err := s.Catalog.DeleteInstance(q.Context(), name); err != nil {
		return nil, err
	}
	return wire.RcList{done(wire.Deleted, "", "key-value store %s deleted", name)}, nil
}
