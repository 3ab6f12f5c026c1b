// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// alarmEvery is how often the volumes that nothing knows are looked at.
const alarmEvery = 10 * time.Second

// watchForLoss tells the log when hosts hold volumes that the database knows nothing of, as after the loss of a database or the
// restore of an old one, each time when there are others. Nothing is ever done about them.
func (k *Controller) watchForLoss(ctx context.Context) {
	tick := time.NewTicker(k.alarmEvery)
	defer tick.Stop()
	told := ""
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		const most = 20
		orphans := k.Inventory.Orphans()
		var names []string
		for i, o := range orphans {
			if i == most {
				names = append(names, "…")
				break
			}
			names = append(names, fmt.Sprintf("%s/%s/%s", o.Node, o.Pool, o.Volume))
		}
		now := fmt.Sprint(len(orphans), names)
		if len(orphans) > 0 && now != told {
			k.log.Error("hosts hold volumes that the database knows nothing of; was the database lost, or an old one restored? "+
				"They are left as they are: restore a backup, or look at `holdfast orphans list`", "count", len(orphans), "volumes", strings.Join(names, " "))
		}
		told = now
	}
}

// strangers tells the log of agents that have worked for a database before, and that this one does not know.
func strangers(st *store.Store, alarm func(node string)) grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
		return handle(srv, &greeted{stream, func(h *agentpb.Hello) {
			known := false
			for n := range schema.Nodes.All(st.Snapshot()) {
				if strings.EqualFold(string(n.Name), h.GetNode()) {
					known = true
					break
				}
			}
			if !known && h.GetAppliesTo() != "" {
				alarm(h.GetNode())
			}
		}})
	}
}

// greeted is a stream whose first message is looked at.
type greeted struct {
	grpc.ServerStream
	hello func(*agentpb.Hello)
}

func (g *greeted) RecvMsg(m any) error {
	err := g.ServerStream.RecvMsg(m)
	if h, ok := m.(*agentpb.Hello); ok && err == nil {
		g.hello(h)
	}
	return err
}

// alarmOfStranger logs an agent once per start.
func (k *Controller) alarmOfStranger(node string) {
	if _, before := k.strangers.LoadOrStore(node, true); before {
		return
	}
	k.log.Error("an agent that has worked for a database before is not known to this one; was the database lost, or an old one restored? "+
		"Its volumes are left as they are", "node", node)
}
