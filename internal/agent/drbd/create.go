// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package drbd

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/holdfast-storage/holdfast/internal/agent/drbd/metadata"
	"github.com/holdfast-storage/holdfast/internal/agent/pool"
)

// CreateMetadata makes new metadata on a backing device, with room for so many peers, and with that gives up all that DRBD knew of its data. It is only for a device
// that is NEW, as package pool understands it: nobody was told of it yet. What lies on it is not looked at, for a volume that is made from a
// snapshot has the metadata of its source on it. A device that anyone uses is a *pool.InUseError.
//
// The resource need not be configured yet.
func (d *DRBD) CreateMetadata(ctx context.Context, resource string, v Volume, peers int) error {
	what := fmt.Sprintf("make metadata for volume %d of resource %s", v.Number, resource)
	if err := metadata.CheckPeers(peers); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	device, where := v.Disk, "internal"
	if v.Meta != "" {
		device, where = v.Meta, "flex-external"
	}
	// drbdmeta would go on with a device that is in use: the force that answers its questions answers that one, too.
	for _, used := range []string{v.Disk, device} {
		holders, err := d.settings.Users(ctx, used)
		if err != nil {
			return fmt.Errorf("%s: who uses %s: %w", what, used, err)
		}
		if len(holders) > 0 {
			return &pool.InUseError{ID: pool.ID{Resource: resource, Volume: v.Number}, Holders: holders, Detail: "metadata is made on new devices alone"}
		}
	}
	minor := strconv.Itoa(v.Minor)
	if _, err := d.run(ctx, resource, what, "drbdmeta", "--force", minor, "v09", device, where, "create-md", strconv.Itoa(peers)); err != nil {
		return err
	}
	// Without a terminal drbdmeta can end well and have done nothing.
	out, err := d.run(ctx, resource, what, "drbdmeta", minor, "v09", device, where, "get-gi", "--node-id", "0")
	if err != nil {
		return err
	}
	if generation, _, _ := strings.Cut(strings.TrimSpace(string(out)), ":"); generation != justCreated {
		return &MetadataError{Device: device, Found: generation}
	}
	return nil
}
