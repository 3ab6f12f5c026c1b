// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package placer_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/placer"
)

// square is n*n nodes, one for each pair of row and column, with a third property that is the sum of the two modulo n. When n is even, no n of them differ
// in all three: the sums of all rows, columns and third values would have to be equal modulo n, and are not. When n is odd, n of them do.
func square(n int) ([]placer.Node, []placer.Pool, placer.Request) {
	var nodes []placer.Node
	var pools []placer.Pool
	for row := range n {
		for column := range n {
			name := model.NodeName(fmt.Sprintf("n%02d-%02d", row, column))
			nodes = append(nodes, placer.Node{Name: name, Online: true, Layers: model.Layers(), Props: model.PropsOf(map[string]string{
				"Aux/row": fmt.Sprint(row), "Aux/column": fmt.Sprint(column), "Aux/third": fmt.Sprint((row + column) % n),
			})})
			pools = append(pools, placer.Pool{Node: name.Key(), Name: "pool", Provider: model.LVM, Space: placer.Space{Known: true, Total: 10, Free: 10}})
		}
	}
	return nodes, pools, placer.Request{Sizes: []int64{1}, Filter: model.Filter{
		PlaceCount: new(int32(n)), ReplicasOnDifferent: []string{"Aux/row", "Aux/column", "Aux/third"},
	}}
}

func TestCrossingRulesAreDecided(t *testing.T) {
	for n := 2; n <= 7; n++ {
		nodes, pools, req := square(n)
		plan, err := placer.Place(req, nodes, pools)
		if n%2 == 0 && !errs.Is(err, errs.NotEnough) || n%2 == 1 && (err != nil || len(plan.Picks) != n) {
			t.Errorf("%d of a square of %d: got %d picks, %v", n, n, len(plan.Picks), err)
		}
	}
}

func TestPlaceGivesUpOnlyWithAnHonestAnswer(t *testing.T) {
	nodes, pools, req := square(14)
	plan, err := placer.Place(req, nodes, pools)
	if !errs.Is(err, errs.Unsupported) || len(plan.Picks) > 0 || !strings.Contains(err.Error(), "could not be decided") {
		t.Errorf("got %d picks, %v", len(plan.Picks), err)
	}
}

func TestTwoCrossingRulesAreAlwaysDecided(t *testing.T) {
	const n = 24
	nodes, pools, req := square(n)
	req.Filter.ReplicasOnDifferent = []string{"Aux/row", "Aux/column"}
	// Half of the rows and one more have nodes only in half of the columns, which no rule shows alone.
	for i := range nodes {
		if row, column := i/n, i%n; row <= n/2 && column >= n/2 {
			nodes[i].Online = false
		}
	}
	plan, err := placer.Place(req, nodes, pools)
	if !errs.Is(err, errs.NotEnough) || len(plan.Picks) > 0 {
		t.Errorf("got %d picks, %v", len(plan.Picks), err)
	}
	req.Filter.PlaceCount = new(int32(n - 1))
	if plan, err := placer.Place(req, nodes, pools); err != nil || len(plan.Picks) != n-1 {
		t.Errorf("one less: got %d picks, %v", len(plan.Picks), err)
	}
}

func BenchmarkGiveUp(b *testing.B) {
	for _, n := range []int{6, 8, 10, 14} {
		nodes, pools, req := square(n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				if _, err := placer.Place(req, nodes, pools); err == nil {
					b.Fatal("placed")
				}
			}
		})
	}
}
