// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/agent/fakeagent"
	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

// shelf is the block devices of a simulated host.
type shelf struct {
	free []*agentpb.Device

	mu   sync.Mutex
	fail error
	made []string
}

func (s *shelf) List(context.Context) ([]*agentpb.Device, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.free, s.fail
}

func (s *shelf) CreateBackend(_ context.Context, b *agentpb.CreateBackend) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return s.fail
	}
	s.made = append(s.made, fmt.Sprint(b.GetProvider(), " ", b.GetName(), " of ", b.GetDevices()))
	return nil
}

func (s *shelf) breaks(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = err
}

func (s *shelf) takes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	made := s.made
	s.made = nil
	return made
}

// nodeWith registers a node whose agent was set up before it starts.
func (c *cluster) nodeWith(name string, set func(*fakeagent.Agent)) *agent {
	c.Helper()
	c.must(http.StatusCreated, "POST", "/v1/nodes", fmt.Sprintf(
		`{"name":%q,"type":"Satellite","net_interfaces":[{"name":"default","address":"10.0.0.%d"}]}`, name, len(c.agents)+1))
	a := &agent{Agent: &fakeagent.Agent{Node: name, Dial: c.dial}}
	set(a.Agent)
	c.agents[name] = a
	c.start(a)
	return a
}

func device(path string, size int64, rotational bool) *agentpb.Device {
	return &agentpb.Device{Path: path, Size: size, Rotational: rotational, Model: "M", Serial: "S" + path[len(path)-1:], Wwn: "W"}
}

func TestFreeDevicesAreListedBySizeAndKind(t *testing.T) {
	c := newCluster(t)
	alpha := &shelf{free: []*agentpb.Device{device("/dev/sda", 4<<30, true), device("/dev/sdb", 2<<30, true), device("/dev/sdc", 4<<30, false)}}
	beta := &shelf{free: []*agentpb.Device{device("/dev/sdx", 4<<30, true), device("/dev/sdy", 4<<30, true)}}
	gamma := &shelf{fail: errors.New("lsblk does not answer")}
	for name, s := range map[string]*shelf{"Alpha": alpha, "beta": beta, "gamma": gamma} {
		c.nodeWith(name, func(a *fakeagent.Agent) { a.Devices = s })
	}
	c.node("delta") // its agent knows no devices
	c.halt(c.nodeWith("away", func(a *fakeagent.Agent) { a.Devices = &shelf{free: alpha.free} }))

	at := func(paths ...string) (list []wire.PhysicalStorageDevice) {
		for _, p := range paths {
			list = append(list, wire.PhysicalStorageDevice{Device: p, Model: "M", Serial: "S" + p[len(p)-1:], WWN: "W"})
		}
		return list
	}
	all := []wire.PhysicalStorage{
		{Size: 4 << 30, Nodes: map[string][]wire.PhysicalStorageDevice{"Alpha": at("/dev/sdc")}},
		{Size: 4 << 30, Rotational: true, Nodes: map[string][]wire.PhysicalStorageDevice{"Alpha": at("/dev/sda"), "beta": at("/dev/sdx", "/dev/sdy")}},
		{Size: 2 << 30, Rotational: true, Nodes: map[string][]wire.PhysicalStorageDevice{"Alpha": at("/dev/sdb")}},
	}
	for _, path := range []string{"/v1/physical-storage", "/v1/physical-storage/"} {
		if diff := cmp.Diff(all, read[[]wire.PhysicalStorage](c, path)); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
	if diff := cmp.Diff(all[1:2], read[[]wire.PhysicalStorage](c, "/v1/physical-storage?offset=1&limit=1")); diff != "" {
		t.Error(diff)
	}
	one := read[[]wire.PhysicalStorageNode](c, "/v1/physical-storage/alpha")
	if len(one) != 3 || one[2] != (wire.PhysicalStorageNode{Size: 4 << 30, Device: "/dev/sdc", Model: "M", Serial: "Sc", WWN: "W"}) {
		t.Errorf("node alpha has %+v", one)
	}
	c.do("GET", "/v1/physical-storage/nobody", "").code(404, wire.FailNotFoundNode)
	c.do("GET", "/v1/physical-storage/away", "").code(500, wire.FailNotConnected)
	c.do("GET", "/v1/physical-storage/gamma", "").code(500, wire.FailUnknownError)
	c.do("GET", "/v1/physical-storage/delta", "").code(500, wire.FailInvldRequest)
}

func TestABackendAndItsPoolAreMadeTogether(t *testing.T) {
	c := newCluster(t)
	s := &shelf{}
	c.nodeWith("alpha", func(a *fakeagent.Agent) { a.Devices = s })
	const path = "/v1/physical-storage/alpha"

	// As golinstor sends it: with an empty storage pool, which is none.
	l := c.must(201, "POST", path, `{"provider_kind":"LVM","device_paths":["/dev/sda"],"pool_name":"vg0","with_storage_pool":{}}`).entries()
	if len(l) != 1 || !l[0].RetCode.Is(wire.Created) || l[0].RetCode&wire.ObjBits != wire.ObjPhysicalDevice {
		t.Errorf("the answer is %+v", l)
	}
	// As the command line does.
	c.must(201, "POST", path, `{"provider_kind":"lvmthin","device_paths":["/dev/sdb","/dev/sdc"],"pool_name":"fast","vdo_enable":false,`+
		`"with_storage_pool":{"name":"Fast","props":{"Aux/a":"b"}}}`)
	c.must(201, "POST", path, `{"provider_kind":"ZFS","device_paths":["/dev/sdd"],"raid_level":"JBOD"}`)
	want := []string{"LVM vg0 of [/dev/sda]", "LVM_THIN linstor_fast/fast of [/dev/sdb /dev/sdc]", "ZFS linstor_sdd of [/dev/sdd]"}
	if got := s.takes(); !slices.Equal(got, want) {
		t.Errorf("made %q", got)
	}
	p := read[wire.StoragePool](c, "/v1/nodes/alpha/storage-pools/fast")
	if p.ProviderKind != "LVM_THIN" || p.Props["StorDriver/StorPoolName"] != "linstor_fast/fast" || p.Props["Aux/a"] != "b" {
		t.Errorf("the pool is %+v", p)
	}
}

func TestWhatCanBeRefusedIsRefusedBeforeADeviceIsTouched(t *testing.T) {
	c := newCluster(t)
	s := &shelf{}
	c.nodeWith("alpha", func(a *fakeagent.Agent) { a.Devices = s })
	c.pool("alpha", "taken", "LVM")
	const path = "/v1/physical-storage/alpha"
	for _, x := range []struct {
		name, path, body string
		status           int
		code             wire.RetCode
	}{
		{"an unknown node", "/v1/physical-storage/nobody", `{"provider_kind":"LVM","device_paths":["/dev/sda"]}`, 404, wire.FailNotFoundNode},
		{"no provider", path, `{"device_paths":["/dev/sda"]}`, 500, wire.FailInvldProvider},
		{"a provider without devices", path, `{"provider_kind":"FILE","device_paths":["/dev/sda"]}`, 500, wire.FailInvldProvider},
		{"no devices", path, `{"provider_kind":"LVM"}`, 400, wire.APICallParseError},
		{"no path", path, `{"provider_kind":"LVM","device_paths":["sda"]}`, 400, wire.APICallParseError},
		{"a path that climbs", path, `{"provider_kind":"LVM","device_paths":["/dev/../etc/passwd"]}`, 400, wire.APICallParseError},
		{"an option for a path", path, `{"provider_kind":"LVM","device_paths":["/dev/sda --force"]}`, 400, wire.APICallParseError},
		{"a device twice", path, `{"provider_kind":"LVM","device_paths":["/dev/sda","/dev/sda"]}`, 400, wire.APICallParseError},
		{"a name like an option", path, `{"provider_kind":"LVM","device_paths":["/dev/sda"],"pool_name":"-f"}`, 500, wire.FailInvldStorPoolName},
		{"a name with a slash", path, `{"provider_kind":"ZFS","device_paths":["/dev/sda"],"pool_name":"a/b"}`, 500, wire.FailInvldStorPoolName},
		{"a name that LVM keeps", path, `{"provider_kind":"LVM_THIN","device_paths":["/dev/sda"],"pool_name":"snapshot"}`, 500, wire.FailInvldStorPoolName},
		{"a name that ZFS keeps", path, `{"provider_kind":"ZFS","device_paths":["/dev/sda"],"pool_name":"mirror1"}`, 500, wire.FailInvldStorPoolName},
		{"a group without room for names of volumes", path, `{"provider_kind":"LVM","device_paths":["/dev/sda"],"pool_name":"` + strings.Repeat("a-", 50) + `"}`, 500, wire.FailInvldStorPoolName},
		{"RAID", path, `{"provider_kind":"LVM","device_paths":["/dev/sda"],"raid_level":"RAID5"}`, 400, wire.APICallParseError},
		{"VDO", path, `{"provider_kind":"LVM","device_paths":["/dev/sda"],"vdo_enable":true}`, 500, wire.FailInvldRequest},
		{"encrypting drives", path, `{"provider_kind":"LVM","device_paths":["/dev/sda"],"sed":true}`, 500, wire.FailInvldRequest},
		{"arguments", path, `{"provider_kind":"LVM","device_paths":["/dev/sda"],"vg_create_arguments":["-s","4"]}`, 500, wire.FailInvldRequest},
		{"a pool that exists", path, `{"provider_kind":"LVM","device_paths":["/dev/sda"],"with_storage_pool":{"name":"TAKEN"}}`, 500, wire.FailExistsStorPool},
		{"a pool with an impossible name", path, `{"provider_kind":"LVM","device_paths":["/dev/sda"],"with_storage_pool":{"name":"x!"}}`, 500, wire.FailInvldStorPoolName},
		{"a pool with an unknown property", path, `{"provider_kind":"LVM","device_paths":["/dev/sda"],"with_storage_pool":{"name":"new","props":{"nope":"1"}}}`, 500, wire.FailInvldProp},
	} {
		t.Run(x.name, func(t *testing.T) {
			a := c.do("POST", x.path, x.body)
			a.T = t
			a.code(x.status, x.code)
		})
	}
	if made := s.takes(); made != nil {
		t.Errorf("made %q", made)
	}
	s.breaks(errs.New(errs.Unsupported, errs.Node, "it cannot be made").Because("no LVM here"))
	e := c.do("POST", path, `{"provider_kind":"LVM","device_paths":["/dev/sda"],"with_storage_pool":{"name":"new"}}`).code(500, wire.FailStltDoesNotSupportProvider)
	if e.Cause == "" {
		t.Errorf("the answer has no reason: %+v", e)
	}
	c.do("GET", "/v1/nodes/alpha/storage-pools/new", "").code(404, wire.FailNotFoundStorPool)
	s.breaks(errs.New(errs.InUse, errs.Node, "device /dev/sda is not free"))
	c.do("POST", path, `{"provider_kind":"LVM","device_paths":["/dev/sda"]}`).code(500, wire.FailInUse)
}
