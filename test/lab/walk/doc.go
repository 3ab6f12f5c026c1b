// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package walk runs the console blocks of a page of the documentation on two hosts that are joined in one cluster, as the page's reader would, and compares
// what each command prints with what the page shows. The lab runs it in two machines: the second one does what the first one tells it.
//
// A command begins with the host that it is for: "host1# " or "host2# ".
package walk
