// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package turn lets the callers of a driver take turns, and share what they would all do alike.
//
// With [Turns], one caller at a time works on a thing, and those that want several things at once never wait for each other in a circle. With a
// [Look], all who ask for the state of something get the answer of one program: one that was started after they asked.
package turn
