// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest

import "github.com/holdfast-storage/holdfast/internal/wire"

// hostRoutes are the jobs of hosts, and their pools on mounts.
func hostRoutes() []Route {
	const (
		jobs  = "/v1/nodes/{node}/jobs"
		job   = jobs + "/{job}"
		holds = "/v1/nodes/{node}/storage-pools/{storagepool}/holds"
	)
	return []Route{
		get(jobs, Feature, wire.ObjNode, (*Server).listHostJobs),
		create(jobs, Feature, wire.ObjNode, (*Server).createHostJob),
		get(job, Feature, wire.ObjNode, (*Server).getHostJob),
		drop(job, Feature, wire.ObjNode, (*Server).deleteHostJob),
		get("/v1/nodes/{node}/held-pools", Feature, wire.ObjNode, (*Server).listHeldPools),
		get(holds, Feature, wire.ObjStorPool, (*Server).listHolds),
		create(holds, Feature, wire.ObjStorPool, (*Server).acquireHold),
		drop(holds, Feature, wire.ObjStorPool, (*Server).releaseHold),
	}
}
