// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package inventory keeps what the cluster is made of: nodes, their network interfaces and
// storage pools, and the settings of the whole cluster.
//
// Each method is one use case: it checks its input, commits one transaction, and returns when
// that is durable. Errors are *errs.Error. Notices tell what else the caller should know.
// All methods may be called at the same time; parents and uniqueness are kept by the store.
package inventory
