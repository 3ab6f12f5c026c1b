// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package crash holds the test that kills a controller at any moment under a mixed load, and
// finds every acknowledged write again after it has started by itself.
package crash
