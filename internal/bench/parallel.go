// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"fmt"
	"net/http"
)

// parallel measures many spawns with placement at the same moment, on four nodes.
func (b *bench) parallel(ctx context.Context, spawns int) error {
	const nodes = 4
	s, data, err := b.cluster(ctx, "parallel")
	if err != nil {
		return err
	}
	defer s.end()
	f, err := b.recruit(ctx, s, nodes)
	defer f.stop()
	if err != nil {
		return err
	}
	if err := s.create(ctx, "/v1/resource-groups", place); err != nil {
		return err
	}
	b.say("%d spawns with placement at once, 2 replicas each, on %d nodes\n", spawns, nodes)
	got, err := s.run(ctx, load{clients: spawns, count: spawns, want: http.StatusCreated, request: func(i int) (string, string, string) {
		return http.MethodPost, "/v1/resource-groups/bench/spawn", fmt.Sprintf(`{"resource_definition_name":"vol-%06d","volume_sizes":[1048576]}`, i)
	}})
	if err != nil {
		return err
	}
	b.say("  %-34s%s\n  %-34s%s\n", "all succeeded", got, "the last one answered after", short(got.took))
	f.stop()
	s.end()
	return b.check(ctx, data)
}
