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
