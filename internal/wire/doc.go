// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package wire holds the JSON bodies and the return codes of the LINSTOR REST API, version 1.
//
// It is a vocabulary, not a model: it parses and prints, and decides nothing. The REST server turns these types into
// domain values and back; the client and the command line print them. Nothing below the server knows them.
//
// # Responses
//
// A response never contains null: the Python client looks fields up with a default, and a null defeats the default.
// Numbers and booleans that clients index are always present, also when zero or false (volume_number 0, connected
// false). Strings, lists, maps and optional values are left out when empty. An optional number is a pointer, and nil
// means "not known": capacities of a pool whose node is silent are left out, never sent as zero. Use [Encode], which
// also prints a nil list as [] and a nil map as {}.
//
// # Requests
//
// Request types are named for what they ask: NodeCreate, NodeModify, ResourceGroupSpawn. They tell an absent field from
// an empty one: numbers and booleans are pointers, and a list is nil when absent and non-nil when it was sent empty,
// which matters for select filters, where an empty list overrides the group's. Numbers are also accepted as strings of
// digits ([Int32], [Int64]), because older clients send "place_count": "2". Sizes are not ([SizeKiB]): they are whole
// JSON numbers and nothing else. Use [Decode], which bounds size and depth and names the offending field.
//
// # Units
//
// This is the only package that knows KiB. Every size of the API is in KiB, but for those of physical devices, which are
// in bytes. [SizeKiB.Bytes], [RoundUp] and [RoundDown] convert.
//
// All types are plain data: values may be copied and read by several goroutines, and nothing here keeps state.
package wire
