// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package placer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/internal/model"
)

// Reason is why a node or a pool cannot take a replica.
type Reason int

// The reasons. The first of them that holds is the one that is given.
const (
	Occupied        Reason = iota + 1 // the node has a replica of the definition already
	Leaving                           // Subject says why
	Offline                           // so nothing is known of it
	NotTarget                         // AutoplaceTarget is false
	NodeNotListed                     // the filter names other nodes
	LayerMissing                      // Subject is the layer
	PlacedWith                        // Subject is the other definition
	ValueMissing                      // of the property Subject, which all replicas must have in common
	ValueDiffers                      // Subject is the property and the value that is needed
	ValueTaken                        // Subject is the property and the value that other replicas use up
	NoPool                            // the node has no pool at all
	PoolNotListed                     // the filter names other pools
	PoolKind                          // with a disk where none is asked for, or the other way round
	ProviderOther                     // Subject is the provider, which the filter does not name
	ProviderMissing                   // Subject is the provider, which the node cannot run
	ProviderMixed                     // Subject is the provider, which cannot be mixed with that of other replicas
	PoolNotTarget                     // AutoplaceTarget is false for the pool
	PoolFaulty                        // Subject is the fault
	SpaceShared                       // another replica lies in the same space
	SpaceUnknown                      // the host has not measured it
	NoSpace                           // Need and Have are bytes
	TooFull                           // a thin pool has room for the replica, but less than its minimum: Need and Have
)

// Rejection says why one node, or one pool of it, cannot take a replica. With an empty pool it speaks of the whole node.
type Rejection struct {
	Node    model.NodeKey
	Pool    model.PoolKey
	Kind    Reason
	Subject string
	Need    int64
	Have    int64
	Space   Space // of the pool, where that is the reason
}

// String tells the reason, without the node and the pool.
func (r Rejection) String() string {
	switch r.Kind {
	case NoSpace:
		return fmt.Sprintf("not enough space (%s free to promise, %s needed%s)", model.FormatSize(r.Have), model.FormatSize(r.Need), r.Space.figures())
	case TooFull:
		return fmt.Sprintf("too full (%s free to promise, at least %s are kept%s)", model.FormatSize(r.Have), model.FormatSize(r.Need), r.Space.figures())
	default:
		return r.group()
	}
}

// group is the text that rejections for the same reason have in common.
func (r Rejection) group() string {
	switch r.Kind {
	case Leaving, PoolFaulty:
		return r.Subject
	case LayerMissing:
		return "node cannot run the layer " + r.Subject
	case PlacedWith:
		return "node has a replica of " + r.Subject + ", which this must not be placed with"
	case ValueMissing:
		return "node does not have the property " + r.Subject
	case ValueDiffers:
		return "node does not have " + r.Subject
	case ValueTaken:
		return r.Subject + " must not be used again"
	case ProviderOther:
		return "the provider " + r.Subject + " is not in the provider list"
	case ProviderMissing:
		return "node cannot run the provider " + r.Subject
	case ProviderMixed:
		return "the provider " + r.Subject + " cannot be mixed with that of the other replicas"
	default:
		return r.Kind.String()
	}
}

// String is the reason for those that have no subject.
func (r Reason) String() string {
	switch r {
	case Occupied:
		return "has a replica already"
	case Offline:
		return "node is offline"
	case NotTarget, PoolNotTarget:
		return "AutoplaceTarget is false"
	case NodeNotListed:
		return "node is not in the node list"
	case NoPool:
		return "node has no pool of that kind"
	case PoolNotListed:
		return "pool is not in the pool list"
	case PoolKind:
		return "pool is not of the kind that is asked for"
	case SpaceShared:
		return "pool shares its space with another replica"
	case SpaceUnknown:
		return "free space is not known"
	case NoSpace:
		return "not enough space"
	case TooFull:
		return "too full"
	default:
		return fmt.Sprintf("reason %d", int(r))
	}
}

// Summarize tells in one line how many nodes and pools were rejected for which reason, the most frequent first. For space it names the largest.
func Summarize(rejected []Rejection) string {
	groups := map[string][]Rejection{}
	for _, r := range rejected {
		noun := "pool"
		if r.Pool == "" {
			noun = "node"
		}
		groups[noun+" "+r.group()] = append(groups[noun+" "+r.group()], r)
	}
	type line struct {
		count int
		text  string
	}
	lines := make([]line, 0, len(groups))
	for _, group := range groups {
		lines = append(lines, line{len(group), summary(group)})
	}
	slices.SortFunc(lines, func(a, b line) int {
		return cmp.Or(cmp.Compare(b.count, a.count), cmp.Compare(a.text, b.text))
	})
	texts := make([]string, len(lines))
	for i, l := range lines {
		texts[i] = l.text
	}
	return strings.Join(texts, "; ")
}

// summary is the line for rejections of one group, which is not empty.
func summary(group []Rejection) string {
	noun := "pool"
	if group[0].Pool == "" {
		noun = "node"
	}
	if len(group) > 1 {
		noun += "s"
	}
	most := slices.MaxFunc(group, func(a, b Rejection) int { return cmp.Compare(a.Have, b.Have) })
	text := most.group()
	switch most.Kind {
	default:
	case NoSpace:
		text = fmt.Sprintf("not enough space (largest has %s free to promise, %s needed%s)",
			model.FormatSize(most.Have), model.FormatSize(most.Need), most.Space.figures())
	case TooFull:
		text = fmt.Sprintf("too full (largest has %s free to promise, at least %s are kept%s)",
			model.FormatSize(most.Have), model.FormatSize(most.Need), most.Space.figures())
	}
	return fmt.Sprintf("%d %s: %s", len(group), noun, text)
}
