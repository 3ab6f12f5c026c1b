// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package fakeagent_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/agent/fakeagent"
	"github.com/holdfast-storage/holdfast/internal/agent/fakecontroller"
)

func TestZeroAgentServesWhatItIsAssigned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fakecontroller.Start()
		defer c.Stop()
		a := &fakeagent.Agent{Node: "n1", Dial: c.Dial}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- a.Run(ctx) }()
		s, err := c.Accept(ctx)
		if err != nil {
			t.Fatal(err)
		}
		err = s.Send(ctx, &agentpb.Assignments{
			Full: true, ResultsIn: "1",
			Pools:     []*agentpb.Pool{{Name: "pool", Provider: "FILE"}},
			Resources: []*agentpb.Resource{{Name: "r1", Generation: 7, Volumes: []*agentpb.Volume{{Pool: "pool", Size: 1 << 20}}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		n, err := c.Await(ctx, "n1", func(n fakecontroller.Node) bool {
			return n.Resources["r1"].GetState() == agentpb.ResourceStatus_READY && n.Pools["pool"].GetAllocated() == 1<<20
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := n.Resources["r1"].GetVolumes()[0].GetDevicePath(); got != "/dev/fake/r1/0" {
			t.Errorf("device path = %q", got)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
