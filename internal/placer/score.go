// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package placer

import (
	"cmp"
	"slices"
)

// scorer gives the raw value of a criterion; more is better unless it is to be least.
type scorer struct {
	weight float64
	least  bool
	value  func(*candidate) float64
}

func scorers(w Weights) []scorer {
	return []scorer{
		{w.MaxFreeSpace, false, func(c *candidate) float64 { return float64(c.pool.Space.left()) }},
		{w.MinReservedSpace, true, func(c *candidate) float64 { return float64(c.pool.Space.Promised) }},
		{w.MinRscCount, true, func(c *candidate) float64 { return float64(c.node.Replicas) }},
		{w.MaxThroughput, false, func(c *candidate) float64 { return float64(c.pool.Throughput) }},
	}
}

// rank scores the candidates and sorts them, best first. The score of one criterion is its value in proportion to the largest among all candidates;
// when there are values below zero, to the span of all.
func rank(candidates []*candidate, w Weights) {
	for _, s := range scorers(w) {
		if !(s.weight > 0) {
			continue
		}
		var low, high float64
		for _, c := range candidates {
			low, high = min(low, s.value(c)), max(high, s.value(c))
		}
		if low == high {
			continue
		}
		for _, c := range candidates {
			score := (s.value(c) - low) / (high - low)
			if s.least {
				score = 1 - score
			}
			// The conversion keeps the product from being fused with the sum, which would round differently on some machines.
			c.score += float64(s.weight * score)
		}
	}
	slices.SortFunc(candidates, compare)
}

// compare orders candidates, the best first.
func compare(a, b *candidate) int {
	switch {
	case (a.node.standing == client) != (b.node.standing == client):
		return compareBool(a.node.standing == client, b.node.standing == client)
	case a.score != b.score:
		return cmp.Compare(b.score, a.score)
	case a.node.Replicas != b.node.Replicas:
		return cmp.Compare(a.node.Replicas, b.node.Replicas)
	case a.node != b.node:
		return cmp.Compare(a.node.key, b.node.key)
	default:
		return cmp.Compare(a.name, b.name)
	}
}

// compareBool orders false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}
