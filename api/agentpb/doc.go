// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package agentpb is the protocol between the controller and the agents: agent.proto, which
// says what each message means, and the code generated from it by `make generate`.
package agentpb
