// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest_test

import (
	"testing"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/rest"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

// objects are all nouns that errors are about.
func objects() []errs.Object {
	var all []errs.Object
	for o := errs.NoObject; o <= errs.KeyValueStore; o++ {
		all = append(all, o)
	}
	return all
}

// perObject says the code of each kind of error for each object. A kind that has one code for all objects has only def.
var perObject = []struct {
	name   string
	kind   errs.Kind
	attr   errs.Attr
	def    wire.RetCode
	status int // of def
	codes  map[errs.Object]wire.RetCode
}{
	{name: "internal", kind: errs.Internal, def: wire.FailImplError, status: 500},
	{name: "in use", kind: errs.InUse, def: wire.FailInUse, status: 500},
	{name: "closing", kind: errs.Closing, def: wire.FailRscBusy, status: 500},
	{name: "not enough", kind: errs.NotEnough, def: wire.FailNotEnoughNodes, status: 500},
	{name: "no space", kind: errs.NoSpace, def: wire.FailNotEnoughFreeSpace, status: 500},
	{name: "not connected", kind: errs.NotConnected, def: wire.FailNotConnected, status: 500},
	{name: "unavailable", kind: errs.Unavailable, def: wire.FailSQL, status: 500},
	{name: "timed out", kind: errs.TimedOut, def: wire.FailUnknownError, status: 500},
	{name: "invalid", kind: errs.Invalid, def: wire.FailInvldRequest, status: 500},
	{name: "exhausted", kind: errs.Exhausted, def: wire.FailUnknownError, status: 500},
	{
		name: "not found", kind: errs.NotFound, def: wire.UnknownAPICall, status: 404, codes: map[errs.Object]wire.RetCode{
			errs.Node: wire.FailNotFoundNode, errs.NetInterface: wire.FailNotFoundNetIf, errs.StoragePool: wire.FailNotFoundStorPool,
			errs.StoragePoolDefinition: wire.FailNotFoundStorPoolDfn, errs.ResourceGroup: wire.FailNotFoundRscGrp,
			errs.VolumeGroup: wire.FailNotFoundVlmGrp, errs.ResourceDefinition: wire.FailNotFoundRscDfn,
			errs.VolumeDefinition: wire.FailNotFoundVlmDfn, errs.Resource: wire.FailNotFoundRsc, errs.Volume: wire.FailNotFoundVlm,
			errs.Snapshot: wire.FailNotFoundSnapshot, errs.NodeConnection: wire.FailNotFoundNodeConn,
			errs.ResourceConnection: wire.FailNotFoundRscConn, errs.KeyValueStore: wire.FailNotFoundKVS,
		},
	},
	{
		name: "exists", kind: errs.Exists, def: wire.FailInvldRequest, status: 500, codes: map[errs.Object]wire.RetCode{
			errs.Node: wire.FailExistsNode, errs.NetInterface: wire.FailExistsNetIf, errs.StoragePool: wire.FailExistsStorPool,
			errs.StoragePoolDefinition: wire.FailExistsStorPoolDfn, errs.ResourceGroup: wire.FailExistsRscGrp,
			errs.VolumeGroup: wire.FailExistsVlmGrp, errs.ResourceDefinition: wire.FailExistsRscDfn,
			errs.VolumeDefinition: wire.FailExistsVlmDfn, errs.Resource: wire.FailExistsRsc, errs.Volume: wire.FailExistsVlm,
			errs.Snapshot: wire.FailExistsSnapshotDfn, errs.NodeConnection: wire.FailExistsNodeConn,
			errs.ResourceConnection: wire.FailExistsRscConn,
		},
	},
	{
		name: "has children", kind: errs.HasChildren, def: wire.FailInUse, status: 500, codes: map[errs.Object]wire.RetCode{
			errs.Node: wire.FailNodeHasUsedRsc, errs.ResourceGroup: wire.FailExistsRscDfn,
			errs.ResourceDefinition: wire.FailExistsSnapshotDfn, errs.VolumeDefinition: wire.FailExistsSnapshot,
		},
	},
	{
		name: "protected", kind: errs.Protected, def: wire.FailAccDeniedCommand, status: 403, codes: map[errs.Object]wire.RetCode{
			errs.Controller: wire.FailAccDeniedCtrlCfg, errs.Node: wire.FailAccDeniedNode, errs.NetInterface: wire.FailAccDeniedStltConn,
			errs.StoragePool: wire.FailAccDeniedStorPool, errs.StoragePoolDefinition: wire.FailAccDeniedStorPoolDfn,
			errs.ResourceGroup: wire.FailAccDeniedRscGrp, errs.VolumeGroup: wire.FailAccDeniedVlmGrp,
			errs.ResourceDefinition: wire.FailAccDeniedRscDfn, errs.VolumeDefinition: wire.FailAccDeniedVlmDfn,
			errs.Resource: wire.FailAccDeniedRsc, errs.Volume: wire.FailAccDeniedVlm, errs.Snapshot: wire.FailAccDeniedSnapshot,
			errs.NodeConnection: wire.FailAccDeniedNodeConn, errs.ResourceConnection: wire.FailAccDeniedRscConn,
			errs.KeyValueStore: wire.FailAccDeniedKVS,
		},
	},
	{
		name: "host failed", kind: errs.HostFailed, def: wire.FailUnknownError, status: 500, codes: map[errs.Object]wire.RetCode{
			errs.StoragePool: wire.FailStorPoolConfigurationError,
		},
	},
	{
		name: "unsupported", kind: errs.Unsupported, def: wire.FailInvldRequest, status: 500, codes: map[errs.Object]wire.RetCode{
			errs.StoragePool: wire.FailStltDoesNotSupportProvider, errs.Snapshot: wire.FailSnapshotsNotSupported,
		},
	},
	{
		name: "invalid name", kind: errs.Invalid, attr: errs.Name, def: wire.FailInvldRequest, status: 500,
		codes: map[errs.Object]wire.RetCode{
			errs.Node: wire.FailInvldNodeName, errs.NetInterface: wire.FailInvldNetName, errs.StoragePool: wire.FailInvldStorPoolName,
			errs.StoragePoolDefinition: wire.FailInvldStorPoolName, errs.ResourceGroup: wire.FailInvldRscGrpName,
			errs.ResourceDefinition: wire.FailInvldRscName, errs.Resource: wire.FailInvldRscName,
			errs.Snapshot: wire.FailInvldSnapshotName, errs.KeyValueStore: wire.FailInvldKVSName,
		},
	},
	{
		name: "invalid port", kind: errs.Invalid, attr: errs.Port, def: wire.FailInvldTCPPort, status: 500,
		codes: map[errs.Object]wire.RetCode{
			errs.NetInterface: wire.FailInvldNetPort, errs.ResourceDefinition: wire.FailInvldRscPort,
		},
	},
	{
		name: "invalid address", kind: errs.Invalid, attr: errs.Address, def: wire.FailInvldNetAddr, status: 500,
		codes: map[errs.Object]wire.RetCode{errs.Node: wire.FailMissingNetcom},
	},
	{
		name: "invalid provider", kind: errs.Invalid, attr: errs.Provider, def: wire.FailInvldProvider, status: 500,
		codes: map[errs.Object]wire.RetCode{errs.StoragePool: wire.FailInvldStorDriver},
	},
	{name: "external name exists", kind: errs.Exists, attr: errs.ExternalName, def: wire.FailExistsExtName, status: 500},
}

func TestEachKindOfErrorHasACodeForEachObject(t *testing.T) {
	kinds := make(map[errs.Kind]bool)
	for _, c := range perObject {
		kinds[c.kind] = true
		for _, o := range objects() {
			want, ok := c.codes[o]
			if !ok {
				want = c.def
			}
			got := rest.Code(errs.New(c.kind, o, "x").About(c.attr))
			if got != want {
				t.Errorf("%s, object %d: %s, want %s", c.name, o, got, want)
			}
			status := wire.RcList{wire.NewRc(got, "x")}.Status(200)
			if got == c.def && status != c.status || status < 400 {
				t.Errorf("%s, object %d: status %d", c.name, o, status)
			}
		}
	}
	for k := errs.Internal; k <= errs.TimedOut; k++ {
		if !kinds[k] {
			t.Errorf("kind %d is not in the table", k)
		}
	}
}

func TestEachAttributeHasACode(t *testing.T) {
	for _, c := range []struct {
		kind errs.Kind
		attr errs.Attr
		want wire.RetCode
	}{
		{errs.Invalid, errs.ExternalName, wire.FailInvldExtName},
		{errs.Invalid, errs.NodeType, wire.FailInvldNodeType},
		{errs.Invalid, errs.Address, wire.FailInvldNetAddr},
		{errs.Invalid, errs.Minor, wire.FailInvldMinorNr},
		{errs.Invalid, errs.NodeID, wire.FailInvldNodeID},
		{errs.Invalid, errs.PeerSlots, wire.FailInvldRequest},
		{errs.Invalid, errs.VolumeNumber, wire.FailInvldVlmNr},
		{errs.Invalid, errs.VolumeSize, wire.FailInvldVlmSize},
		{errs.Invalid, errs.VolumeSizes, wire.FailInvldVlmSizes},
		{errs.Invalid, errs.PlaceCount, wire.FailInvldPlaceCount},
		{errs.Invalid, errs.Property, wire.FailInvldProp},
		{errs.Invalid, errs.LayerKind, wire.FailInvldLayerKind},
		{errs.Invalid, errs.LayerStack, wire.FailInvldLayerStack},
		{errs.Invalid, errs.Pool, wire.FailInvldStorPoolName},
		{errs.Invalid, errs.EncryptionType, wire.FailInvldEncryptType},
		{errs.Invalid, errs.Body, wire.APICallParseError},
		{errs.Invalid, errs.Query, wire.APICallParseError},
		{errs.Invalid, errs.Flag, wire.FailInvldRequest},
		{errs.Exhausted, errs.VolumeNumber, wire.FailPoolExhaustedVlmNr},
		{errs.Exhausted, errs.Minor, wire.FailPoolExhaustedMinorNr},
		{errs.Exhausted, errs.Port, wire.FailPoolExhaustedTCPPort},
		{errs.Exhausted, errs.NodeID, wire.FailPoolExhaustedNodeID},
		{errs.Exhausted, errs.PeerSlots, wire.FailInsufficientPeerSlots},
		{errs.Unsupported, errs.LayerKind, wire.FailStltDoesNotSupportLayer},
		{errs.Unsupported, errs.LayerStack, wire.FailStltDoesNotSupportLayer},
		{errs.Unsupported, errs.Provider, wire.FailStltDoesNotSupportProvider},
		{errs.Unsupported, errs.VolumeSize, wire.FailInvldVlmSize},
		{errs.Unsupported, errs.Property, wire.FailInvldProp},
		{errs.Protected, errs.Property, wire.FailInvldProp},
	} {
		if got := rest.Code(errs.New(c.kind, errs.Volume, "x").About(c.attr)); got != c.want {
			t.Errorf("kind %d, attribute %d: %s, want %s", c.kind, c.attr, got, c.want)
		}
	}
}

func TestEachNoticeHasACode(t *testing.T) {
	for kind, want := range map[errs.NoticeKind]wire.RetCode{
		errs.PropertySet: wire.InfoPropSet, errs.PropertyRemoved: wire.InfoPropRemoved, errs.PropertyWasUnset: wire.WarnDelUnsetProp,
		errs.NothingSpawned: wire.InfoNoRscSpawned, errs.PartialAssumed: wire.MaskInfo, errs.AlreadyDeployed: wire.WarnRscAlreadyDeployed,
		errs.ReplicaExists: wire.InfoRscAlreadyExists, errs.SameSize: wire.WarnVlmDfnResizeSameSize,
		errs.NodeNotConnected: wire.WarnNotConnected, errs.ChangedByDefault: wire.MaskInfo, errs.SuccessNote: wire.Modified,
		errs.AlreadyBeingDeleted: wire.InfoNoop,
	} {
		got := rest.NoticeCode(kind, wire.Modified)
		if got != want || got.IsError() {
			t.Errorf("notice %d: %s, want %s", kind, got, want)
		}
	}
}
