// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"net/http"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

// code returns the API's code of an error. Clients know nothing else of an error: this is the only place where one is
// chosen for what the domain refused.
func code(e *errs.Error) wire.RetCode {
	if e.Attr == errs.Passphrase || e.Attr == errs.NewPassphrase || e.Attr == errs.MasterKey {
		return passphraseCode(e)
	}
	switch e.Kind {
	case errs.Invalid:
		return invalid(e)
	case errs.NotFound:
		return notFound(e.Object)
	case errs.Exists:
		return exists(e)
	case errs.InUse:
		return wire.FailInUse
	case errs.HasChildren:
		return hasChildren(e.Object)
	case errs.Closing:
		return wire.FailRscBusy
	case errs.NotEnough:
		if e.Attr == errs.ReplicaCount {
			return wire.FailInsufficientReplicaCount
		}
		return wire.FailNotEnoughNodes
	case errs.NoSpace:
		return wire.FailNotEnoughFreeSpace
	case errs.Exhausted:
		return exhausted(e.Attr)
	case errs.NotConnected:
		return wire.FailNotConnected
	case errs.HostFailed:
		return hostFailed(e.Object)
	case errs.Unsupported:
		return unsupported(e)
	case errs.Protected:
		return protected(e)
	case errs.Unavailable:
		return wire.FailSQL
	case errs.TimedOut:
		return wire.FailUnknownError
	case errs.NotUpToDate:
		return notUpToDate(e.Object)
	default:
		return wire.FailImplError
	}
}

func notUpToDate(o errs.Object) wire.RetCode {
	if o == errs.Snapshot {
		return wire.FailSnapshotNotUptodate
	}
	return wire.FailNotAllUptodate
}

// passphraseCode returns LINSTOR's codes: one that is wrong and one that is not there yet look alike.
func passphraseCode(e *errs.Error) wire.RetCode {
	switch {
	case e.Attr == errs.MasterKey:
		return wire.FailNotFoundCryptKey
	case e.Attr == errs.Passphrase:
		return wire.FailMissingProps
	case e.Kind == errs.Invalid:
		return wire.FailInvldCryptPassphrase
	default:
		return wire.FailExistsCryptPassphrase
	}
}

// status returns the status of an error that the API's rule does not know or has another for, and 0 for all others. A controller that
// takes no writes now is no fault of the request, and not for ever. A key that is locked is the one thing that is not there whose
// absence is no answer: clients throw away what a status 404 says.
func status(e *errs.Error) int {
	switch {
	case e.Kind == errs.Unavailable:
		return http.StatusServiceUnavailable
	case e.Attr == errs.MasterKey:
		return http.StatusInternalServerError
	}
	return 0
}

// invalid returns the code of a value that cannot be accepted. Some attributes are named differently at different objects.
func invalid(e *errs.Error) wire.RetCode {
	switch {
	case e.Attr == errs.Name:
		return invalidName(e.Object)
	case e.Attr == errs.Port:
		return invalidPort(e.Object)
	case e.Attr == errs.Address && e.Object == errs.Node:
		return wire.FailMissingNetcom // A node without any address.
	case e.Attr == errs.Provider && e.Object == errs.StoragePool:
		return wire.FailInvldStorDriver
	default:
		return invalidAttr(e.Attr)
	}
}

func invalidAttr(a errs.Attr) wire.RetCode {
	switch a {
	case errs.ExternalName:
		return wire.FailInvldExtName
	case errs.NodeType:
		return wire.FailInvldNodeType
	case errs.Address:
		return wire.FailInvldNetAddr
	case errs.Minor:
		return wire.FailInvldMinorNr
	case errs.NodeID:
		return wire.FailInvldNodeID
	case errs.VolumeNumber:
		return wire.FailInvldVlmNr
	case errs.VolumeSize:
		return wire.FailInvldVlmSize
	case errs.VolumeSizes:
		return wire.FailInvldVlmSizes
	case errs.PlaceCount:
		return wire.FailInvldPlaceCount
	case errs.Property:
		return wire.FailInvldProp
	case errs.LayerKind:
		return wire.FailInvldLayerKind
	case errs.LayerStack:
		return wire.FailInvldLayerStack
	case errs.Provider:
		return wire.FailInvldProvider
	case errs.Pool:
		return wire.FailInvldStorPoolName
	case errs.EncryptionType:
		return wire.FailInvldEncryptType
	case errs.Body, errs.Query:
		return wire.APICallParseError
	default:
		return wire.FailInvldRequest
	}
}

func invalidName(o errs.Object) wire.RetCode {
	switch o {
	case errs.Node:
		return wire.FailInvldNodeName
	case errs.NetInterface:
		return wire.FailInvldNetName
	case errs.StoragePool, errs.StoragePoolDefinition:
		return wire.FailInvldStorPoolName
	case errs.ResourceGroup:
		return wire.FailInvldRscGrpName
	case errs.ResourceDefinition, errs.Resource:
		return wire.FailInvldRscName
	case errs.Snapshot:
		return wire.FailInvldSnapshotName
	case errs.KeyValueStore:
		return wire.FailInvldKVSName
	default:
		return wire.FailInvldRequest
	}
}

func invalidPort(o errs.Object) wire.RetCode {
	switch o {
	case errs.NetInterface:
		return wire.FailInvldNetPort
	case errs.ResourceDefinition:
		return wire.FailInvldRscPort
	default:
		return wire.FailInvldTCPPort
	}
}

func notFound(o errs.Object) wire.RetCode {
	switch o {
	case errs.Node:
		return wire.FailNotFoundNode
	case errs.NetInterface:
		return wire.FailNotFoundNetIf
	case errs.StoragePool:
		return wire.FailNotFoundStorPool
	case errs.StoragePoolDefinition:
		return wire.FailNotFoundStorPoolDfn
	case errs.ResourceGroup:
		return wire.FailNotFoundRscGrp
	case errs.VolumeGroup:
		return wire.FailNotFoundVlmGrp
	case errs.ResourceDefinition:
		return wire.FailNotFoundRscDfn
	case errs.VolumeDefinition:
		return wire.FailNotFoundVlmDfn
	case errs.Resource:
		return wire.FailNotFoundRsc
	case errs.Volume:
		return wire.FailNotFoundVlm
	case errs.Snapshot:
		return wire.FailNotFoundSnapshot
	case errs.NodeConnection:
		return wire.FailNotFoundNodeConn
	case errs.ResourceConnection:
		return wire.FailNotFoundRscConn
	case errs.KeyValueStore:
		return wire.FailNotFoundKVS
	default:
		return wire.UnknownAPICall
	}
}

func exists(e *errs.Error) wire.RetCode {
	if e.Attr == errs.ExternalName {
		return wire.FailExistsExtName
	}
	switch e.Object {
	case errs.Node:
		return wire.FailExistsNode
	case errs.NetInterface:
		return wire.FailExistsNetIf
	case errs.StoragePool:
		return wire.FailExistsStorPool
	case errs.StoragePoolDefinition:
		return wire.FailExistsStorPoolDfn
	case errs.ResourceGroup:
		return wire.FailExistsRscGrp
	case errs.VolumeGroup:
		return wire.FailExistsVlmGrp
	case errs.ResourceDefinition:
		return wire.FailExistsRscDfn
	case errs.VolumeDefinition:
		return wire.FailExistsVlmDfn
	case errs.Resource:
		return wire.FailExistsRsc
	case errs.Volume:
		return wire.FailExistsVlm
	case errs.Snapshot:
		return wire.FailExistsSnapshotDfn
	case errs.NodeConnection:
		return wire.FailExistsNodeConn
	case errs.ResourceConnection:
		return wire.FailExistsRscConn
	default:
		return wire.FailInvldRequest
	}
}

// hasChildren returns the code of a deletion that others stand against. Clients know a group that is still needed by the
// code of an existing definition, and a definition with snapshots by that of an existing snapshot.
func hasChildren(o errs.Object) wire.RetCode {
	switch o {
	case errs.Node:
		return wire.FailNodeHasUsedRsc
	case errs.ResourceGroup:
		return wire.FailExistsRscDfn
	case errs.ResourceDefinition:
		return wire.FailExistsSnapshotDfn
	case errs.VolumeDefinition:
		return wire.FailExistsSnapshot
	default:
		return wire.FailInUse
	}
}

func exhausted(a errs.Attr) wire.RetCode {
	switch a {
	case errs.VolumeNumber:
		return wire.FailPoolExhaustedVlmNr
	case errs.Minor:
		return wire.FailPoolExhaustedMinorNr
	case errs.Port:
		return wire.FailPoolExhaustedTCPPort
	case errs.NodeID:
		return wire.FailPoolExhaustedNodeID
	case errs.PeerSlots:
		return wire.FailInsufficientPeerSlots
	default:
		return wire.FailUnknownError
	}
}

func hostFailed(o errs.Object) wire.RetCode {
	if o == errs.StoragePool {
		return wire.FailStorPoolConfigurationError
	}
	return wire.FailUnknownError
}

func unsupported(e *errs.Error) wire.RetCode {
	switch {
	case e.Attr == errs.LayerKind, e.Attr == errs.LayerStack:
		return wire.FailStltDoesNotSupportLayer
	case e.Attr == errs.VolumeSize:
		return wire.FailInvldVlmSize
	case e.Attr == errs.Property:
		return wire.FailInvldProp
	case e.Attr == errs.Provider, e.Object == errs.StoragePool:
		return wire.FailStltDoesNotSupportProvider
	case e.Object == errs.Snapshot:
		return wire.FailSnapshotsNotSupported
	default:
		return wire.FailInvldRequest
	}
}

// protected returns the code of a change that nobody may make.
func protected(e *errs.Error) wire.RetCode {
	if e.Attr == errs.Property {
		return wire.FailInvldProp
	}
	switch e.Object {
	case errs.Controller:
		return wire.FailAccDeniedCtrlCfg
	case errs.Node:
		return wire.FailAccDeniedNode
	case errs.NetInterface:
		return wire.FailAccDeniedStltConn
	case errs.StoragePool:
		return wire.FailAccDeniedStorPool
	case errs.StoragePoolDefinition:
		return wire.FailAccDeniedStorPoolDfn
	case errs.ResourceGroup:
		return wire.FailAccDeniedRscGrp
	case errs.VolumeGroup:
		return wire.FailAccDeniedVlmGrp
	case errs.ResourceDefinition:
		return wire.FailAccDeniedRscDfn
	case errs.VolumeDefinition:
		return wire.FailAccDeniedVlmDfn
	case errs.Resource:
		return wire.FailAccDeniedRsc
	case errs.Volume:
		return wire.FailAccDeniedVlm
	case errs.Snapshot:
		return wire.FailAccDeniedSnapshot
	case errs.NodeConnection:
		return wire.FailAccDeniedNodeConn
	case errs.ResourceConnection:
		return wire.FailAccDeniedRscConn
	case errs.KeyValueStore:
		return wire.FailAccDeniedKVS
	default:
		return wire.FailAccDeniedCommand
	}
}

// noticeCode returns the code of a notice. A note of success takes the code of the call.
func noticeCode(k errs.NoticeKind, success wire.RetCode) wire.RetCode {
	switch k {
	case errs.PropertySet:
		return wire.InfoPropSet
	case errs.PropertyRemoved:
		return wire.InfoPropRemoved
	case errs.PropertyWasUnset:
		return wire.WarnDelUnsetProp
	case errs.NothingSpawned:
		return wire.InfoNoRscSpawned
	case errs.AlreadyDeployed:
		return wire.WarnRscAlreadyDeployed
	case errs.ReplicaExists:
		return wire.InfoRscAlreadyExists
	case errs.SameSize:
		return wire.WarnVlmDfnResizeSameSize
	case errs.NodeNotConnected:
		return wire.WarnNotConnected
	case errs.AlreadyBeingDeleted:
		return wire.InfoNoop
	case errs.NotEvacuating:
		return wire.WarnNotEvacuating
	case errs.SuccessNote:
		return success
	case errs.WasNotThere:
		return wire.WarnNotFound
	case errs.HasDiskAlready:
		return wire.WarnRscAlreadyHasDisk
	case errs.DisklessAlready:
		return wire.WarnRscAlreadyDiskless
	case errs.Deactivated:
		return wire.WarnRscDeactivated
	default:
		return witnessCode(k)
	}
}

// witnessCode returns the code of a notice about tie-breakers, and that of the notices that the API has no code for:
// PartialAssumed, ChangedByDefault, GoesOn.
func witnessCode(k errs.NoticeKind) wire.RetCode {
	switch k {
	case errs.TieBreakerCreated:
		return wire.InfoTieBreakerCreated
	case errs.TieBreakerRemoved:
		return wire.InfoTieBreakerDeleting
	case errs.TieBreakerTakeover:
		return wire.InfoTieBreakerTakeover
	case errs.NoTieBreaker:
		return wire.WarnNotEnoughNodesForTieBreaker
	default:
		return wire.MaskInfo
	}
}
