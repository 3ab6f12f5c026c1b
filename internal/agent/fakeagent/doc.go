// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package fakeagent is the agent for tests of everything that talks to agents: it speaks the
// real protocol by the real code of package agent, and works on a host that exists in memory
// only.
//
//	a := &fakeagent.Agent{Node: "n1", Dial: dial}
//	go a.Run(ctx)
//
// A [Host] has every pool that is asked for, with room for Host.Capacity bytes. Tests make it
// fail, hang and be busy by its methods, and read what it holds. Volumes have a content, which
// is a text: snapshots, restores, clones and roll-backs carry it on, at once or, by HoldCopies,
// as slowly as the test wants. An [Agent] adds what tests do to the session: fall silent, drop
// it, read what was assigned.
//
// Zero values are ready for use, and all methods may be called at once.
package fakeagent
