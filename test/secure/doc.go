// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package secure is tests of a whole cluster whose agents speak mutual TLS: hosts join, act as
// themselves alone, and keep their sessions while certificates are renewed and replaced.
package secure
