// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package drbd

// What tests hold against the transcripts.
var (
	ParseCommands = parseCommands
	Review        = review
	ErrorOf       = kernelError
	ForTheKernel  = inUse
)
