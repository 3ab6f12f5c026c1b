// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"context"
	"net/netip"
	"strings"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/props"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// NewNode is a node to register.
type NewNode struct {
	Name       string
	Type       string // empty: Satellite
	Props      map[string]string
	Interfaces []NewInterface // at least one
}

// CreateNode registers a node. Its agent may connect from then on. The node gets the pool
// for replicas without storage, as every node.
func (v *Inventory) CreateNode(ctx context.Context, n NewNode) (schema.Node, error) {
	node, interfaces, err := v.parseNode(n)
	if err != nil {
		return schema.Node{}, err
	}
	pool := schema.Pool{
		Node: node.Name.Key(), Name: schema.DisklessPool, UUID: v.NewID(), Provider: model.Diskless,
	}
	_, err = schema.Update(ctx, v.Store, func(tx *store.Tx) error {
		if err := schema.Nodes.Insert(tx, node); err != nil {
			return err
		}
		for _, i := range interfaces {
			if err := schema.NetInterfaces.Insert(tx, i); err != nil {
				return err
			}
		}
		return schema.Pools.Insert(tx, pool)
	})
	return node, err
}

func (v *Inventory) parseNode(n NewNode) (schema.Node, []schema.NetInterface, error) {
	var none schema.Node
	name, err := model.ParseNodeName(n.Name)
	if err != nil {
		return none, nil, err
	}
	typ, err := model.ParseNodeType(n.Type)
	if err != nil {
		return none, nil, err
	}
	properties, err := props.New(props.Node, n.Props)
	if err != nil {
		return none, nil, err
	}
	if len(n.Interfaces) == 0 {
		return none, nil, errs.New(errs.Invalid, errs.Node, "node %s has no network interface", name).
			About(errs.Address).Fix("name at least one interface with its IP address")
	}
	active := 0
	interfaces := make([]schema.NetInterface, 0, len(n.Interfaces))
	for i, in := range n.Interfaces {
		iface, err := v.parseInterface(name.Key(), in)
		if err != nil {
			return none, nil, err
		}
		if in.Active {
			active = i
		}
		iface.Active = false
		interfaces = append(interfaces, iface)
	}
	interfaces[active].Active = true
	return schema.Node{Name: name, UUID: v.NewID(), Type: typ, Props: properties}, interfaces, nil
}

// NodeChange is an edit of a node. A nil Type stays.
type NodeChange struct {
	Type  *string
	Props model.PropsChange
}

// ModifyNode changes the type and properties of a node. A node with replicas cannot become one
// that runs no agent.
func (v *Inventory) ModifyNode(ctx context.Context, name string, c NodeChange) ([]errs.Notice, error) {
	var typ model.NodeType
	if c.Type != nil {
		t, err := model.ParseNodeType(*c.Type)
		if err != nil {
			return nil, err
		}
		typ = t
	}
	if err := props.Accept(props.Node, &c.Props); err != nil {
		return nil, err
	}
	var notices []errs.Notice
	_, err := schema.Update(ctx, v.Store, func(tx *store.Tx) error {
		n, err := schema.FindNode(tx, name)
		if err != nil {
			return err
		}
		if typ != "" {
			if err := becomes(tx, n, typ); err != nil {
				return err
			}
			n.Type = typ
		}
		notices = schema.PropNotices(n.Props, c.Props, errs.Node)
		n.Props = n.Props.Change(c.Props)
		return schema.Nodes.Update(tx, n)
	})
	return notices, err
}

// becomes refuses a node that holds something as one that runs no agent.
func becomes(tx *store.Tx, n schema.Node, typ model.NodeType) error {
	if typ.RunsAgent() {
		return nil
	}
	refused := errs.New(errs.HasChildren, errs.Node, "node %s cannot become a node of the type %s", n.Name, typ)
	if schema.ResourcesByNode.Has(tx, n.Name.Key()) {
		return refused.Because("replicas lie on it, and no agent is expected on such a node").Fix("move them away first: node evacuate %s", n.Name)
	}
	for p := range schema.PoolsOf(tx, n.Name.Key()) {
		if p.Provider != model.Diskless {
			return refused.Because("it has the storage pool %s, and no agent is expected on such a node", p.Name).
				Fix("delete its pools first: storage-pool delete %s %s", n.Name, p.Name)
		}
	}
	return nil
}

// DeleteNode forgets a node without replicas and snapshots, with its interfaces, its
// connections and its pools. Nothing on the host is touched.
func (v *Inventory) DeleteNode(ctx context.Context, name string) error {
	id, now := v.NewID(), v.now()
	var job schema.Job
	_, err := schema.Update(ctx, v.Store, func(tx *store.Tx) error {
		job = schema.Job{}
		n, err := schema.FindNode(tx, name)
		if err != nil {
			return err
		}
		key := n.Name.Key()
		if err := unneeded(tx, n); err != nil {
			return err
		}
		rows := deletionsOf(tx, key)
		const most = 90 // rows in one transaction
		if len(rows) > most || n.Deleting {
			job, err = schema.BeginLosing(tx, n, id, now)
			return err
		}
		for _, remove := range rows {
			if err := remove(tx); err != nil {
				return err
			}
		}
		if err := schema.CancelJob(tx, schema.JobTarget{Kind: schema.EvacuateNode, Object: string(key)}, now); err != nil {
			return err
		}
		return schema.Nodes.Delete(tx, key)
	})
	if err != nil || job.ID == "" {
		return err
	}
	if now, ok := schema.AwaitJob(ctx, v.Store, job.ID); ok && now.State == schema.JobRunning {
		return errs.New(errs.TimedOut, errs.Node, "node %s is still being deleted", name).
			Because("it has very many pools and connections, and its deletion was not waited for to the end").Fix("it goes on; look again later")
	}
	return nil
}

// unneeded refuses a node that replicas or snapshots lie on.
func unneeded(r store.Reader, n schema.Node) error {
	const named = 5 // of them
	var names []string
	add := func(d model.DefinitionKey, what string) {
		if len(names) < named {
			names = append(names, what+string(schema.NameOfDefinition(r, d)))
		}
	}
	for x := range schema.ResourcesByNode.Get(r, n.Name.Key()) {
		add(x.Definition, "resource ")
	}
	for x := range schema.SnapshotReplicasByNode.Get(r, n.Name.Key()) {
		add(x.Definition, "a snapshot of ")
	}
	if len(names) == 0 {
		return nil
	}
	count := schema.ResourcesByNode.Len(r, n.Name.Key()) + schema.SnapshotReplicasByNode.Len(r, n.Name.Key())
	if count > len(names) {
		names = append(names, "...")
	}
	return errs.New(errs.HasChildren, errs.Node, "node %s cannot be deleted", n.Name).
		Because("%d replicas and snapshots lie on it: %s", count, strings.Join(names, ", ")).
		Fix("delete them, or move them away: node evacuate %s; a node that will not come back: node lost %s", n.Name, n.Name)
}

// deletionsOf lists what removes all that a node has, but for replicas and snapshots.
func deletionsOf(r store.Reader, key model.NodeKey) []func(*store.Tx) error {
	var rows []func(*store.Tx) error
	for i := range schema.InterfacesOf(r, key) {
		id := model.InterfaceID{Node: key, Interface: i.Name.Key()}
		rows = append(rows, func(tx *store.Tx) error { return schema.NetInterfaces.Delete(tx, id) })
	}
	for c := range schema.NodeConnectionsByNode.Get(r, key) {
		rows = append(rows, func(tx *store.Tx) error { return schema.NodeConnections.Delete(tx, c.Pair) })
	}
	for p := range schema.PoolsOf(r, key) {
		id := model.PoolID{Node: key, Pool: p.Name.Key()}
		rows = append(rows, func(tx *store.Tx) error { return schema.Pools.Delete(tx, id) })
	}
	return rows
}

// NewInterface is a network interface to add to a node.
type NewInterface struct {
	Name       string
	Address    string // a literal IP address
	Port       int32  // 0: the default port of the encryption
	Encryption string // PLAIN or SSL; empty: PLAIN
	Active     bool   // the one that agents are expected on; the first of a node always is, unless another says so
}

// The ports that LINSTOR's satellites have by default; clients show them.
const (
	defaultPlainPort int32 = 3366
	defaultSSLPort   int32 = 3367
)

func (v *Inventory) parseInterface(node model.NodeKey, n NewInterface) (schema.NetInterface, error) {
	var none schema.NetInterface
	name, err := model.ParseInterfaceName(n.Name)
	if err != nil {
		return none, err
	}
	addr, err := netip.ParseAddr(n.Address)
	if err != nil {
		return none, errs.New(errs.Invalid, errs.NetInterface, "the address %q of interface %s is not valid", n.Address, name).
			About(errs.Address).Because("it is not a literal IP address").Fix("give an IPv4 or IPv6 address, not a host name")
	}
	encryption, port := n.Encryption, n.Port
	switch encryption {
	case "", "PLAIN":
		encryption = "PLAIN"
		if port == 0 {
			port = defaultPlainPort
		}
	case "SSL":
		if port == 0 {
			port = defaultSSLPort
		}
	default:
		return none, errs.New(errs.Invalid, errs.NetInterface, "the encryption %q of interface %s is not known", encryption, name).
			About(errs.EncryptionType).Fix("use PLAIN or SSL")
	}
	if port < 1 || port > 65535 {
		return none, errs.New(errs.Invalid, errs.NetInterface, "the port %d of interface %s is not valid", port, name).
			About(errs.Port).Fix("use a port from 1 to 65535")
	}
	return schema.NetInterface{
		Node: node, Name: name, UUID: v.NewID(), Address: addr.String(), Port: port, Encryption: encryption, Active: n.Active,
	}, nil
}
