// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"errors"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/agent"
	"github.com/holdfast-storage/holdfast/internal/agent/device"
	"github.com/holdfast-storage/holdfast/internal/errs"
)

func TestTheAgentIsAnsweredWhatIsFree(t *testing.T) {
	h := &host{list: listing(disk("sda", tib, `,"model":"M","serial":"S","wwn":"W"`), disk("sdb", tib, ""))}
	var s agent.Devices = &device.Service{Finder: device.Finder{Run: h, Claim: h.claim}}
	got, err := s.List(t.Context())
	want := &agentpb.Device{Path: "/dev/sda", Size: tib, Rotational: true, Model: "M", Serial: "S", Wwn: "W"}
	if err != nil || len(got) != 2 || !proto.Equal(got[0], want) {
		t.Errorf("got %v, %v", got, err)
	}
	h.err = errors.New("no")
	if got, err := s.List(t.Context()); err == nil {
		t.Errorf("a host that cannot tell has %v", got)
	}
}

func TestABackendThatCannotBeMadeIsRefusedWithAReason(t *testing.T) {
	err := (&device.Service{}).CreateBackend(t.Context(), &agentpb.CreateBackend{Provider: "LVM", Name: "vg0", Devices: []string{"/dev/sda"}})
	if e := errs.As(err); e == nil || e.Kind != errs.Unsupported || e.Cause == "" || e.Correction == "" {
		t.Errorf("the error is %v", err)
	}
}
