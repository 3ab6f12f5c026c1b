// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"time"

	"github.com/holdfast-storage/holdfast/internal/store"
)

// Catalog is the use cases of groups, definitions and key-value stores.
type Catalog struct {
	Store *store.Store
	NewID func() string    // makes a UUID
	Now   func() time.Time // read outside transactions
}
