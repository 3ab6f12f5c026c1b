// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package placer

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/internal/model"
)

// causes tells what is behind a plan that could not be made, besides the rejections: names that nobody has, and rules that candidates cannot meet together.
func (t *task) causes(candidates []*candidate, need int) []string {
	var causes []string
	known := map[model.PoolKey]bool{}
	for i := range t.pools {
		known[t.pools[i].Name.Key()] = true
	}
	causes = append(causes, unknown("pool", t.rules.pools, func(k model.PoolKey) bool { return known[k] })...)
	causes = append(causes, unknown("node", t.rules.nodes, func(k model.NodeKey) bool { return t.nodes[k] != nil })...)
	nodes := map[*node]bool{}
	for _, c := range candidates {
		nodes[c.node] = true
	}
	if len(nodes) == 0 && len(t.rejected) > 0 {
		return append(causes, "no node can take a replica: "+Summarize(t.rejected))
	}
	if len(nodes) < need {
		return append(causes, fmt.Sprintf("%s can take a replica", count(len(nodes), "node")))
	}
	for _, l := range t.rules.limits {
		if places := l.places(nodes); places < need {
			causes = append(causes, fmt.Sprintf("at most %s may lie on nodes of the same %s, which leaves %s on the nodes that can take one",
				count(l.most, "replica"), l.key, count(places, "replica")))
		}
	}
	if len(causes) == 0 {
		causes = append(causes, fmt.Sprintf("%s can take a replica, but not so many together%s", count(len(nodes), "node"), t.together()))
	}
	return causes
}

// together names the rules that tie replicas to each other.
func (t *task) together() string {
	var rules []string
	if len(t.rules.common) > 0 {
		rules = append(rules, "the same "+strings.Join(t.rules.common, ", "))
	}
	for _, l := range t.rules.limits {
		rules = append(rules, fmt.Sprintf("at most %d to a value of %s", l.most, l.key))
	}
	rules = append(rules, "one replica to a shared space", "no mixing of providers")
	return ": " + strings.Join(rules, ", ")
}

// places is how many more replicas the rule permits on some nodes.
func (l *limit) places(nodes map[*node]bool) int {
	places, byValue := 0, map[string]int{}
	for n := range nodes {
		if value, ok := n.Props.Get(l.key); ok {
			byValue[value]++
		} else {
			places++
		}
	}
	for value, n := range byValue {
		places += min(n, max(0, l.most-l.used[value]))
	}
	return places
}

func unknown[K ~string](noun string, listed map[K]bool, known func(K) bool) []string {
	var texts []string
	for _, key := range slices.Sorted(maps.Keys(listed)) {
		if !known(key) {
			texts = append(texts, fmt.Sprintf("no %s is named %q", noun, key))
		}
	}
	return texts
}

// count writes a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
