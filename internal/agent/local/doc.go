// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package local is what an agent serves to users of its own host, over a socket: its pools on mounts, and holds on them. Only
// root may use it; the kernel says who connects.
//
// A hold of a running program belongs to the process that asks for it: it is released when that process ends, however it
// ends, also when the agent was restarted meanwhile.
//
// The protocol is HTTP with JSON:
//
//	GET    /pools                all pools on mounts
//	GET    /pools/{pool}         one of them
//	POST   /pools/{pool}/holds   acquire a hold; the answer comes when it is granted or refused
//	DELETE /holds?id=ID          release a hold
//	DELETE /pools/{pool}/mount   detach the mount from its place, in use or not; with reason=TEXT and the token=TOKEN of the pool
//	GET    /metrics              figures, for Prometheus
package local
