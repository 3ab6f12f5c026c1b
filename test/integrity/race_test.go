// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package integrity_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/holdfast-storage/holdfast/test/cluster"
)

// TestNoDoorLeavesAnOrphanInARaceOfRequests runs every pair as real requests that start
// together, and leaves the schedule to the machine.
func TestNoDoorLeavesAnOrphanInARaceOfRequests(t *testing.T) {
	t.Parallel()
	const rounds = 8
	for _, d := range doors() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			for _, x := range deletions() {
				if !x.concerns(d) {
					continue
				}
				for round := range rounds {
					c := cluster.Start(t, cluster.Options{Nodes: d.nodes()})
					s := prepare(t, c, fmt.Sprint(round), d, x)
					var made, gone answer
					start := make(chan struct{})
					var calls sync.WaitGroup
					calls.Go(func() { <-start; made = s.call(d.request) })
					calls.Go(func() { <-start; gone = s.call(x.request) })
					close(start)
					calls.Wait()
					s.judge(d, x, made, gone)
				}
			}
		})
	}
}

// TestTheSameRequestFromManyClientsAtOnceHasOneWinner creates one object by 32 clients.
func TestTheSameRequestFromManyClientsAtOnceHasOneWinner(t *testing.T) {
	const clients = 32
	for _, d := range doors() {
		if d.moves() {
			continue
		}
		t.Run(d.name, func(t *testing.T) {
			c := cluster.Start(t, cluster.Options{Nodes: d.nodes()})
			s := prepare(t, c, "1", d, deletion{})
			answers := make([]answer, clients)
			start := make(chan struct{})
			var calls sync.WaitGroup
			for i := range clients {
				calls.Go(func() { <-start; answers[i] = s.call(d.request) })
			}
			close(start)
			calls.Wait()
			winners := 0
			for _, a := range answers {
				if a.ok() {
					winners++
				}
			}
			switch {
			case d.name == "volume group": // each asks for the next free number
				if winners != clients {
					t.Errorf("%d of %d volume groups were made", winners, clients)
				}
			case d.idempotent():
				if winners != clients {
					t.Errorf("%d of %d calls were answered well: %+v", winners, clients, answers)
				}
			case winners != 1:
				t.Errorf("%d clients won: %+v", winners, answers)
			}
			if !s.exists(d.child) {
				t.Errorf("%s is not there", d.child)
			}
			s.Check()
		})
	}
}

// idempotent tells whether LINSTOR answers the call well when it has been made before: a
// replica that exists is as good as made.
func (d door) idempotent() bool {
	return d.name == "resource" || d.name == "resources at once" || d.name == "autoplace" ||
		d.name == "adjustment of a group" || d.name == "making available"
}
