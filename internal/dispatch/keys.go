// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"errors"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/passphrase"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// Keys opens sealed keys.
type Keys interface {
	Open(sealed []byte) ([]byte, error)
}

// KeysOpened sends assignments of encrypted volumes anew, with their keys: no commit tells of
// that. It returns at once.
func (s *Server) KeysOpened() {
	for _, h := range s.all() {
		h.mark(func(t *todo) { t.all = true })
	}
}

// addKeys adds to a replica what opens those of its volumes that lie encrypted in a pool. What is
// to be destroyed needs no key.
func (a *assignment) addKeys(r store.Reader, keys Keys, row *schema.Resource) {
	d, _ := schema.Definitions.Get(r, row.Definition)
	if !model.Encrypts(d.Layers) {
		return
	}
	for i, msg := range a.msg.GetVolumes() {
		switch {
		case msg.GetPool() == "":
		case row.Deleting || msg.GetDestroy():
			msg.Luks = &agentpb.Luks{}
		default:
			vd, _ := schema.VolumeDefinitions.Get(r, model.VolumeDefinitionID{Definition: row.Definition, Number: row.Volumes[i].Number})
			msg.Luks = luksOf(keys, vd.Key)
		}
	}
}

// luksOf opens the key of a volume, if that can be done now.
func luksOf(keys Keys, sealed []byte) *agentpb.Luks {
	if keys == nil {
		return &agentpb.Luks{}
	}
	key, err := keys.Open(sealed)
	switch {
	case errors.Is(err, passphrase.ErrLocked):
		return &agentpb.Luks{}
	case err != nil: // It concerns this volume alone.
		return &agentpb.Luks{Lacks: err.Error()}
	}
	return &agentpb.Luks{Key: key}
}
