// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package commandtest stands in for the host's programs in tests, by transcripts of what they really printed.
//
// A transcript is text, one call after the other:
//
//	# A comment.
//	$ lvs --reportformat json 'vg 0'
//	> what it printed to stdout, one line each
//	! what it printed to stderr
//	= 5
//
// The line with the dollar is the command, its arguments quoted as a shell would; the line with the exit code may be left out when that is
// 0. [Record] writes transcripts, [Replay] answers from them.
package commandtest
