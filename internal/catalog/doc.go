// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package catalog keeps what volumes shall be: resource groups with their volume groups,
// resource definitions with their volume definitions, and the bags of keys that clients keep.
//
// Each exported method of Catalog is one use case: it checks its input, commits one
// transaction, and returns when that is durable. The exported functions on a transaction are
// the only way by which a definition or volume definition comes to be: every door that
// makes one (create, spawn, clone, restore) goes through them.
//
// Errors are *errs.Error. All methods may be called at the same time; parents and uniqueness
// are kept by the store.
package catalog
