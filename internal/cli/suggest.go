// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-storage/holdfast/client"
)

// suggest prints the name that was probably meant, after the controller did not find one that was given. It is a service: that
// it cannot be given is not an error.
func (s *session) suggest(ctx context.Context) {
	if len(s.missing) == 0 || s.form != text || s.app.linstor || ctx.Err() != nil {
		return
	}
	const patience = 2 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c, err := s.app.connect(nil)
	if err != nil {
		return
	}
	said := map[string]bool{}
	for _, code := range s.missing {
		names, err := namesOf(ctx, c, code)
		if err != nil {
			return
		}
		for _, arg := range s.args {
			if meant := nearest(arg, names); meant != "" && !said[meant] {
				said[meant] = true
				_ = s.write("  do:  did you mean " + printable(meant) + "?\n")
			}
		}
	}
}

// namesOf returns the names of the objects of the kind that a code says one of was not found.
func namesOf(ctx context.Context, c *client.Client, code client.RetCode) ([]string, error) {
	one := client.RcList{{RetCode: code}}
	switch {
	case one.Has(client.FailNotFoundNode):
		return nodeNames(ctx, c)
	case one.Has(client.FailNotFoundRscDfn), one.Has(client.FailNotFoundRsc):
		return definitionNames(ctx, c)
	case one.Has(client.FailNotFoundRscGrp):
		return groupNames(ctx, c)
	case one.Has(client.FailNotFoundStorPool), one.Has(client.FailNotFoundStorPoolDfn):
		return poolNames(ctx, c)
	default:
		return nil, nil
	}
}

func nodeNames(ctx context.Context, c *client.Client) ([]string, error) {
	all, err := c.Nodes(ctx, client.NodeFilter{})
	return namesIn(all, func(n client.Node) string { return n.Name }), err
}

func definitionNames(ctx context.Context, c *client.Client) ([]string, error) {
	all, err := c.ResourceDefinitions(ctx, client.ResourceDefinitionFilter{})
	return namesIn(all, func(d client.ResourceDefinition) string { return d.Name }), err
}

func groupNames(ctx context.Context, c *client.Client) ([]string, error) {
	all, err := c.ResourceGroups(ctx, client.ResourceGroupFilter{})
	return namesIn(all, func(g client.ResourceGroup) string { return g.Name }), err
}

func poolNames(ctx context.Context, c *client.Client) ([]string, error) {
	all, err := c.StoragePools(ctx, client.StoragePoolFilter{})
	names := namesIn(all, func(p client.StoragePool) string { return p.StoragePoolName })
	slices.Sort(names)
	return slices.Compact(names), err
}

func namesIn[T any](all []T, name func(T) string) []string {
	names := make([]string, len(all))
	for i, x := range all {
		names[i] = name(x)
	}
	return names
}

// nearest returns the name that is most like a mistyped word, or "" when the word is one of the names, or none is alike.
func nearest(word string, names []string) string {
	best, least := "", 1+max(1, len(word)/3)
	for _, name := range names {
		if strings.EqualFold(name, word) {
			return ""
		}
		if d := distance(strings.ToLower(word), strings.ToLower(name), least); d < least {
			best, least = name, d
		}
	}
	return best
}

// distance returns how many letters must be added, taken away, changed or swapped with the next to make b of a; most, when it
// is that or more.
func distance(a, b string, most int) int {
	if abs(len(a)-len(b)) >= most {
		return most
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return min(last[len(b)], most)
}

func abs(n int) int { return max(n, -n) }
