// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package wire

// The types of operations that Holdfast has beyond LINSTOR's API.

// Orphan is a volume on a host that carries the mark of Holdfast and that the database knows nothing of.
type Orphan struct {
	NodeName        string `json:"node_name"`
	StoragePoolName string `json:"storage_pool_name"`
	Volume          string `json:"volume"` // its name on the host
}

// Job is work that goes on beyond the call that began it.
type Job struct {
	ID               string   `json:"id"`
	Kind             string   `json:"kind"`
	Object           string   `json:"object"` // the name of what it works on
	State            string   `json:"state"`  // running, done, failed or cancelled
	Total            int32    `json:"total"`  // parts of the work, as far as known
	Done             int32    `json:"done"`   // of them
	Failed           int32    `json:"failed"` // parts with a problem in the newest try
	Problems         []string `json:"problems,omitempty"`
	Attempts         int32    `json:"attempts"`                     // tries in a row that brought no progress
	NextTryTimestamp *int64   `json:"next_try_timestamp,omitempty"` // milliseconds since the epoch, as all of them
	CreateTimestamp  int64    `json:"create_timestamp"`
	UpdateTimestamp  int64    `json:"update_timestamp"`
	EndTimestamp     *int64   `json:"end_timestamp,omitempty"`
}

// ExplainRequest asks what the next spawn from a group would do, with a filter over that of the group.
type ExplainRequest struct {
	VolumeSizes  []SizeKiB         `json:"volume_sizes,omitempty"`
	SelectFilter *AutoSelectFilter `json:"select_filter,omitempty"`
}

// Explanation tells what the next spawn from a group would do, and why. Reports say why it would fail; it has no picks then.
type Explanation struct {
	ResourceGroup string          `json:"resource_group"`
	LayerStack    []LayerType     `json:"layer_stack,omitempty"`
	PlaceCount    int32           `json:"place_count"`
	Picks         []ExplainedPick `json:"picks,omitempty"` // the best first
	Pools         []ExplainedPool `json:"pools,omitempty"`
	Reports       RcList          `json:"reports,omitempty"`
}

// ExplainedPick is where a replica would go.
type ExplainedPick struct {
	NodeName        string `json:"node_name"`
	StoragePoolName string `json:"storage_pool_name"`
}

// ExplainedPool tells whether a pool could take a replica. A node without any pool for data is one without a name.
type ExplainedPool struct {
	NodeName        string       `json:"node_name"`
	StoragePoolName string       `json:"storage_pool_name,omitempty"`
	ProviderKind    ProviderKind `json:"provider_kind,omitempty"`
	Accepted        bool         `json:"accepted"`
	Picked          bool         `json:"picked"`
	Score           *float64     `json:"score,omitempty"`          // of an accepted pool
	Reason          string       `json:"reason,omitempty"`         // of one that is not
	FreeCapacity    *SizeKiB     `json:"free_capacity,omitempty"`  // nil: not known, as all of them
	TotalCapacity   *SizeKiB     `json:"total_capacity,omitempty"` // of the pool
	Room            *SizeKiB     `json:"room_kib,omitempty"`       // that it can still promise
}

// PendingDelete is a replica that is to go, and that its host has not confirmed to be gone.
type PendingDelete struct {
	ResourceName     string `json:"resource_name"`
	NodeName         string `json:"node_name"`
	SinceTimestamp   *int64 `json:"since_timestamp,omitempty"`    // milliseconds since the epoch
	Connected        bool   `json:"connected"`                    // the host can work on it now
	Attempts         int32  `json:"attempts"`                     // that failed in a row
	LastError        string `json:"last_error,omitempty"`         // of the newest attempt
	NextTryTimestamp *int64 `json:"next_try_timestamp,omitempty"` // milliseconds since the epoch
}
