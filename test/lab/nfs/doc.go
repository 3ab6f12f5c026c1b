// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package nfs tests mounts of NFS exports that are not what a pool needs: read-only, full, stale, or another file system than before. The
// lab runs it beside a server on the same machine, whose folders the tests change behind the back of the client.
package nfs
