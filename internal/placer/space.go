// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package placer

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/holdfast-storage/holdfast/internal/model"
)

// DefaultRatio is how many times its free and its total space a thin pool promises when nobody set a ratio.
const DefaultRatio = 20

// Space is what is known of the room of a pool.
//
// Total, Free and Allocated were measured together on the host, Promised is read from the store when the placement is planned, so they are not
// of the same moment. That is safe, because a volume counts in Promised before its host hears of it and until its host said that it is gone.
type Space struct {
	Known      bool    // Whether the host measured it. When not, the numbers mean nothing.
	Total      int64   // The size of the pool.
	Free       int64   // What nobody had taken.
	Allocated  int64   // What promised volumes had taken, each counted up to its promise.
	Promised   int64   // What all volumes of the pool were promised, made or not.
	FreeRatio  float64 // How many times Free a thin pool promises; 0: DefaultRatio.
	TotalRatio float64 // How many times Total a thin pool promises; 0: DefaultRatio.
}

// Room is how much the pool can still promise, and whether that is known. It is never negative.
//
// A thick pool gives what is free without what was promised and not yet taken. What others put into the pool, and volumes that nobody was promised
// any more, were not free when it was measured and so are no room. A thin pool takes no space when a volume is made; it may promise its free space and,
// over all volumes, its total space as many times as its ratios say.
func (s Space) Room(provider model.Provider) (room int64, known bool) {
	switch {
	case provider == model.Diskless:
		return math.MaxInt64, true
	case !s.Known:
		return 0, false
	case provider.Thin():
		return max(0, min(times(s.Free, s.FreeRatio), times(s.Total, s.TotalRatio)-s.Promised)), true
	default:
		return max(0, s.Free-s.pending()), true
	}
}

// figures are what room is computed from, as people read them: what was promised, what is taken of it and what is free are three
// numbers.
func (s Space) figures() string {
	if !s.Known {
		return ""
	}
	return fmt.Sprintf("; of %s, %s are free, %s promised, %s allocated",
		model.FormatSize(s.Total), model.FormatSize(s.Free), model.FormatSize(s.Promised), model.FormatSize(s.Allocated))
}

// left is what would be free once every promise is used to the last byte; negative when more was promised than there is.
func (s Space) left() int64 { return s.Free - s.pending() }

// pending is what was promised and not yet taken.
func (s Space) pending() int64 { return max(0, s.Promised-s.Allocated) }

// times multiplies without overflow. A ratio below zero promises nothing.
func times(n int64, ratio float64) int64 {
	if ratio == 0 {
		ratio = DefaultRatio
	}
	product := float64(n) * ratio
	switch {
	case !(product > 0):
		return 0
	case product >= math.MaxInt64:
		return math.MaxInt64
	default:
		return int64(product)
	}
}

// need is what volumes of the given sizes take of the pool.
func (p *Pool) need(sizes []int64) int64 {
	var sum int64
	for _, size := range sizes {
		sum = add(sum, roundUp(size, p.Granularity))
	}
	return sum
}

func roundUp(size, granularity int64) int64 {
	if granularity <= 1 || size%granularity == 0 {
		return size
	}
	return add(size, granularity-size%granularity)
}

// add is the sum of two sizes, or the largest number when that is too large.
func add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Fits tells whether the pool can take volumes of the given sizes now, and if not, why. It looks at the pool alone: a transaction calls it again
// for the pools of a plan, and for pools that were chosen by hand.
func Fits(p Pool, sizes []int64) (bool, Rejection) {
	r := p.fits(sizes)
	return r.Kind == 0, r
}

func (p *Pool) fits(sizes []int64) Rejection {
	r := Rejection{Node: p.Node, Pool: p.Name.Key()}
	room, known := p.Space.Room(p.Provider)
	switch need := p.need(sizes); {
	case p.Fault != "":
		r.Kind, r.Subject = PoolFaulty, p.Fault
	case !known:
		r.Kind = SpaceUnknown
	case room < need:
		r.Kind, r.Need, r.Have, r.Space = NoSpace, need, room, p.Space
	}
	return r
}

// Usable is how much data fits into pools of the given sizes when each byte lies in as many different pools as replicas says, cut at will. It is an
// upper bound: rules of placement are not looked at.
func Usable(sizes []int64, replicas int) int64 {
	if replicas < 1 || len(sizes) < replicas {
		return 0
	}
	sorted := slices.Sorted(slices.Values(sizes))
	slices.Reverse(sorted)
	var rest wide
	for _, size := range sorted {
		rest.add(max(0, size))
	}
	// A pool larger than the answer holds a copy of everything: without it, one replica less has to lie in the others.
	for i := range replicas - 1 {
		share := rest.over(replicas - i)
		if sorted[i] <= share {
			return share
		}
		rest.subtract(sorted[i])
	}
	return rest.over(1)
}

// wide is a sum of sizes that may be larger than an int64.
type wide struct{ high, low uint64 }

func (w *wide) add(n int64) {
	low, carry := bits.Add64(w.low, uint64(n), 0)
	w.high, w.low = w.high+carry, low
}

func (w *wide) subtract(n int64) {
	low, borrow := bits.Sub64(w.low, uint64(n), 0)
	w.high, w.low = w.high-borrow, low
}

// over is the sum divided by n, or the largest int64 when that is too large.
func (w *wide) over(n int) int64 {
	if w.high >= uint64(n) {
		return math.MaxInt64
	}
	quotient, _ := bits.Div64(w.high, w.low, uint64(n))
	return int64(min(quotient, math.MaxInt64))
}
