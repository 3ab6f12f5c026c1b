// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

// dataList is how the API wraps the lists of schedules.
type dataList struct {
	Data []struct{} `json:"data"`
}

func backupRoutes() []Route {
	const (
		backups  = "/v1/remotes/{remote_name}/backups"
		schedule = backups + "/schedule/{schedule_name}"
		internal = "/v1/internal/backups/"
	)
	noSchedules := dataList{Data: []struct{}{}}
	return []Route{
		none("/v1/remotes", Asked, wire.RemoteList{}),
		planned("DELETE", "/v1/remotes", Feature),
		none("/v1/remotes/s3", Feature, []wire.S3Remote{}),
		planned("POST", "/v1/remotes/s3", Feature),
		planned("PUT", "/v1/remotes/s3/{remoteName}", Feature),
		none("/v1/remotes/linstor", Feature, []wire.LinstorRemote{}),
		planned("POST", "/v1/remotes/linstor", Feature),
		planned("PUT", "/v1/remotes/linstor/{remoteName}", Feature),
		none("/v1/remotes/ebs", Rare, []wire.EBSRemote{}),
		planned("POST", "/v1/remotes/ebs", Rare),
		planned("PUT", "/v1/remotes/ebs/{remoteName}", Rare),

		planned("GET", backups, Feature),
		planned("POST", backups, Feature),
		planned("DELETE", backups, Feature),
		planned("POST", backups+"/restore", Feature),
		planned("POST", backups+"/abort", Feature),
		planned("POST", backups+"/ship", Feature),
		planned("POST", backups+"/info", Feature),
		planned("PUT", schedule+"/enable", Feature),
		planned("PUT", schedule+"/disable", Feature),
		planned("DELETE", schedule+"/delete", Feature),

		none("/v1/schedules", Feature, noSchedules),
		planned("POST", "/v1/schedules", Feature),
		planned("PUT", "/v1/schedules/{scheduleName}", Feature),
		planned("DELETE", "/v1/schedules/{scheduleName}", Feature),
		none("/v1/view/schedules-by-resource", Feature, noSchedules),
		none("/v1/view/schedules-by-resource/{rscName}", Feature, noSchedules),
		none("/v1/view/backup/queue", Feature, struct{}{}),

		planned("POST", internal+"requestPrevSnap", Feature),
		planned("POST", internal+"requestShip", Feature),
		planned("POST", internal+"requestReceive", Feature),
		planned("POST", internal+"requestReceiveDone", Feature),
		planned("POST", internal+"requestPrepareAbort", Feature),
	}
}

func otherRoutes() []Route {
	const (
		instances = "/v1/key-value-store"
		instance  = instances + "/{instance}"
		file      = "/v1/files/{extFileName}"
	)
	return []Route{
		get(instances, Daily, wire.ObjKVS, (*Server).listKeyValues),
		get(instance, Daily, wire.ObjKVS, (*Server).getKeyValue),
		modify(instance, Daily, wire.ObjKVS, (*Server).modifyKeyValue),
		remove(instance, Daily, wire.ObjKVS, errs.KeyValueStore, (*Server).deleteKeyValue),

		none("/v1/files", Feature, []struct{}{}),
		planned("GET", file, Feature),
		planned("PUT", file, Feature),
		planned("DELETE", file, Feature),
		planned("GET", file+"/check/{node}", Feature),
		planned("GET", file+"/status/{node}", Feature),
	}
}
