// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"cmp"
	"context"
	"time"

	"github.com/holdfast-storage/holdfast/internal/catalog"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/passphrase"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// Hosts answers questions about hosts as they are now.
type Hosts interface {
	// Holders asks the node who uses the devices of a resource; none when nobody does.
	Holders(ctx context.Context, node model.NodeKey, resource model.DefinitionName) ([]string, error)
}

// Resources is the use cases of replicas.
type Resources struct {
	Store    *store.Store
	Observed *observed.State
	Hosts    Hosts
	Catalog  *catalog.Catalog
	Keys     *passphrase.Keyring // makes the keys of encrypted volumes; nil: none can be encrypted
	NewID    func() string       // makes a UUID
	Now      func() time.Time
	Patience time.Duration // how long a call waits for hosts; 0: two minutes
}

const defaultPatience = 2 * time.Minute

// settling returns the context in which a call waits for hosts. It outlives the caller, so
// that what a failed call has begun is also taken back when nobody listens any more.
func (s *Resources) settling(ctx context.Context) (context.Context, context.CancelFunc) {
	return s.patient(context.WithoutCancel(ctx))
}

// patient returns the context in which a call waits that has nothing to take back.
func (s *Resources) patient(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, cmp.Or(s.Patience, defaultPatience))
}
