// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package authority

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-storage/holdfast/internal/identity"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/schema"
)

// Admit refuses a call of a service that is not from the agent of node, as the node is
// registered now.
func (a *Authority) Admit(ctx context.Context, node model.NodeKey) error {
	c, err := a.caller(ctx)
	if err != nil {
		return err
	}
	if c.node.Name.Key() != node {
		err = fmt.Errorf("it has the certificate of node %s, and may act as that node alone", c.node.Name)
	} else {
		err = a.current(c.node)
	}
	if err != nil {
		a.refusals.note(addressOf(ctx), err)
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seen[node] = c.expires
	return nil
}

// current refuses a certificate of a node that is not registered any more, or that somebody
// else has joined as since.
func (a *Authority) current(n identity.Node) error {
	view := a.cfg.Store.Snapshot()
	row, ok := schema.Nodes.Get(view, n.Name.Key())
	switch {
	case !ok:
		return fmt.Errorf("node %s is not registered any more; create it, and %s", n.Name, makeToken(string(n.Name)))
	case row.UUID != n.UUID:
		return fmt.Errorf("its certificate is of an earlier node of the name %s, which was deleted; %s", n.Name, makeToken(string(n.Name)))
	case n.Joins < membership(view, row).Joins:
		return fmt.Errorf("another host has joined as node %s since its certificate was made; if this is the right one, %s",
			n.Name, makeToken(string(n.Name)))
	}
	return nil
}

// Expiry is when a certificate stops being good.
type Expiry struct {
	Of   string        // authority, controller or node
	Node model.NodeKey // of a node's certificate
	At   time.Time
}

// Expiries lists when certificates stop being good: the authority's and the controller's own,
// and of each node the one that its agent has called with last since the controller started.
func (a *Authority) Expiries() []Expiry {
	list := []Expiry{{Of: "authority", At: a.certificate.NotAfter}}
	if c, err := a.serverCertificate(nil); err == nil {
		list = append(list, Expiry{Of: "controller", At: c.Leaf.NotAfter})
	}
	view := a.cfg.Store.Snapshot()
	a.mu.Lock()
	defer a.mu.Unlock()
	for node, at := range a.seen {
		if _, ok := schema.Nodes.Get(view, node); !ok {
			delete(a.seen, node)
			continue
		}
		list = append(list, Expiry{Of: "node", Node: node, At: at})
	}
	slices.SortFunc(list, func(x, y Expiry) int { return cmp.Or(cmp.Compare(x.Of, y.Of), cmp.Compare(x.Node, y.Node)) })
	return list
}

// refusals logs who is refused and why. Agents try again for ever: the same about the same
// host is logged once in a while only.
type refusals struct {
	log *slog.Logger
	now func() time.Time

	mu   sync.Mutex
	last map[string]time.Time // by host and text
}

func (r *refusals) note(from net.Addr, why error) {
	const (
		pause = 10 * time.Minute
		most  = 1000
	)
	host, _, err := net.SplitHostPort(from.String())
	if err != nil {
		host = from.String()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now, key := r.now(), host+" "+why.Error()
	if at, ok := r.last[key]; ok && now.Sub(at) < pause {
		return
	}
	if r.last == nil || len(r.last) >= most {
		r.last = make(map[string]time.Time)
	}
	r.last[key] = now
	r.log.Warn("an agent is refused", "host", host, "reason", why)
}
