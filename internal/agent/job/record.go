// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/durable"
)

// record is what is kept of a job.
type record struct {
	Status    json.RawMessage `json:"status"` // An agentpb.JobStatus, as protojson writes it.
	Cancelled bool            `json:"cancelled,omitempty"`
	Failed    string          `json:"failed,omitempty"`   // Why it will have failed when nothing is left of it.
	Touched   bool            `json:"touched,omitempty"`  // Something may have been written that must not stay.
	Verified  *outcome        `json:"verified,omitempty"` // The result is there; all that is left is to give it its name.
	Clone     bool            `json:"clone,omitempty"`    // There may be a clone of its source.
	PID       int             `json:"pid,omitempty"`      // Of its worker,
	Start     uint64          `json:"start,omitempty"`    // and when that started.
	Reached   json.RawMessage `json:"reached,omitempty"`  // Where a download can be resumed.

	decoded *agentpb.JobStatus
}

func newRecord(j *agentpb.Job, now time.Time) record {
	return record{decoded: &agentpb.JobStatus{
		Job: proto.CloneOf(j), State: agentpb.JobStatus_WAITING, Created: timestamppb.New(now),
	}}
}

// status is the record's own status; it is not to be changed by readers.
func (r *record) status() *agentpb.JobStatus { return r.decoded }

// copy is a status for others.
func (r *record) copy() *agentpb.JobStatus { return proto.CloneOf(r.decoded) }

func (r *record) clone() record {
	c := *r
	c.decoded = proto.CloneOf(r.decoded)
	return c
}

// over tells whether a job has ended.
func over(st *agentpb.JobStatus) bool {
	switch st.GetState() {
	case agentpb.JobStatus_DONE, agentpb.JobStatus_FAILED, agentpb.JobStatus_CANCELLED:
		return true
	default:
		return false
	}
}

const recordSuffix = ".job"

func (r *record) path(dir string) string {
	return filepath.Join(dir, r.decoded.GetJob().GetId()+recordSuffix)
}

// save makes the record durable.
func (r *record) save(dir string) error {
	var err error
	if r.Status, err = protojson.Marshal(r.decoded); err != nil {
		return err
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return durable.Write(r.path(dir), append(text, '\n'))
}

func (r *record) remove(dir string) error { return durable.Remove(r.path(dir)) }

const unreadableSuffix = ".unreadable"

// load reads all records. Those that cannot be understood are put aside for a person to look at: nobody knows what they have left behind.
func load(dir string, aside func(file string, why error)) ([]record, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []record
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), recordSuffix) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		r, err := parseRecord(text)
		if err == nil && r.decoded.GetJob().GetId()+recordSuffix != e.Name() {
			err = fmt.Errorf("it is of job %s", r.decoded.GetJob().GetId())
		}
		if err == nil {
			all = append(all, r)
			continue
		}
		file := filepath.Join(dir, e.Name()) + unreadableSuffix
		if err := os.Rename(filepath.Join(dir, e.Name()), file); err != nil {
			return nil, err
		}
		aside(file, err)
	}
	return all, nil
}

func parseRecord(text []byte) (record, error) {
	var r record
	if err := json.Unmarshal(text, &r); err != nil {
		return r, err
	}
	r.decoded = &agentpb.JobStatus{}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(r.Status, r.decoded); err != nil {
		return r, err
	}
	if r.decoded.GetJob() == nil {
		return r, errors.New("it has no job in it")
	}
	return r, check(r.decoded.GetJob())
}
