// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/props"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

func controllerRoutes() []Route {
	const (
		settings   = "/v1/controller/properties"
		passphrase = "/v1/encryption/passphrase"
	)
	return []Route{
		raw("/{$}", Feature, (*Server).index),
		raw("/health", Daily, (*Server).health),
		raw("/metrics", Feature, (*Server).metrics),
		raw("/metrics/scrape-target", Feature, (*Server).metrics),
		get("/v1/controller/version", Daily, wire.ObjCtrlConf, (*Server).version),
		get(settings, Daily, wire.ObjCtrlConf, (*Server).controllerProps),
		change("POST", settings, Daily, wire.OpModify|wire.ObjCtrlConf, 201, (*Server).modifyControllerProps),
		drop(settings+"/{key...}", Daily, wire.ObjCtrlConf, (*Server).deleteControllerProp),
		get(settings+"/info", Rare, wire.ObjCtrlConf, propsInfo(props.Controller)),
		get(settings+"/info/all", Rare, wire.ObjCtrlConf, (*Server).allPropsInfo),
		get("/v1/controller/config", Feature, wire.ObjCtrlConf, (*Server).controllerConfig),
		modify("/v1/controller/config", Feature, wire.ObjCtrlConf, (*Server).modifyControllerConfig),
		create("/v1/controller/backup/db", Rare, wire.ObjCtrlConf, (*Server).backupDatabase),
		create("/v1/controller/database/export", Feature, wire.ObjCtrlConf, (*Server).exportDatabase),
		planned("POST", "/v1/controller/auth/initialize-token-auth", Feature),
		planned("GET", "/v1/controller/auth/token", Feature),
		planned("POST", "/v1/controller/auth/token", Feature),
		planned("PUT", "/v1/controller/auth/token/{authtokenid}", Feature),
		planned("DELETE", "/v1/controller/auth/token/{authtokenid}", Feature),
		get(passphrase, Daily, wire.ObjCtrlConf, (*Server).passphraseStatus),
		create(passphrase, Daily, wire.ObjCtrlConf, (*Server).createPassphrase),
		modify(passphrase, Daily, wire.ObjCtrlConf, (*Server).modifyPassphrase),
		change("PATCH", passphrase, Daily, wire.OpModify|wire.ObjCtrlConf, 200, (*Server).enterPassphrase),
		get("/v1/error-reports", Daily, 0, (*Server).listReports),
		change("PATCH", "/v1/error-reports", Daily, wire.OpDelete, 200, (*Server).deleteReports),
		get("/v1/error-reports/{reportid}", Daily, 0, (*Server).getReport),
		drop("/v1/error-reports/{reportid}", Daily, 0, (*Server).deleteReport),
		get("/v1/stats/error-reports", Feature, 0, (*Server).countReports),
		planned("GET", "/v1/sos-report", Feature),
		planned("GET", "/v1/sos-report/download", Feature),
		get("/v1/space-report", Feature, 0, (*Server).spaceReport),
	}
}

func nodeRoutes() []Route {
	const (
		one        = "/v1/nodes/{node}"
		interfaces = one + "/net-interfaces"
		an         = interfaces + "/{netinterface}"
		reactor    = "/v1/nodes/exec/drbd-reactorctl/"
	)
	return []Route{
		get("/v1/nodes", Daily, wire.ObjNode, (*Server).listNodes),
		create("/v1/nodes", Daily, wire.ObjNode, (*Server).createNode),
		get(one, Daily, wire.ObjNode, (*Server).getNode),
		modify(one, Daily, wire.ObjNode, (*Server).modifyNode),
		remove(one, Daily, wire.ObjNode, errs.Node, (*Server).deleteNode),
		remove(one+"/lost", Daily, wire.ObjNode, errs.Node, (*Server).loseNode),
		modify(one+"/reconnect", Daily, wire.ObjNode, (*Server).reconnectNode),
		modify(one+"/restore", Daily, wire.ObjNode, (*Server).restoreNode),
		modify(one+"/evacuate", Daily, wire.ObjNode, (*Server).evacuateNode),
		modify(one+"/evict", Rare, wire.ObjNode, (*Server).evictNode),
		get(one+"/config", Feature, wire.ObjNode, (*Server).nodeConfig),
		modify(one+"/config", Feature, wire.ObjNode, (*Server).modifyNodeConfig),
		planned("POST", "/v1/nodes/ebs", Rare),
		get("/v1/nodes/properties/info", Rare, wire.ObjNode, propsInfo(props.Node)),
		planned("POST", reactor+"status", Rare),
		planned("POST", reactor+"evict", Rare),
		planned("POST", reactor+"disable", Rare),
		planned("POST", reactor+"enable", Rare),
		planned("POST", reactor+"restart", Rare),
		get("/v1/stats/nodes", Feature, wire.ObjNode, count(func(r store.Reader) int { return schema.Nodes.Len(r) })),

		get(interfaces, Daily, wire.ObjNetIf, (*Server).listInterfaces),
		create(interfaces, Daily, wire.ObjNetIf, (*Server).createInterface),
		get(an, Daily, wire.ObjNetIf, (*Server).getInterface),
		modify(an, Daily, wire.ObjNetIf, (*Server).modifyInterface),
		remove(an, Daily, wire.ObjNetIf, errs.NetInterface, (*Server).deleteInterface),

		get("/v1/node-connections", Feature, wire.ObjNodeConn, (*Server).listNodeConnections),
		modify("/v1/node-connections/{node_a}/{node_b}", Feature, wire.ObjNodeConn, (*Server).modifyNodeConnection),
	}
}

func poolRoutes() []Route {
	const (
		pools       = "/v1/nodes/{node}/storage-pools"
		one         = pools + "/{storagepool}"
		definitions = "/v1/storage-pool-definitions"
		definition  = definitions + "/{storagepool}"
	)
	return []Route{
		get("/v1/view/storage-pools", Daily, wire.ObjStorPool, (*Server).viewPools),
		get(pools, Daily, wire.ObjStorPool, (*Server).listPools),
		create(pools, Daily, wire.ObjStorPool, (*Server).createPool),
		get(one, Daily, wire.ObjStorPool, (*Server).getPool),
		modify(one, Daily, wire.ObjStorPool, (*Server).modifyPool),
		remove(one, Daily, wire.ObjStorPool, errs.StoragePool, (*Server).deletePool),
		get(pools+"/properties/info", Rare, wire.ObjStorPool, propsInfo(props.Pool)),
		get("/v1/stats/storage-pools", Feature, wire.ObjStorPool, count(func(r store.Reader) int { return schema.Pools.Len(r) })),

		get(definitions, Feature, wire.ObjStorPoolDfn, (*Server).listPoolDefinitions),
		get(definition, Rare, wire.ObjStorPoolDfn, (*Server).getPoolDefinition),
		create(definitions, Rare, wire.ObjStorPoolDfn, (*Server).createPoolDefinition),
		modify(definition, Rare, wire.ObjStorPoolDfn, (*Server).modifyPoolDefinition),
		remove(definition, Rare, wire.ObjStorPoolDfn, errs.StoragePoolDefinition, (*Server).deletePoolDefinition),
		get(definitions+"/properties/info", Rare, wire.ObjStorPoolDfn, (*Server).poolDefinitionInfo),

		get("/v1/physical-storage", Daily, wire.ObjPhysicalDevice, (*Server).listDevices),
		get("/v1/physical-storage/{node}", Daily, wire.ObjPhysicalDevice, (*Server).listDevicesOf),
		create("/v1/physical-storage/{node}", Daily, wire.ObjPhysicalDevice, (*Server).createBackend),
		read("OPTIONS", "/v1/query-max-volume-size", Feature, wire.ObjStorPoolDfn, (*Server).maxVolumeSizes),
	}
}

func groupRoutes() []Route {
	const (
		groups  = "/v1/resource-groups"
		one     = groups + "/{resource_group}"
		volumes = one + "/volume-groups"
		volume  = volumes + "/{volume_number}"
	)
	return []Route{
		get(groups, Daily, wire.ObjRscGrp, (*Server).listGroups),
		create(groups, Daily, wire.ObjRscGrp, (*Server).createGroup),
		get(one, Daily, wire.ObjRscGrp, (*Server).getGroup),
		modify(one, Daily, wire.ObjRscGrp, (*Server).modifyGroup),
		remove(one, Daily, wire.ObjRscGrp, errs.ResourceGroup, (*Server).deleteGroup),
		create(one+"/spawn", Daily, wire.ObjRscGrp, (*Server).spawn),
		read("POST", one+"/query-size-info", Daily, wire.ObjRscGrp, (*Server).querySize),
		read("POST", "/v1/queries/resource-groups/query-all-size-info", Feature, wire.ObjRscGrp, (*Server).queryAllSizes),
		get(one+"/query-max-volume-size", Feature, wire.ObjRscGrp, (*Server).maxVolumeSizesOf),
		change("POST", one+"/adjust", Daily, wire.OpModify|wire.ObjRscGrp, 200, (*Server).adjustGroup),
		change("POST", groups+"/adjustall", Daily, wire.OpModify|wire.ObjRscGrp, 200, (*Server).adjustAll),
		get(groups+"/properties/info", Rare, wire.ObjRscGrp, propsInfo(props.Group)),
		get("/v1/stats/resource-groups", Feature, wire.ObjRscGrp, count(func(r store.Reader) int { return schema.Groups.Len(r) })),

		get(volumes, Daily, wire.ObjVlmGrp, (*Server).listVolumeGroups),
		create(volumes, Daily, wire.ObjVlmGrp, (*Server).createVolumeGroup),
		get(volume, Feature, wire.ObjVlmGrp, (*Server).getVolumeGroup),
		modify(volume, Daily, wire.ObjVlmGrp, (*Server).modifyVolumeGroup),
		drop(volume, Daily, wire.ObjVlmGrp, (*Server).deleteVolumeGroup),
		get(volumes+"/properties/info", Rare, wire.ObjVlmGrp, propsInfo(props.VolumeGroup)),
	}
}

func definitionRoutes() []Route {
	const (
		definitions = "/v1/resource-definitions"
		one         = definitions + "/{resource}"
		volumes     = one + "/volume-definitions"
		volume      = volumes + "/{volume_number}"
		proxy       = one + "/drbd-proxy"
	)
	return []Route{
		get(definitions, Daily, wire.ObjRscDfn, (*Server).listDefinitions),
		create(definitions, Daily, wire.ObjRscDfn, (*Server).createDefinition),
		get(one, Daily, wire.ObjRscDfn, (*Server).getDefinition),
		modify(one, Daily, wire.ObjRscDfn, (*Server).modifyDefinition),
		remove(one, Daily, wire.ObjRscDfn, errs.ResourceDefinition, (*Server).deleteDefinition),
		get(one+"/sync-status", Daily, wire.ObjRscDfn, (*Server).syncStatus),
		planned("POST", one+"/files/{extFileName}", Feature),
		planned("DELETE", one+"/files/{extFileName}", Feature),
		get(definitions+"/properties/info", Rare, wire.ObjRscDfn, propsInfo(props.Definition)),
		get("/v1/stats/resource-definitions", Feature, wire.ObjRscDfn,
			count(func(r store.Reader) int { return schema.Definitions.Len(r) })),

		get(volumes, Daily, wire.ObjVlmDfn, (*Server).listVolumeDefinitions),
		change("POST", volumes, Daily, wire.OpCreate|wire.ObjVlmDfn, 200, (*Server).createVolumeDefinition),
		get(volume, Daily, wire.ObjVlmDfn, (*Server).getVolumeDefinition),
		modify(volume, Daily, wire.ObjVlmDfn, (*Server).modifyVolumeDefinition),
		remove(volume, Daily, wire.ObjVlmDfn, errs.VolumeDefinition, (*Server).deleteVolumeDefinition),
		planned("PUT", volume+"/encryption-passphrase", Feature),
		get(volumes+"/properties/info", Rare, wire.ObjVlmDfn, propsInfo(props.VolumeDefinition)),

		planned("PUT", proxy, Rare),
		empty(get(proxy+"/properties/info", Rare, wire.ObjRscDfn, noPropsInfo)),
		planned("POST", proxy+"/enable/{node_a}/{node_b}", Rare),
		planned("POST", proxy+"/disable/{node_a}/{node_b}", Rare),
	}
}

func resourceRoutes() []Route {
	const (
		definition  = "/v1/resource-definitions/{resource}"
		resources   = definition + "/resources"
		one         = resources + "/{node}"
		volumes     = one + "/volumes"
		volume      = volumes + "/{volume_number}"
		connections = definition + "/resource-connections"
	)
	return []Route{
		get("/v1/view/resources", Daily, wire.ObjRsc, (*Server).viewResources),
		get(resources, Daily, wire.ObjRsc, (*Server).listResources),
		create(resources, Daily, wire.ObjRsc, (*Server).createResources),
		get(one, Daily, wire.ObjRsc, (*Server).getResource),
		create(one, Daily, wire.ObjRsc, (*Server).createResource),
		modify(one, Daily, wire.ObjRsc, (*Server).modifyResource),
		remove(one, Daily, wire.ObjRsc, errs.Resource, (*Server).deleteResource),
		create(definition+"/autoplace", Daily, wire.ObjRsc, (*Server).autoplace),
		change("POST", one+"/make-available", Daily, wire.OpModify|wire.ObjRsc, 200, (*Server).makeAvailable),
		get(resources+"/properties/info", Rare, wire.ObjRsc, propsInfo(props.Resource)),
		get("/v1/stats/resources", Feature, wire.ObjRsc, count(func(r store.Reader) int { return schema.Resources.Len(r) })),

		get(volumes, Daily, wire.ObjVlm, (*Server).listVolumes),
		get(volume, Daily, wire.ObjVlm, (*Server).getVolume),
		modify(volume, Daily, wire.ObjVlm, (*Server).modifyVolume),
		get(volumes+"/properties/info", Rare, wire.ObjVlm, propsInfo(props.Volume)),

		get(connections, Feature, wire.ObjRscConn, (*Server).listResourceConnections),
		get(definition+"/resources-connections", Feature, wire.ObjRscConn, (*Server).listResourceConnections), // as golinstor spells it
		get(connections+"/{node_a}/{node_b}", Feature, wire.ObjRscConn, (*Server).getResourceConnection),
		modify(connections+"/{node_a}/{node_b}", Feature, wire.ObjRscConn, (*Server).modifyResourceConnection),
		get(connections+"/properties/info", Rare, wire.ObjRscConn, propsInfo(props.ResourceConnection)),
	}
}
