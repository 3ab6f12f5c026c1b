// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package dispatch_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/dispatch"
	"github.com/holdfast-storage/holdfast/internal/kv/kvtest"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/observed"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// rig is a server over a store on the memory engine, reached over gRPC in memory. It belongs
// to one bubble of synctest, whose clock drives it.
type rig struct {
	*testing.T
	engine *kvtest.Memory
	store  *store.Store
	seen   *observed.State
	server *dispatch.Server
	conn   *grpc.ClientConn
	listen *bufconn.Listener

	stopServing context.CancelFunc
	served      chan error // the result of Run

	mu       sync.Mutex
	refusing error           // what Destroyed answers, instead of doing its work
	told     []dispatch.Gone // what Destroyed was told
}

// in runs a test with a rig in a bubble.
func in(t *testing.T, test func(r *rig), change ...func(*dispatch.Config)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { inBubble(t, test, change...) })
}

// inBubble runs a test with a rig, in the bubble of its caller.
func inBubble(t *testing.T, test func(r *rig), change ...func(*dispatch.Config)) {
	t.Helper()
	r := newRig(t, kvtest.NewMemory(), change...)
	r.write(func(tx *store.Tx) error {
		return errors.Join(
			schema.Groups.Insert(tx, schema.Group{Name: "Group"}),
			schema.Nodes.Insert(tx, schema.Node{Name: "Alpha", UUID: "1"}),
			schema.Nodes.Insert(tx, schema.Node{Name: "beta", UUID: "2"}),
			schema.Pools.Insert(tx, schema.Pool{Node: "alpha", Name: "Data", Provider: model.LVM, Props: model.PropsOf(map[string]string{"StorDriver/LvmVg": "vg"})}),
			schema.Pools.Insert(tx, schema.Pool{Node: "alpha", Name: "DfltDisklessStorPool", Provider: model.Diskless}),
			schema.Pools.Insert(tx, schema.Pool{Node: "beta", Name: "Data", Provider: model.FileThin}),
		)
	})
	test(r)
}

// newRig opens a store on the engine, and serves it until the test ends.
func newRig(t *testing.T, engine *kvtest.Memory, change ...func(*dispatch.Config)) *rig {
	t.Helper()
	st, err := store.Open(t.Context(), engine, schema.Collections(), store.Paranoid())
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{T: t, engine: engine, store: st, seen: observed.New(time.Now)}
	cfg := dispatch.Config{Store: st, Observed: r.seen, Destroyed: r.destroyed}
	for _, f := range change {
		f(&cfg)
	}
	r.server = dispatch.New(cfg)
	r.serve()
	r.listen = bufconn.Listen(1 << 16)
	transport := grpc.NewServer()
	agentpb.RegisterAgentServer(transport, r.server)
	go func() { _ = transport.Serve(r.listen) }()
	if r.conn, err = r.connect(""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.stopServing()
		for range r.served { // until it has ended
		}
		transport.Stop()
		_ = r.conn.Close()
		_ = st.Close()
	})
	return r
}

// connect makes a connection to the server, whatever the address.
func (r *rig) connect(string) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///rig", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return r.listen.DialContext(ctx) }))
}

// serve starts Run.
func (r *rig) serve() {
	ctx, stop := context.WithCancel(context.WithoutCancel(r.Context()))
	r.stopServing, r.served = stop, make(chan error, 1)
	served := r.served
	go func() {
		served <- r.server.Run(ctx)
		close(served)
	}()
	synctest.Wait()
}

// destroyed removes the rows of what is gone, as the use cases do.
func (r *rig) destroyed(ctx context.Context, _ model.NodeKey, gone []dispatch.Gone) error {
	r.mu.Lock()
	r.told = append(r.told, gone...)
	refusing := r.refusing
	r.mu.Unlock()
	if refusing != nil {
		return refusing
	}
	_, err := r.store.Update(ctx, func(tx *store.Tx) error { return remove(tx, gone) })
	return err
}

func remove(tx *store.Tx, gone []dispatch.Gone) error {
	for _, g := range gone {
		row, ok := schema.Resources.Get(tx, g.Resource)
		if !ok || uint64(schema.Resources.Revision(tx, g.Resource)) > g.Generation {
			continue
		}
		if row.Deleting {
			if err := schema.Resources.Delete(tx, g.Resource); err != nil {
				return err
			}
			continue
		}
		row.Volumes = slices.DeleteFunc(slices.Clone(row.Volumes), func(v schema.Volume) bool {
			return v.Deleting && slices.Contains(g.Volumes, v.Number)
		})
		if err := schema.Resources.Update(tx, row); err != nil {
			return err
		}
	}
	return nil
}

// refuse makes Destroyed answer an error, or nil to do its work again.
func (r *rig) refuse(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refusing = err
}

// write updates the store and returns the revision, when all that follows from it was done.
func (r *rig) write(fn func(*store.Tx) error) uint64 {
	r.Helper()
	rev, err := r.store.Update(r.Context(), fn)
	if err != nil {
		r.Fatal(err)
	}
	synctest.Wait()
	return uint64(rev)
}

// create makes a definition with one volume of 1 GiB and a replica on each of the nodes.
func (r *rig) create(name model.DefinitionName, nodes ...model.NodeKey) uint64 {
	r.Helper()
	return r.write(func(tx *store.Tx) error { return insert(tx, name, nodes...) })
}

func insert(tx *store.Tx, name model.DefinitionName, nodes ...model.NodeKey) error {
	err := errors.Join(
		schema.Definitions.Insert(tx, schema.Definition{Name: name, Group: "group"}),
		schema.VolumeDefinitions.Insert(tx, schema.VolumeDefinition{Definition: name.Key(), Size: 1 << 30}),
	)
	for _, n := range nodes {
		err = errors.Join(err, schema.Resources.Insert(tx, schema.Resource{
			Definition: name.Key(), Node: n, Kind: schema.Diskful,
			Volumes: []schema.Volume{{Pool: "data", Size: 1 << 30}},
		}))
	}
	return err
}

// change replaces a row by what f makes of it.
func change[K comparable, V any](r *rig, c *store.Collection[K, V], k K, f func(*V)) uint64 {
	r.Helper()
	return r.write(func(tx *store.Tx) error {
		row, ok := c.Get(tx, k)
		if !ok {
			return errors.New("no such row")
		}
		f(&row)
		return c.Update(tx, row)
	})
}

func (r *rig) delete(id model.ResourceID) uint64 {
	r.Helper()
	return change(r, schema.Resources, id, func(x *schema.Resource) { x.Deleting = true })
}

// has tells whether the row of a replica is there.
func (r *rig) has(id model.ResourceID) bool {
	_, ok := schema.Resources.Get(r.store.Snapshot(), id)
	return ok
}

// client is the far end of a session, driven by hand.
type client struct {
	r      *rig
	api    agentpb.AgentClient
	hello  *agentpb.Hello
	hangUp context.CancelFunc
	took   chan *agentpb.Assignments
	ended  chan error

	session, resultsIn string
}

// dial opens a session for a node.
func (r *rig) dial(node string, change ...func(*agentpb.Hello)) *client {
	r.Helper()
	hello := &agentpb.Hello{Node: node, Protocol: dispatch.Protocol, Instance: "first"}
	for _, f := range change {
		f(hello)
	}
	ctx, cancel := context.WithCancel(r.Context())
	r.Cleanup(cancel)
	c := &client{
		r: r, api: agentpb.NewAgentClient(r.conn), hello: hello, hangUp: cancel,
		took: make(chan *agentpb.Assignments, 1000), ended: make(chan error, 1),
	}
	stream, err := c.api.Session(ctx, hello)
	if err != nil {
		r.Fatal(err)
	}
	go func() {
		for {
			m, err := stream.Recv()
			if err != nil {
				c.ended <- err
				return
			}
			c.took <- m
		}
	}()
	synctest.Wait()
	return c
}

// join opens a session, and reports that the first message was taken over.
func (r *rig) join(node string, change ...func(*agentpb.Hello)) *client {
	r.Helper()
	c := r.dial(node, change...)
	c.next()
	c.report()
	return c
}

// next returns the next message, which must be there.
func (c *client) next() *agentpb.Assignments {
	c.r.Helper()
	synctest.Wait()
	select {
	case m := <-c.took:
		if !m.GetFull() && m.GetResultsIn() != "" && m.GetAppliesTo() != c.resultsIn && c.resultsIn != "" {
			c.r.Errorf("the message applies to %q, the one before resulted in %q", m.GetAppliesTo(), c.resultsIn)
		}
		c.session = m.GetSession()
		if m.GetResultsIn() != "" {
			c.resultsIn = m.GetResultsIn()
		}
		return m
	default:
	}
	select {
	case err := <-c.ended:
		c.r.Fatalf("no message: %v", err)
	default:
		c.r.Fatal("no message")
	}
	return nil
}

// quiet fails the test when there is a message.
func (c *client) quiet() {
	c.r.Helper()
	synctest.Wait()
	select {
	case m := <-c.took:
		c.r.Fatalf("unexpected message: %v", m)
	default:
	}
}

// end returns the code that the session ended with; OK when it has not ended.
func (c *client) end() codes.Code {
	synctest.Wait()
	select {
	case err := <-c.ended:
		return status.Code(err)
	default:
		return codes.OK
	}
}

// report tells the server of resources, and that the newest message was taken over.
func (c *client) report(resources ...*agentpb.ResourceStatus) {
	c.r.Helper()
	if unknown, err := c.tryReport(resources...); err != nil || unknown {
		c.r.Fatalf("report: session unknown %v, %v", unknown, err)
	}
	synctest.Wait()
}

func (c *client) tryReport(resources ...*agentpb.ResourceStatus) (unknown bool, err error) {
	reply, err := c.api.Report(c.r.Context(), &agentpb.ReportRequest{
		Node: c.hello.GetNode(), Session: c.session, Applied: c.resultsIn, Resources: resources,
	})
	return reply.GetUnknownSession(), err
}

// reportPools tells the server of pools.
func (c *client) reportPools(pools ...*agentpb.PoolStatus) {
	c.r.Helper()
	_, err := c.api.Report(c.r.Context(), &agentpb.ReportRequest{
		Node: c.hello.GetNode(), Session: c.session, Applied: c.resultsIn, Pools: pools,
	})
	if err != nil {
		c.r.Fatal(err)
	}
	synctest.Wait()
}

func ready(name string, generation uint64, numbers ...int32) *agentpb.ResourceStatus {
	st := &agentpb.ResourceStatus{Name: name, Generation: generation, State: agentpb.ResourceStatus_READY}
	for _, n := range numbers {
		st.Volumes = append(st.Volumes, &agentpb.VolumeStatus{Number: n, DevicePath: "/dev/vol"})
	}
	return st
}

func gone(name string, generation uint64) *agentpb.ResourceStatus {
	return &agentpb.ResourceStatus{Name: name, Generation: generation, State: agentpb.ResourceStatus_DESTROYED}
}

// same fails the test when a message is not as wanted, its session and its place in the chain
// aside.
func (r *rig) same(got, want *agentpb.Assignments) {
	r.Helper()
	opts := []cmp.Option{
		protocmp.Transform(),
		protocmp.IgnoreFields(&agentpb.Assignments{}, "session", "applies_to", "results_in", "heartbeat"),
		protocmp.SortRepeated(func(a, b string) bool { return a < b }),
		protocmp.SortRepeated(func(a, b *agentpb.Resource) bool { return a.GetName() < b.GetName() }),
		protocmp.SortRepeated(func(a, b *agentpb.Pool) bool { return a.GetName() < b.GetName() }),
	}
	if diff := cmp.Diff(want, got, opts...); diff != "" {
		r.Error(diff)
	}
}

func (r *rig) connection(node model.NodeKey, want observed.Connection) {
	r.Helper()
	synctest.Wait()
	if got := r.seen.Node(node).Connection; got != want {
		r.Errorf("node %s is %s, want %s", node, got, want)
	}
}
