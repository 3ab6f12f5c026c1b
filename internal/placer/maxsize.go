// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package placer

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
)

// MaxSize is the largest size of a single volume that Place would place under the request now, and that placement. It is exact in bytes, and never
// above model.MaxVolumeSize. The sizes of the request are not looked at. When not even the smallest volume can be placed, the error is that of Place.
func MaxSize(req Request, nodes []Node, pools []Pool) (int64, Plan, error) {
	req.Sizes = []int64{model.MinVolumeSize}
	t, err := prepare(&req, nodes, pools)
	if err != nil {
		return 0, Plan{}, err
	}
	need := t.want - t.have
	if need < 1 {
		return 0, Plan{}, errs.New(errs.Invalid, errs.Resource, "the largest volume is asked for no replica").
			About(errs.PlaceCount).Fix("give a place count above %d", t.have)
	}
	candidates := t.candidates()
	rank(candidates, t.weights())
	limits := limitsOf(candidates)
	// A larger size leaves fewer candidates, so the sizes that work come first.
	i := sort.Search(len(limits), func(i int) bool {
		chosen, _ := t.choose(atLeast(candidates, limits[i]), need)
		return chosen == nil
	})
	size := model.MinVolumeSize
	if i > 0 {
		size = limits[i-1]
	}
	req.Sizes = []int64{size}
	plan, err := Place(req, nodes, pools)
	if err != nil {
		return 0, plan, err
	}
	return size, plan, nil
}

// largest is the largest single volume that the pool can take.
func (p *Pool) largest() int64 {
	room, _ := p.Space.Room(p.Provider)
	if p.Granularity > 1 && room < math.MaxInt64 {
		room -= room % p.Granularity
	}
	return min(room, model.MaxVolumeSize)
}

// limitsOf is the sizes at which the number of candidates changes, smallest first.
func limitsOf(candidates []*candidate) []int64 {
	limits := make([]int64, len(candidates))
	for i, c := range candidates {
		limits[i] = c.pool.largest()
	}
	slices.SortFunc(limits, cmp.Compare[int64])
	return slices.Compact(limits)
}

func atLeast(candidates []*candidate, size int64) []*candidate {
	var list []*candidate
	for _, c := range candidates {
		if c.pool.largest() >= size {
			list = append(list, c)
		}
	}
	return list
}
