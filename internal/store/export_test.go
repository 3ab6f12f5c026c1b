// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package store

// MaxQueue is how many updates may wait.
const MaxQueue = maxQueue
