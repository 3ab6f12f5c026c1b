// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package schema declares every collection of the store in one place: the rows, their keys,
// their parents, their unique values and the sums that are derived from them.
//
// The edges, child to parent:
//
//	net interface, pool           -> node
//	volume group                  -> group
//	definition                    -> group
//	volume definition             -> definition
//	resource                      -> definition, node
//	resource's volumes            -> volume definition, pool; while they are made from one or
//	                                 rolled back to one: snapshot replica, snapshot
//	snapshot                      -> definition
//	snapshot replica              -> snapshot, node
//	snapshot replica's volumes    -> pool
//	node connection               -> both nodes
//	resource connection           -> both resources
//
// The store refuses a child whose parent is missing or closing, and the deletion of a parent
// that has children, in the commit itself. A use case that cascades deletes the children
// first, in the same transaction. Change the list above when an edge changes.
//
// Each collection has one writer, named at its row type.
package schema
