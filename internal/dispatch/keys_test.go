// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package dispatch_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/dispatch"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/passphrase"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// box opens keys that are sealed by an "s" before them, once it is open.
type box struct {
	mu   sync.Mutex
	open bool
}

func (b *box) unlock() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open = true
}

func (b *box) Open(sealed []byte) ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case !b.open:
		return nil, passphrase.ErrLocked
	case len(sealed) < 2 || sealed[0] != 's':
		return nil, errors.New("damaged")
	}
	return sealed[1:], nil
}

// encrypt makes a definition one with encrypted volumes.
func encrypt(r *rig, name model.DefinitionName, sealed string) uint64 {
	r.Helper()
	return r.write(func(tx *store.Tx) error {
		d, _ := schema.Definitions.Get(tx, name.Key())
		d.Layers = []model.Layer{model.LUKS, model.Storage}
		vd, _ := schema.VolumeDefinitions.Get(tx, model.VolumeDefinitionID{Definition: name.Key()})
		vd.Key = []byte(sealed)
		return errors.Join(schema.Definitions.Update(tx, d), schema.VolumeDefinitions.Update(tx, vd))
	})
}

func encrypted(name string, generation uint64, l *agentpb.Luks) *agentpb.Resource {
	m := vol(name, generation)
	m.Layers, m.Volumes[0].Luks = []string{"LUKS", "STORAGE"}, l
	return m
}

// That keys can be opened is no commit. The assignments come anew all the same, in the chain, and
// those without keys do not.
func TestKeysAreSentWhenTheyAreOpened(t *testing.T) {
	b := &box{}
	in(t, func(r *rig) {
		plain := r.create("plain", "alpha")
		r.create("vol", "alpha", "beta")
		r.create("bad", "alpha")
		bad := encrypt(r, "bad", "x")
		g := encrypt(r, "vol", "skey")
		alpha, beta := r.dial("alpha"), r.join("beta")
		r.same(alpha.next(), &agentpb.Assignments{Full: true, Pools: []*agentpb.Pool{alphaPool}, Resources: []*agentpb.Resource{
			vol("plain", plain), encrypted("vol", g, &agentpb.Luks{}), encrypted("bad", bad, &agentpb.Luks{}),
		}})
		alpha.report()
		b.unlock()
		alpha.quiet()
		r.server.KeysOpened()
		r.same(alpha.next(), &agentpb.Assignments{Resources: []*agentpb.Resource{
			encrypted("vol", g, &agentpb.Luks{Key: []byte("key")}), encrypted("bad", bad, &agentpb.Luks{Lacks: "damaged"}),
		}})
		r.same(beta.next(), &agentpb.Assignments{Resources: []*agentpb.Resource{encrypted("vol", g, &agentpb.Luks{Key: []byte("key")})}})
		r.server.KeysOpened()
		alpha.quiet()

		// An agent that comes back has them; one that was away meanwhile gets them.
		alpha.report()
		alpha.hangUp()
		back := r.dial("alpha", func(h *agentpb.Hello) { h.AppliesTo = alpha.resultsIn })
		r.same(back.next(), &agentpb.Assignments{})

		// What is to go needs no key.
		g = r.delete(model.ResourceID{Definition: "vol", Node: "alpha"})
		m := encrypted("vol", g, &agentpb.Luks{})
		m.Destroy = true
		r.same(back.next(), &agentpb.Assignments{Resources: []*agentpb.Resource{m}})
	}, func(c *dispatch.Config) { c.Keys = b })
}

// An agent that was away while keys were opened has what was sent before, and gets what is new.
func TestAnAgentThatWasAwayWhileKeysWereOpenedGetsThem(t *testing.T) {
	b := &box{}
	in(t, func(r *rig) {
		r.create("vol", "alpha")
		g := encrypt(r, "vol", "skey")
		alpha := r.join("alpha")
		alpha.hangUp()
		r.connection("alpha", observed.Offline)
		b.unlock()
		r.server.KeysOpened()
		back := r.dial("alpha", func(h *agentpb.Hello) { h.AppliesTo = alpha.resultsIn })
		r.same(back.next(), &agentpb.Assignments{Resources: []*agentpb.Resource{encrypted("vol", g, &agentpb.Luks{Key: []byte("key")})}})
	}, func(c *dispatch.Config) { c.Keys = b })
}
