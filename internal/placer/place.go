// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package placer

import (
	"cmp"
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
)

// Place plans where the replicas of a request go. When there are fewer places than wanted it returns the plan, without picks, together with an
// errs.NotEnough that carries the reasons; a request that makes no sense is errs.Invalid or errs.Unsupported.
func Place(req Request, nodes []Node, pools []Pool) (Plan, error) {
	t, err := prepare(&req, nodes, pools)
	if err != nil {
		return Plan{}, err
	}
	candidates := t.candidates()
	rank(candidates, t.weights())
	plan := Plan{Want: t.want, Have: t.have, Ranked: picksOf(candidates), Rejected: t.rejected}
	if need := t.want - t.have; need > 0 {
		chosen, decided := t.choose(candidates, need)
		if chosen == nil {
			return plan, t.notEnough(candidates, need, decided)
		}
		plan.Picks = picksOf(chosen)
	}
	if on := req.Filter.DisklessOnRemaining; on != nil && *on {
		plan.DisklessOn = t.remaining(plan.Picks)
	}
	return plan, nil
}

func picksOf(candidates []*candidate) []Pick {
	picks := make([]Pick, len(candidates))
	for i, c := range candidates {
		picks[i] = c.pick()
	}
	return picks
}

func (t *task) weights() Weights {
	if t.req.Weights == nil {
		return DefaultWeights()
	}
	return *t.req.Weights
}

// candidates filters, and takes note of the reason of each rejection.
func (t *task) candidates() []*candidate {
	for _, n := range t.ordered {
		if r := t.rejectNode(n); r.Kind != 0 {
			n.fault = r.Kind
			t.rejected = append(t.rejected, r)
		}
	}
	backing := make([]candidate, 0, len(t.pools))
	candidates := make([]*candidate, 0, len(t.pools))
	var spaces numbers
	for i := range t.pools {
		p := &t.pools[i]
		n := t.nodes[p.Node]
		if n == nil || n.fault != 0 {
			continue
		}
		if r := t.rejectPool(n, p); r.Kind != 0 {
			if r.Kind != PoolKind {
				t.rejected = append(t.rejected, r)
			}
			continue
		}
		backing = append(backing, candidate{node: n, pool: p, name: p.Name.Key(), shared: free, classes: t.mixing.classes(p.Provider, n.Mixes)})
		c := &backing[len(backing)-1]
		if p.SharedSpace != "" {
			c.shared = spaces.of(p.SharedSpace)
		}
		candidates = append(candidates, c)
	}
	t.spaces = len(spaces.of32)
	slices.SortFunc(t.rejected, func(a, b Rejection) int {
		if a.Node != b.Node {
			return cmp.Compare(a.Node, b.Node)
		}
		return cmp.Compare(a.Pool, b.Pool)
	})
	return candidates
}

// remaining is the nodes that get a client: those that can, and have neither a replica that stays as it is nor get one. A tie-breaker becomes a client.
func (t *task) remaining(picks []Pick) []model.NodeKey {
	taken := make(map[model.NodeKey]bool, len(picks))
	for _, p := range picks {
		taken[p.Node] = true
	}
	var nodes []model.NodeKey
	for _, n := range t.ordered {
		if n.standing <= witness && n.Leaving == "" && n.Online && slices.Contains(n.Layers, model.DRBD) && !taken[n.key] {
			nodes = append(nodes, n.key)
		}
	}
	return nodes
}

// notEnough is the error for a plan that could not be made.
func (t *task) notEnough(candidates []*candidate, need int, decided bool) error {
	if !decided {
		return errs.New(errs.Unsupported, errs.Resource, "it could not be decided whether %d replicas can be placed", need).
			Because("the rules about nodes with the same and different values cross each other in too many ways").
			Fix("give fewer such rules, or name the nodes")
	}
	found := need - 1
	for ; found > 0; found-- {
		if chosen, _ := t.choose(candidates, found); chosen != nil {
			break
		}
	}
	e := errs.New(errs.NotEnough, errs.Resource, "not enough nodes: %s wanted in addition to %d, and only %d can be placed",
		count(need, "replica"), t.have, max(found, 0)).
		Fix("add nodes, pools or space, or ask for less").
		Detail(Summarize(t.rejected))
	if causes := t.causes(candidates, need); len(causes) > 0 {
		e = e.Because("%s", strings.Join(causes, "; "))
	}
	return e
}
