// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package wire

// The work of one host, and its pools on mounts: what Holdfast has beyond LINSTOR's API.

// HostJob is work on volumes and files of the pools of one host.
type HostJob struct {
	NodeName string `json:"node_name"`
	HostJobCreate
	State           string `json:"state"`             // waiting, running, done, failed or cancelled
	DoneBytes       int64  `json:"done_bytes"`        //
	TotalBytes      int64  `json:"total_bytes"`       // zero when it is not known
	Result          string `json:"result,omitempty"`  // the checksum of the result, once it was verified
	Problem         string `json:"problem,omitempty"` // why it has failed, or what is being tried again
	Attempts        int32  `json:"attempts"`          // tries in a row that failed
	CreateTimestamp int64  `json:"create_timestamp"`  // milliseconds since the epoch
	EndTimestamp    *int64 `json:"end_timestamp,omitempty"`
	Current         bool   `json:"current"` // false: the node is away, and this is what it said last
}

// HostJobCreate begins a job, or joins the one that has its id.
type HostJobCreate struct {
	ID       string  `json:"id"`                 // chosen by whoever begins it; empty: by the controller
	Kind     string  `json:"kind"`               // copy, download, export or import
	From     *JobEnd `json:"from,omitempty"`     // of a copy, an export and an import
	To       *JobEnd `json:"to,omitempty"`       //
	URL      string  `json:"url,omitempty"`      // of a download, http or https
	Checksum string  `json:"checksum,omitempty"` // that the result must have, as sha256:HEX, sha512:HEX or md5:HEX
	Format   string  `json:"format,omitempty"`   // of the image: raw or qcow2; empty for raw
}

// JobEnd is a volume, a snapshot of one, or a file in a pool.
type JobEnd struct {
	ResourceName string `json:"resource_name,omitempty"`
	VolumeNumber int32  `json:"volume_number"`
	SnapshotName string `json:"snapshot_name,omitempty"`
	StoragePool  string `json:"storage_pool,omitempty"` // that a file lies in
	Path         string `json:"path,omitempty"`         // of a file, relative to the folder of its pool
}

// HeldPool is a storage pool that lies on a mount, as its host has it.
type HeldPool struct {
	NodeName         string   `json:"node_name"`
	StoragePoolName  string   `json:"storage_pool_name"`
	Source           string   `json:"source"`
	Target           string   `json:"target"`
	State            string   `json:"state"`
	Options          string   `json:"options,omitempty"`
	Identity         string   `json:"identity,omitempty"`
	Holds            []Hold   `json:"holds,omitempty"`
	Blockers         []string `json:"blockers,omitempty"`
	LastError        string   `json:"last_error,omitempty"`
	NextTryTimestamp *int64   `json:"next_try_timestamp,omitempty"`
}

// Hold is a claim of one user on a pool that lies on a mount.
type Hold struct {
	ID              string `json:"id"`
	Kind            string `json:"kind"`
	Holder          string `json:"holder"`
	ReadOnly        bool   `json:"read_only"`
	Subpath         string `json:"subpath,omitempty"`
	CreateTimestamp *int64 `json:"create_timestamp,omitempty"`
	Waiting         bool   `json:"waiting"`          // not granted yet
	Derived         bool   `json:"derived"`          // seen, not acquired: nobody can release it
	Broken          string `json:"broken,omitempty"` // why what it was granted on is of no use any more
	OrphanTimestamp *int64 `json:"orphan_timestamp,omitempty"`
}

// HoldCreate acquires a hold. Doing it again with the same id is the same hold.
type HoldCreate struct {
	ID       string `json:"id"`
	Holder   string `json:"holder,omitempty"` // for people
	ReadOnly *bool  `json:"read_only,omitempty"`
}
