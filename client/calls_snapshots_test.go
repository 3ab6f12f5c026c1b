// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"

	"github.com/holdfast-storage/holdfast/client"
)

func snapshotCalls() []call {
	rc := func(_ client.RcList, err error) error { return err }
	return []call{
		{"AllSnapshots", func(ctx context.Context, c *client.Client) error {
			_, err := c.AllSnapshots(ctx, client.SnapshotFilter{Nodes: []string{"a", "b"}, Resources: []string{"r"}})
			return err
		}, "GET /v1/view/snapshots?nodes=a&nodes=b&resources=r ", "[]"},
		{"Snapshots", func(ctx context.Context, c *client.Client) error { _, err := c.Snapshots(ctx, "r"); return err }, "GET /v1/resource-definitions/r/snapshots ", "[]"},
		{"Snapshot", func(ctx context.Context, c *client.Client) error { _, err := c.Snapshot(ctx, "r", "s"); return err }, "GET /v1/resource-definitions/r/snapshots/s ", "{}"},
		{"CreateSnapshot", func(ctx context.Context, c *client.Client) error {
			return rc(c.CreateSnapshot(ctx, "r", client.SnapshotCreate{Name: "s", Nodes: []string{"n"}}))
		}, `POST /v1/resource-definitions/r/snapshots {"name":"s","nodes":["n"]}`, "[]"},
		{"CreateSnapshots", func(ctx context.Context, c *client.Client) error {
			return rc(c.CreateSnapshots(ctx, []client.SnapshotCreate{{Name: "s", ResourceName: "r"}}))
		}, `POST /v1/actions/snapshot/multi {"snapshots":[{"name":"s","resource_name":"r"}]}`, "[]"},
		{"ModifySnapshot", func(ctx context.Context, c *client.Client) error {
			return rc(c.ModifySnapshot(ctx, "r", "s", client.SnapshotModify{PropsModify: client.PropsModify{DeleteProps: []string{"Aux/a"}}}))
		}, `PUT /v1/resource-definitions/r/snapshots/s {"delete_props":["Aux/a"]}`, "[]"},
		{"DeleteSnapshot", func(ctx context.Context, c *client.Client) error {
			return rc(c.DeleteSnapshot(ctx, "r", "s", "a", "b"))
		}, "DELETE /v1/resource-definitions/r/snapshots/s?nodes=a&nodes=b ", "[]"},
		{"RestoreVolumeDefinitions", func(ctx context.Context, c *client.Client) error {
			return rc(c.RestoreVolumeDefinitions(ctx, "r", "s", client.SnapshotRestore{ToResource: "t"}))
		}, `POST /v1/resource-definitions/r/snapshot-restore-volume-definition/s {"to_resource":"t"}`, "[]"},
		{"RestoreResource", func(ctx context.Context, c *client.Client) error {
			return rc(c.RestoreResource(ctx, "r", "s", client.SnapshotRestore{ToResource: "t", Nodes: []string{"n"}}))
		}, `POST /v1/resource-definitions/r/snapshot-restore-resource/s {"to_resource":"t","nodes":["n"]}`, "[]"},
		{"RollBack", func(ctx context.Context, c *client.Client) error { return rc(c.RollBack(ctx, "r", "s")) }, "POST /v1/resource-definitions/r/snapshot-rollback/s ", "[]"},
		{"Clone", func(ctx context.Context, c *client.Client) error {
			_, err := c.Clone(ctx, "r", client.CloneRequest{Name: "c", ResourceGroup: "g"})
			return err
		}, `POST /v1/resource-definitions/r/clone {"name":"c","resource_group":"g"}`, "{}"},
		{"CloneStatus", func(ctx context.Context, c *client.Client) error { _, err := c.CloneStatus(ctx, "r", "c"); return err }, "GET /v1/resource-definitions/r/clone/c ", "{}"},
		{"ToggleDisk", func(ctx context.Context, c *client.Client) error {
			return rc(c.ToggleDisk(ctx, "r", "n", client.ToggleDiskRequest{Operation: client.ToggleIntoDiskful, MigrateFrom: "m"}))
		}, `PUT /v1/resource-definitions/r/resources/n/toggle-disk {"operation":"INTO_DRBD_DISKFUL","migrate_from":"m"}`, "[]"},
		{"ActivateResource", func(ctx context.Context, c *client.Client) error { return rc(c.ActivateResource(ctx, "r", "n")) }, "POST /v1/resource-definitions/r/resources/n/activate ", "[]"},
		{"DeactivateResource", func(ctx context.Context, c *client.Client) error { return rc(c.DeactivateResource(ctx, "r", "n")) }, "POST /v1/resource-definitions/r/resources/n/deactivate ", "[]"},
	}
}
