// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package placer

import (
	"iter"

	"github.com/holdfast-storage/holdfast/internal/model"
)

// Node is a node as the placer sees it. The caller brings all nodes that run an agent.
type Node struct {
	Name      model.NodeName
	Online    bool
	Leaving   string           // Why it takes nothing new, such as "it is being evacuated"; empty: it stays.
	NoTarget  bool             // AutoplaceTarget is false for it, on the node or for the whole cluster.
	Props     model.Props      // What rules about same and different nodes look at.
	Layers    []model.Layer    // The layers that it can run.
	Providers []model.Provider // The providers that it can run, if that is known.
	Mixes     bool             // Its DRBD can replicate between different block providers.
	Replicas  int              // How many replicas it has, of any definition.
}

// Pool is a storage pool as the placer sees it. Pools of nodes that were not brought are ignored.
type Pool struct {
	Node        model.NodeKey
	Name        model.PoolName
	Provider    model.Provider
	Space       Space
	Granularity int64  // Sizes are rounded up to a multiple of it; 0: as they are.
	SharedSpace string // Pools of one name are one space; empty: its own.
	Fault       string // Why it cannot be used; empty: it can.
	NoTarget    bool   // AutoplaceTarget is false for it.
	MinRoom     int64  // A thin pool with less room than this is no target. It does not bind Fits.
	Throughput  int64  // What is left of its throughput, in bytes a second; 0 when not said.
}

// Existing is a replica that the definition has already.
type Existing struct {
	Node      model.NodeKey
	Pool      model.PoolKey // Where its data lies; empty without a disk.
	Diskful   bool
	Client    bool // Without a disk because somebody uses it there, not as a tie-breaker.
	Uncounted bool // It is on its way out, or serves no data: it takes its node, and counts in nothing else.
}

// Request says what is to be placed.
type Request struct {
	Filter       model.Filter  // Merged: what the request says over what the group says.
	Layers       []model.Layer // What a node must be able to run, top first; empty: what the filter says.
	Sizes        []int64       // The bytes of each volume, with what its layers add.
	Existing     []Existing
	MixProviders bool // Replicas may lie in different block providers (AllowMixingStoragePoolDriver).
	Weights      *Weights

	// Others yields the definitions that have a replica on a node which is not being deleted. It is called only when the filter
	// says what not to place with, and may be nil otherwise.
	Others func(model.NodeKey) iter.Seq[model.DefinitionKey]
}

// Weights say how much each criterion counts. A weight of 0 switches the criterion off; what is equal then goes to the node with fewest replicas,
// then by name.
type Weights struct {
	MaxFreeSpace     float64 // What is left in the pool once all promises are used.
	MinReservedSpace float64 // How little the pool has promised.
	MinRscCount      float64 // How few replicas the node has.
	MaxThroughput    float64 // How much throughput the pool has left.
}

// DefaultWeights is used when a request has none.
func DefaultWeights() Weights { return Weights{MaxFreeSpace: 1} }

// Plan says where replicas go. It is a proposal: nothing is reserved.
type Plan struct {
	Want int // How many replicas there are to be.
	Have int // How many there are. When more than wanted, nothing is picked and nothing is to be removed either.

	Picks      []Pick          // Want - Have of them, best first.
	DisklessOn []model.NodeKey // Where a client goes, by name; only with DisklessOnRemaining.
	Ranked     []Pick          // Every pool that could have been picked, best first.
	Rejected   []Rejection     // Everything else, by node and pool.
}

// Pick is a pool that a replica goes to.
type Pick struct {
	Node    model.NodeKey
	Pool    model.PoolKey
	Score   float64 // From 0 to the sum of the weights.
	Convert bool    // The node has a replica without a disk, which gets one.
}
