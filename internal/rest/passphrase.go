// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest

import "github.com/holdfast-storage/holdfast/internal/wire"

func (s *Server) passphraseStatus(*request) (body, error) {
	return value{wire.PassphraseStatus{Status: string(s.Keys.State())}}, nil
}

func (s *Server) createPassphrase(q *request) (wire.RcList, error) {
	var b wire.PassPhraseCreate
	if err := q.decode(&b); err != nil {
		return nil, err
	}
	if err := s.Keys.Create(q.Context(), string(b.NewPassphrase)); err != nil {
		return nil, err
	}
	return wire.RcList{done(wire.Created, "", "the passphrase of the cluster was created")}, nil
}

func (s *Server) modifyPassphrase(q *request) (wire.RcList, error) {
	var b wire.PassPhraseCreate
	if err := q.decode(&b); err != nil {
		return nil, err
	}
	if err := s.Keys.Modify(q.Context(), string(b.OldPassphrase), string(b.NewPassphrase)); err != nil {
		return nil, err
	}
	return wire.RcList{done(wire.Modified, "", "the passphrase of the cluster was changed")}, nil
}

// enterPassphrase takes a bare JSON string.
func (s *Server) enterPassphrase(q *request) (wire.RcList, error) {
	var b wire.PassPhraseEnter
	if err := q.decode(&b); err != nil {
		return nil, err
	}
	if err := s.Keys.Enter(q.Context(), string(b)); err != nil {
		return nil, err
	}
	return wire.RcList{done(wire.PassphraseAccepted, "", "the passphrase was accepted")}, nil
}
