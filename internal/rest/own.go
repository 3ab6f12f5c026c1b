// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"net/http"

	"github.com/holdfast-storage/holdfast/internal/wire"
)

// OwnRoutes lists the operations that Holdfast has beyond the API. The list is the caller's own.
func OwnRoutes() []Route {
	return append(hostRoutes(), []Route{
		read(http.MethodPost, "/v1/nodes/{node}/join-token", Feature, wire.ObjNode, (*Server).createJoinToken),
		get("/v1/resource-groups/{resource_group}/explain", Feature, wire.ObjRscGrp, (*Server).explain),
		read(http.MethodPost, "/v1/resource-groups/{resource_group}/explain", Feature, wire.ObjRscGrp, (*Server).explainRequest),
		get("/v1/controller/database", Feature, wire.ObjCtrlConf, (*Server).showDatabase),
		get("/v1/pending-deletes", Feature, wire.ObjRsc, (*Server).listPendingDeletes),
		get("/v1/orphans", Feature, wire.ObjVlm, (*Server).listOrphans),
		drop("/v1/nodes/{node}/storage-pools/{storagepool}/orphans", Feature, wire.ObjVlm, (*Server).removeOrphans),
		get("/v1/jobs", Feature, 0, (*Server).listJobs),
		get("/v1/jobs/{job}", Feature, 0, (*Server).getJob),
	}...)
}
