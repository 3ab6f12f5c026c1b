// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-storage/holdfast/client"
	"github.com/holdfast-storage/holdfast/test/cluster"
)

// BenchmarkNodeList measures the whole program, from its start to its end.
func BenchmarkNodeList(b *testing.B) {
	c := cluster.Start(b, cluster.Options{Nodes: 3})
	measure(b, c.URL, "node", "list")
}

// BenchmarkResourceListOfTenThousand measures a list of 10,000 replicas, as a table.
func BenchmarkResourceListOfTenThousand(b *testing.B) {
	const definitions, atOnce = 5000, 16
	c := cluster.Start(b, cluster.Options{Nodes: 3})
	api, err := client.New([]string{c.URL})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := api.CreateResourceGroup(b.Context(), client.ResourceGroupCreate{
		Name: "many", SelectFilter: &client.AutoSelectFilter{PlaceCount: new(client.Int32(2))},
	}); err != nil {
		b.Fatal(err)
	}
	var spawning errgroup.Group
	spawning.SetLimit(atOnce)
	for i := range definitions {
		spawning.Go(func() error {
			_, err := api.Spawn(b.Context(), "many", client.ResourceGroupSpawn{
				ResourceDefinitionName: fmt.Sprintf("volume-%05d", i), VolumeSizes: []client.SizeKiB{1 << 10},
			})
			return err
		})
	}
	if err := spawning.Wait(); err != nil {
		b.Fatal(err)
	}
	if lines := measure(b, c.URL, "resource", "list"); lines < 2*definitions {
		b.Errorf("listed %d lines", lines)
	}
}

// measure runs the program again and again, and returns how many lines it printed last.
func measure(b *testing.B, controller string, args ...string) int {
	b.Helper()
	dir, err := program()
	if err != nil {
		b.Fatal(err)
	}
	lines := 0
	for b.Loop() {
		c := exec.Command(filepath.Join(dir, "holdfast"), args...)
		c.Env = []string{"LS_CONTROLLERS=" + controller, "LANG=C.UTF-8"}
		out, err := c.Output()
		if err != nil {
			b.Fatal(err)
		}
		lines = strings.Count(string(out), "\n")
	}
	return lines
}
