// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

func snapshotRoutes() []Route {
	const (
		definition = "/v1/resource-definitions/{resource}"
		snapshots  = definition + "/snapshots"
		one        = snapshots + "/{snapshot}"
	)
	return []Route{
		get("/v1/view/snapshots", Daily, wire.ObjSnapshot, (*Server).viewSnapshots),
		get(snapshots, Daily, wire.ObjSnapshot, (*Server).listSnapshots),
		create(snapshots, Daily, wire.ObjSnapshot, (*Server).createSnapshot),
		get(one, Daily, wire.ObjSnapshot, (*Server).getSnapshot),
		modify(one, Feature, wire.ObjSnapshot, (*Server).modifySnapshot),
		remove(one, Daily, wire.ObjSnapshot, errs.Snapshot, (*Server).deleteSnapshot),
		create("/v1/actions/snapshot/multi", Daily, wire.ObjSnapshot, (*Server).createSnapshots),
		change("POST", definition+"/snapshot-restore-resource/{snapshot}", Daily, wire.OpCreate|wire.ObjRsc, 200, (*Server).restoreResource),
		change("POST", definition+"/snapshot-restore-volume-definition/{snapshot}", Daily, wire.OpCreate|wire.ObjVlmDfn, 200,
			(*Server).restoreVolumeDefinitions),
		change("POST", definition+"/snapshot-rollback/{snapshot}", Daily, wire.OpModify|wire.ObjSnapshot, 200, (*Server).rollBack),
	}
}

func cloneRoutes() []Route {
	const clones = "/v1/resource-definitions/{resource}/clone"
	return []Route{
		{Method: "POST", Path: clones, Tier: Daily, State: Served, mask: wire.OpCreate | wire.ObjRscDfn, handle: (*Server).clone},
		get(clones+"/{resourceClone}", Daily, wire.ObjRscDfn, (*Server).cloneStatus),
	}
}

func moveRoutes() []Route {
	const one = "/v1/resource-definitions/{resource}/resources/{node}"
	put := func(path string, f changer) Route {
		return change("PUT", one+path, Daily, wire.OpModify|wire.ObjRsc, 200, f)
	}
	return []Route{
		change("POST", one+"/activate", Daily, wire.OpModify|wire.ObjRsc, 200, (*Server).activate),
		change("POST", one+"/deactivate", Daily, wire.OpModify|wire.ObjRsc, 200, (*Server).deactivate),
		put("/toggle-disk", (*Server).toggleDisk),
		put("/toggle-disk/diskless", (*Server).removeDisk),
		put("/toggle-disk/diskless/{disklesspool}", (*Server).removeDisk),
		put("/toggle-disk/diskful", (*Server).addDisk),
		put("/toggle-disk/diskful/{storagepool}", (*Server).addDisk),
		put("/migrate-disk/{fromnode}", (*Server).migrateDisk),
		put("/migrate-disk/{fromnode}/{storagepool}", (*Server).migrateDisk),
	}
}

func eventRoutes() []Route {
	return []Route{
		raw("/v1/events/drbd/promotion", Feature, (*Server).promotionEvents),
		raw("/v1/events/nodes", Feature, (*Server).nodeEvents),
	}
}
