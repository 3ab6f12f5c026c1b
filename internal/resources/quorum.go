// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/props"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// The properties of quorum, with LINSTOR's names and values. The last marks a quorum that was
// set by the rules and not by a user.
const (
	autoTieBreaker = "DrbdOptions/auto-add-quorum-tiebreaker"
	quorumKey      = "DrbdOptions/Resource/quorum"
	quorumSetBy    = "Internal/Drbd/QuorumSetBy"
	setByRules     = "linstor"
	majority       = "majority"
)

// votes is the voters of a definition, as far as they count.
type votes struct {
	diskful     int
	clients     int
	tieBreakers []schema.Resource
}

func votesOf(r store.Reader, d model.DefinitionKey) votes {
	var v votes
	for x := range schema.ResourcesOf(r, d) {
		if !counts(r, x) {
			continue
		}
		switch x.Kind {
		case schema.Diskful:
			v.diskful++
		case schema.Client:
			v.clients++
		case schema.TieBreaker:
			v.tieBreakers = append(v.tieBreakers, x)
		}
	}
	return v
}

// even tells whether the disks may part into two equal halves, with nobody to decide between
// them.
func (v votes) even() bool { return v.diskful >= 2 && v.diskful%2 == 0 && v.clients == 0 }

// lackTieBreaker tells whether a definition is to get a tie-breaker: its disks are even, and the
// properties ask for one.
func (v votes) lackTieBreaker(levels []props.Level) bool {
	return v.even() && len(v.tieBreakers) == 0 && props.Bool(autoTieBreaker, levels...)
}

// inherited is all that a definition inherits properties from, and its own.
func inherited(r store.Reader, d schema.Definition) []props.Level {
	g, _ := schema.Groups.Get(r, d.Group)
	return append(cluster(r), levelsOf(d, g)...)
}

// settleVotes brings the tie-breaker and the quorum of a definition to what its replicas ask for,
// in the transaction that changed them. It returns the tie-breakers that it has added, and what
// it has done.
func (s *Resources) settleVotes(tx *store.Tx, key model.DefinitionKey, b birth) (added []model.ResourceID, notices []errs.Notice, err error) {
	d, ok := schema.Definitions.Get(tx, key)
	if !ok || d.Deleting || !model.Replicates(d.Layers) {
		return nil, nil, nil
	}
	levels, v := inherited(tx, d), votesOf(tx, key)
	switch {
	case v.lackTieBreaker(levels):
		added, notices, err = s.addTieBreaker(tx, d, b)
	case !v.even() && len(v.tieBreakers) > 0 && props.Bool(autoTieBreaker, levels...):
		notices, err = s.dropTieBreakers(tx, d, v.tieBreakers)
	}
	if err != nil {
		return nil, nil, err
	}
	return added, notices, settleQuorum(tx, d, levels)
}

// addTieBreaker adds a tie-breaker on the node that has least to do.
func (s *Resources) addTieBreaker(tx *store.Tx, d schema.Definition, b birth) ([]model.ResourceID, []errs.Notice, error) {
	type candidate struct {
		node     schema.Node
		replicas int64
	}
	var list []candidate
	for n := range schema.Nodes.All(tx) {
		key := n.Name.Key()
		seen := s.Observed.Node(key)
		_, taken := schema.Resources.Get(tx, model.ResourceID{Definition: d.Name.Key(), Node: key})
		if taken || n.Leaving() || !n.Type.RunsAgent() || seen.Connection != observed.Online || !slices.Contains(seen.Layers, model.DRBD) {
			continue
		}
		list = append(list, candidate{n, schema.ReplicasByNode.Of(tx, key)})
	}
	if len(list) == 0 {
		return nil, []errs.Notice{{
			Kind: errs.NoTieBreaker, Object: errs.Resource,
			Message: fmt.Sprintf("resource %s has no tie-breaker: there is no other node that can take one", d.Name),
		}}, nil
	}
	best := slices.MinFunc(list, func(x, y candidate) int {
		return cmp.Or(cmp.Compare(x.replicas, y.replicas), cmp.Compare(x.node.Name, y.node.Name))
	}).node
	id := model.ResourceID{Definition: d.Name.Key(), Node: best.Name.Key()}
	err := s.add(tx, d, replica{node: id.Node, pool: schema.DisklessPool.Key(), kind: schema.TieBreaker, birth: b})
	return []model.ResourceID{id}, []errs.Notice{{
		Kind: errs.TieBreakerCreated, Object: errs.Resource, Message: fmt.Sprintf("tie-breaker of resource %s created on node %s", d.Name, best.Name),
	}}, err
}

// dropTieBreakers marks tie-breakers that are not needed for deletion, where their nodes can see
// to it now.
func (s *Resources) dropTieBreakers(tx *store.Tx, d schema.Definition, list []schema.Resource) ([]errs.Notice, error) {
	var notices []errs.Notice
	for _, x := range list {
		if s.Observed.Node(x.Node).Connection != observed.Online {
			continue
		}
		if _, err := s.markDeleting(tx, x); err != nil {
			return nil, err
		}
		notices = append(notices, errs.Notice{
			Kind: errs.TieBreakerRemoved, Object: errs.Resource,
			Message: fmt.Sprintf("tie-breaker of resource %s on node %s is not needed any more", d.Name, schema.NameOfNode(tx, x.Node)),
		})
	}
	return notices, nil
}

// settleQuorum sets the quorum of a definition, unless a user has done so anywhere.
func settleQuorum(tx *store.Tx, d schema.Definition, levels []props.Level) error {
	value, set := d.Props.Get(quorumKey)
	by, _ := d.Props.Get(quorumSetBy)
	if policy, _ := props.Text("DrbdOptions/auto-quorum", levels...); set && by != setByRules || policy == "disabled" {
		return nil
	}
	for _, l := range levels {
		if _, theirs := l.Props.Get(quorumKey); theirs && l.Scope != props.Definition {
			return nil
		}
	}
	v := votesOf(tx, d.Name.Key())
	want := "off"
	if v.diskful >= 3 || v.diskful == 2 && v.clients+len(v.tieBreakers) > 0 {
		want = majority
	}
	if value == want || !set && want != majority {
		return nil
	}
	now, _ := schema.Definitions.Get(tx, d.Name.Key())
	now.Props = now.Props.Change(model.PropsChange{Set: map[string]string{quorumKey: want, quorumSetBy: setByRules}})
	return schema.Definitions.Update(tx, now)
}

// takesOver tells whether a replica without a disk is to stay as the tie-breaker instead of
// going, because the definition needs one without it.
func (s *Resources) takesOver(tx *store.Tx, r schema.Resource, keep bool) bool {
	d, _ := schema.Definitions.Get(tx, r.Definition)
	if r.Kind == schema.Diskful || r.Deleting || d.Deleting || !model.Replicates(d.Layers) || r.Kind == schema.TieBreaker && !keep {
		return false
	}
	v := votesOf(tx, r.Definition)
	if r.Kind == schema.Client {
		v.clients--
	} else {
		v.tieBreakers = slices.DeleteFunc(v.tieBreakers, func(x schema.Resource) bool { return x.Node == r.Node })
	}
	return v.lackTieBreaker(inherited(tx, d))
}

// takeOver makes a replica without a disk the tie-breaker.
func takeOver(tx *store.Tx, r schema.Resource) (errs.Notice, error) {
	notice := errs.Notice{
		Kind: errs.TieBreakerTakeover, Object: errs.Resource, Message: fmt.Sprintf(
			"resource %s on node %s stays as the tie-breaker", schema.NameOfDefinition(tx, r.Definition), schema.NameOfNode(tx, r.Node)),
	}
	if r.Kind == schema.TieBreaker {
		return notice, nil
	}
	r.Kind = schema.TieBreaker
	return notice, schema.Resources.Update(tx, r)
}

// withoutTieBreaker notes at a definition that its tie-breaker was deleted by a user, who does
// not want another.
func withoutTieBreaker(tx *store.Tx, key model.DefinitionKey) error {
	d, ok := schema.Definitions.Get(tx, key)
	if !ok {
		return nil
	}
	d.Props = d.Props.With(autoTieBreaker, "False")
	return schema.Definitions.Update(tx, d)
}
