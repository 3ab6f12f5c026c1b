// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"net/http"
	"strconv"

	"github.com/holdfast-storage/holdfast/internal/wire"
)

// PassphraseStatus returns whether the cluster has a passphrase, and whether the controller knows it: unset, locked or
// unlocked.
func (c *Client) PassphraseStatus(ctx context.Context) (string, error) {
	s, err := get[wire.PassphraseStatus](ctx, c, path("encryption", "passphrase"), nil)
	return s.Status, err
}

// CreatePassphrase sets the passphrase of a cluster that has none. All keys of encrypted volumes are kept under it.
func (c *Client) CreatePassphrase(ctx context.Context, passphrase Secret) (RcList, error) {
	return c.change(ctx, http.MethodPost, path("encryption", "passphrase"), nil, wire.PassPhraseCreate{NewPassphrase: passphrase})
}

// EnterPassphrase unlocks a controller that was started anew.
func (c *Client) EnterPassphrase(ctx context.Context, passphrase Secret) (RcList, error) {
	return c.change(ctx, http.MethodPatch, path("encryption", "passphrase"), nil, passphrase)
}

// ModifyPassphrase changes the passphrase.
func (c *Client) ModifyPassphrase(ctx context.Context, before, after Secret) (RcList, error) {
	return c.change(ctx, http.MethodPut, path("encryption", "passphrase"), nil, wire.PassPhraseCreate{NewPassphrase: after, OldPassphrase: before})
}

// ModifyVolumePassphrase changes the passphrase of one encrypted volume.
func (c *Client) ModifyVolumePassphrase(ctx context.Context, resource string, volume int, passphrase Secret) (RcList, error) {
	return c.change(ctx, http.MethodPut, path("resource-definitions", resource, "volume-definitions", strconv.Itoa(volume), "encryption-passphrase"),
		nil, wire.VolumeDefinitionModifyPassphrase{NewPassphrase: passphrase})
}
