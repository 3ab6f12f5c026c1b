// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-storage/holdfast/api/agentpb"
)

// Pool is a pool on a mount, as this host has it.
type Pool struct {
	Name      string    `json:"pool"`
	Source    string    `json:"source"`
	Target    string    `json:"target"`
	State     string    `json:"state"`
	Options   string    `json:"options,omitempty"`
	Identity  string    `json:"identity,omitempty"`
	Holds     []Hold    `json:"holds"`
	Blockers  []string  `json:"blockers,omitempty"`
	LastError string    `json:"last_error,omitempty"`
	NextTry   time.Time `json:"next_try,omitzero"`
	Token     string    `json:"token,omitempty"` // Of what is mounted now: who wants it detached says it, so that nothing else is hit. Of a single pool alone.
}

// Hold is one user's claim on a pool.
type Hold struct {
	ID       string    `json:"id"`
	Kind     string    `json:"kind"`
	Holder   string    `json:"holder"`
	ReadOnly bool      `json:"read_only,omitempty"`
	Subpath  string    `json:"subpath,omitempty"`
	Created  time.Time `json:"created,omitzero"`
	Waiting  bool      `json:"waiting,omitempty"`
	Derived  bool      `json:"derived,omitempty"`
	Broken   string    `json:"broken,omitempty"`
	Orphan   time.Time `json:"orphan,omitzero"`
}

// Request asks for a hold.
type Request struct {
	ID       string `json:"id"`
	Holder   string `json:"holder"`
	ReadOnly bool   `json:"read_only,omitempty"`
	Process  bool   `json:"process,omitempty"` // It is the caller's process that holds, as long as it lives. Else an operator does, until he releases it.
}

// Granted is the answer to a request.
type Granted struct {
	ID   string `json:"id"`
	Path string `json:"path"` // The folder of the pool.
}

// Released is what became of a mount after a hold was released.
type Released struct {
	Outcome string `json:"outcome"` // In words.
	Gone    bool   `json:"gone"`    // It is not mounted any more.
	Anomaly bool   `json:"anomaly"` // There was no such hold.
}

// failure is the answer to a request that could not be fulfilled.
type failure struct {
	Error string `json:"error"`
}

func poolOf(m *agentpb.HeldPool) Pool {
	p := Pool{
		Name: m.GetPool(), Source: m.GetSource(), Target: m.GetTarget(), State: m.GetState(), Options: m.GetOptions(), Identity: m.GetIdentity(),
		Holds: []Hold{}, Blockers: m.GetBlockers(), LastError: m.GetLastError(), NextTry: timeOf(m.GetNextTry()),
	}
	for _, h := range m.GetHolds() {
		p.Holds = append(p.Holds, Hold{
			ID: h.GetId(), Kind: h.GetKind(), Holder: h.GetHolder(), ReadOnly: h.GetReadOnly(), Subpath: h.GetSubpath(), Created: timeOf(h.GetCreated()),
			Waiting: h.GetWaiting(), Derived: h.GetDerived(), Broken: h.GetBroken(), Orphan: timeOf(h.GetOrphan()),
		})
	}
	return p
}

func timeOf(t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.AsTime()
}
