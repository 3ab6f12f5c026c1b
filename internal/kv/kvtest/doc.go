// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package kvtest has what tests of and on engines need: the conformance suite [TestEngine], which every engine passes, and
// [Memory], an engine that can be held at each step, made to fail, crashed, and owned twice.
package kvtest
