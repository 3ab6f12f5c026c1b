// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package dispatch_test

import (
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/schema"
)

// Whatever an agent says, it is answered, and no row goes that is not to be deleted.
func FuzzReport(f *testing.F) {
	c := newCluster(f, 2, 4)
	session := c.open(node(1)).GetSession()
	for _, req := range []*agentpb.ReportRequest{
		{},
		{Resources: []*agentpb.ResourceStatus{ready("vol-1", 9, 0, 1), gone("vol-1", 9), gone("VOL-2", 1), gone("", 0)}},
		{Resources: []*agentpb.ResourceStatus{{Name: "vol-1", State: 77, Failure: &agentpb.Failure{
			Reason: 77, NextTry: &timestamppb.Timestamp{Seconds: -1 << 62, Nanos: -5},
		}}}},
		{Pools: []*agentpb.PoolStatus{{Name: "Data", Free: new(int64(-1))}, {Name: "\x00", UnknownVolumes: []string{""}}}},
	} {
		raw, err := proto.Marshal(req)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	rows := schema.Resources.Len(c.store.Snapshot())
	f.Fuzz(func(t *testing.T, raw []byte) {
		req := new(agentpb.ReportRequest)
		if proto.Unmarshal(raw, req) != nil {
			t.Skip("not a message")
		}
		req.Node, req.Session = string(node(1)), session
		reply, err := c.server.Report(t.Context(), req)
		if err != nil || reply.GetUnknownSession() {
			t.Errorf("session unknown %v, %v", reply.GetUnknownSession(), err)
		}
		if n := schema.Resources.Len(c.store.Snapshot()); n != rows {
			t.Errorf("%d rows, there were %d", n, rows)
		}
		for done := false; !done; { // what the agent is told in return
			select {
			case <-c.took:
			default:
				done = true
			}
		}
	})
}
