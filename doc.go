// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package holdfast is the root of the module. It holds no code: the program is in
// cmd/holdfast, ARCHITECTURE.md has the map. Its tests are the rules that the whole tree keeps.
package holdfast
