// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast-storage/holdfast/internal/command"
)

// devices measures the time from a request to a usable device with a filesystem, beside that
// of the bare commands which make one, on the same disk.
func (b *bench) devices(ctx context.Context) error {
	dir, err := b.folder("devices")
	if err != nil {
		return err
	}
	s, err := b.start(ctx, "up", "--log-level", "warn", "--listen", "ADDR", "--agent-listen", "AGENTS", "--data", dir, "--node", "bench-node")
	if err != nil {
		return err
	}
	defer s.end()
	// The node makes its pool known by itself.
	if err := s.until(ctx, func(ctx context.Context) (bool, error) {
		_, code, err := call(ctx, http.DefaultClient, http.MethodGet, s.url+"/v1/nodes/bench-node/storage-pools/DfltStorPool", "")
		return code == http.StatusOK, err
	}); err != nil {
		return fmt.Errorf("wait for the pool: %w", err)
	}
	for _, group := range []string{
		`{"name":"plain","select_filter":{"place_count":1,"layer_stack":["STORAGE"]}}`,
		`{"name":"ext4","props":{"FileSystem/Type":"ext4"},"select_filter":{"place_count":1,"layer_stack":["STORAGE"]}}`,
	} {
		if err := s.create(ctx, "/v1/resource-groups", group); err != nil {
			return err
		}
	}
	b.say("\nfrom request to device, 64 MiB on a thin file pool\n")
	for _, fs := range []string{"plain", "ext4"} {
		if err := b.device(ctx, s, dir, fs); err != nil {
			return err
		}
	}
	return b.copies(ctx, s)
}

func (b *bench) device(ctx context.Context, s *server, dir, group string) error {
	const rounds = 20
	made, err := s.run(ctx, load{clients: 1, count: rounds, want: http.StatusCreated, request: func(i int) (string, string, string) {
		return http.MethodPost, "/v1/resource-groups/" + group + "/spawn",
			fmt.Sprintf(`{"resource_definition_name":"%s-%d","volume_sizes":[65536]}`, group, i)
	}})
	if err != nil {
		return err
	}
	gone, err := s.run(ctx, load{clients: 1, count: rounds, want: http.StatusOK, request: func(i int) (string, string, string) {
		return http.MethodDelete, fmt.Sprintf("/v1/resource-definitions/%s-%d", group, i), ""
	}})
	if err != nil {
		return err
	}
	var create, remove []time.Duration
	for i := range rounds {
		c, r, err := b.byHand(ctx, filepath.Join(dir, fmt.Sprintf("by-hand-%d", i)), group == "ext4")
		if err != nil {
			return err
		}
		create, remove = append(create, c), append(remove, r)
	}
	for _, line := range []struct {
		what        string
		ours, hands time.Duration
	}{{"create", made.at(0.5), median(create)}, {"delete", gone.at(0.5), median(remove)}} {
		b.say("  %s, %-6s p50 %9s   bare commands %9s   ratio %.2f\n", line.what, group, short(line.ours), short(line.hands), ratio(line.ours, line.hands))
	}
	return nil
}

func ratio(a, b time.Duration) float64 { return a.Seconds() / b.Seconds() }

// byHand makes a device with the tools of the host and takes it away again.
func (b *bench) byHand(ctx context.Context, file string, ext4 bool) (create, remove time.Duration, err error) {
	began := time.Now()
	if _, err := b.tool(ctx, "truncate", "-s", "64M", file); err != nil {
		return 0, 0, err
	}
	defer os.Remove(file) //nolint:errcheck // below the scratch folder
	dev, err := b.tool(ctx, "losetup", "--find", "--show", "--direct-io=on", file)
	if err != nil {
		return 0, 0, err
	}
	if ext4 {
		if _, err := b.tool(ctx, "mkfs.ext4", "-q", dev); err != nil {
			return 0, 0, err
		}
	}
	if _, err := b.tool(ctx, "sync", dev); err != nil {
		return 0, 0, err
	}
	create = time.Since(began)
	began = time.Now()
	if _, err := b.tool(ctx, "losetup", "-d", dev); err != nil {
		return 0, 0, err
	}
	_, err = b.tool(ctx, "rm", file)
	return create, time.Since(began), err
}

func (b *bench) tool(ctx context.Context, program string, args ...string) (string, error) {
	r, err := b.runner.Run(ctx, command.Command{Program: program, Args: args})
	return strings.TrimSpace(string(r.Stdout)), err
}
