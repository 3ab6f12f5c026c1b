// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package placer

import (
	"slices"

	"github.com/holdfast-storage/holdfast/internal/model"
)

// standing is what a node has of the definition already.
type standing int

const (
	empty    standing = iota
	witness           // a tie-breaker, which can get a disk
	client            // used without a disk, and can get one
	occupied          // nothing more can go there
)

// rejectNode tells why the whole node cannot take a replica; the Kind is 0 when it can.
func (t *task) rejectNode(n *node) Rejection {
	r := Rejection{Node: n.key}
	why := func(kind Reason, subject string) Rejection {
		r.Kind, r.Subject = kind, subject
		return r
	}
	switch {
	case n.standing == occupied, t.rules.diskless && n.standing != empty:
		return why(Occupied, "")
	case n.Leaving != "":
		return why(Leaving, n.Leaving)
	case !n.Online:
		return why(Offline, "")
	case n.NoTarget:
		return why(NotTarget, "")
	case t.rules.nodes != nil && !t.rules.nodes[n.key]:
		return why(NodeNotListed, "")
	}
	for _, layer := range t.rules.layers {
		if !slices.Contains(n.Layers, layer) {
			return why(LayerMissing, string(layer))
		}
	}
	if other := t.placedWith(n.key); other != "" {
		return why(PlacedWith, string(other))
	}
	if kind, subject := t.rules.values(n.Props); kind != 0 {
		return why(kind, subject)
	}
	if n.pools == 0 {
		return why(NoPool, "")
	}
	return r
}

// placedWith is a definition on the node that the filter forbids as a neighbour, the first by name.
func (t *task) placedWith(node model.NodeKey) model.DefinitionKey {
	if t.req.Others == nil || t.rules.apart == nil && t.rules.apartFrom == nil {
		return ""
	}
	var first model.DefinitionKey
	for other := range t.req.Others(node) {
		if first != "" && other >= first {
			continue
		}
		if t.rules.apart[other] || t.matches(other) {
			first = other
		}
	}
	return first
}

// matches remembers its answers: a definition has replicas on several nodes.
func (t *task) matches(d model.DefinitionKey) bool {
	if t.rules.apartFrom == nil {
		return false
	}
	match, known := t.matched[d]
	if !known {
		match = t.rules.apartFrom.MatchString(string(d))
		t.matched[d] = match
	}
	return match
}

// values tells what the rules have against the properties of a node.
func (r *rules) values(props model.Props) (Reason, string) {
	for _, key := range r.common {
		if _, ok := props.Get(key); !ok {
			return ValueMissing, key
		}
	}
	for _, p := range r.needed {
		if value, ok := props.Get(p.key); !ok || value != p.value {
			return ValueDiffers, p.String()
		}
	}
	for _, p := range r.banned {
		if value, ok := props.Get(p.key); ok && value == p.value {
			return ValueTaken, p.String()
		}
	}
	for _, l := range r.limits {
		if value, ok := props.Get(l.key); ok && l.used[value] >= l.most {
			return ValueTaken, pair{l.key, value}.String()
		}
	}
	return 0, ""
}

// rejectPool tells why a pool of a usable node cannot take a replica; the Kind is 0 when it can.
func (t *task) rejectPool(n *node, p *Pool) Rejection {
	r := Rejection{Node: n.key, Pool: p.Name.Key()}
	provider := string(p.Provider)
	switch {
	case t.rules.diskless != (p.Provider == model.Diskless):
		r.Kind = PoolKind
	case t.rules.pools != nil && !t.rules.pools[r.Pool]:
		r.Kind = PoolNotListed
	case t.rules.diskless:
	case t.rules.providers != nil && !slices.Contains(t.rules.providers, p.Provider):
		r.Kind, r.Subject = ProviderOther, provider
	case n.Providers != nil && !slices.Contains(n.Providers, p.Provider):
		r.Kind, r.Subject = ProviderMissing, provider
	case p.NoTarget:
		r.Kind = PoolNotTarget
	case p.SharedSpace != "" && t.sharing[p.SharedSpace]:
		r.Kind = SpaceShared
	case t.mixing.classes(p.Provider, n.Mixes) == 0:
		r.Kind, r.Subject = ProviderMixed, provider
	default:
		return t.rejectSpace(p)
	}
	return r
}

func (t *task) rejectSpace(p *Pool) Rejection {
	r := p.fits(t.req.Sizes)
	if r.Kind != 0 || !p.Provider.Thin() {
		return r
	}
	if room, _ := p.Space.Room(p.Provider); room < p.MinRoom {
		r.Kind, r.Need, r.Have, r.Space = TooFull, p.MinRoom, room, p.Space
	}
	return r
}
