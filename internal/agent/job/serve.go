// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent/worker"
	"github.com/holdfast-storage/holdfast/internal/command"
)

// KindName is the kind of the workers of this package.
const KindName = "job"

// Kind is what the workers of this package serve: one job. A worker works in the folder of the pool that the job's file lies in.
func Kind() worker.Kind {
	return worker.Kind{Codec: codec(), Open: func(json.RawMessage) (map[string]worker.Handler, error) {
		w := work{runner: &command.Exec{}}
		return map[string]worker.Handler{
			copyMethod:     method(w.copyVolume),
			downloadMethod: method(w.download),
			exportMethod:   method(w.export),
			importMethod:   method(w.importFile),
			wipeMethod:     method(w.wipe),
			publishMethod:  method(publish),
		}, nil
	}}
}

// The methods of a worker.
const (
	copyMethod     = "copy"
	downloadMethod = "download"
	exportMethod   = "export"
	importMethod   = "import"
	publishMethod  = "publish" // Gives a file its name.
	wipeMethod     = "wipe"    // Removes what a job has left.
)

// task is what a worker is to do.
type task struct {
	Source   string        `json:"source,omitempty"` // A block device.
	Target   string        `json:"target,omitempty"` // Likewise.
	File     string        `json:"file,omitempty"`   // Relative to the worker's folder.
	Draft    string        `json:"draft,omitempty"`  // What the file is called until it is whole, likewise.
	Scratch  string        `json:"scratch,omitempty"`
	URL      string        `json:"url,omitempty"`
	Checksum string        `json:"checksum,omitempty"`
	Format   string        `json:"format,omitempty"`
	Wait     time.Duration `json:"wait,omitempty"`
	Reached  *reached      `json:"reached,omitempty"`
}

// news is what a worker tells on the way.
type news struct {
	Done    int64    `json:"done"`
	Total   int64    `json:"total"`
	Reached *reached `json:"reached,omitempty"`
	Problem string   `json:"problem,omitempty"` // What is being tried again.
}

// outcome is what a worker has verified.
type outcome struct {
	Checksum string `json:"checksum"`
	Size     int64  `json:"size"`
}

// RefusedError says that a job cannot be done, and that the worker that says so has written nothing for it.
type RefusedError struct {
	Reason string
	Err    error `json:"-"`
}

func (e *RefusedError) Error() string { return e.Reason }

// Unwrap returns the cause.
func (e *RefusedError) Unwrap() error { return e.Err }

// refusef makes a RefusedError.
func refusef(format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	return &RefusedError{Reason: err.Error(), Err: errors.Unwrap(err)}
}

func codec() worker.Codec {
	return worker.Codec{
		Encode: func(err error) (string, any) {
			if r, ok := errors.AsType[*RefusedError](err); ok {
				return "refused", r
			}
			return "", nil
		},
		Decode: func(kind string, body []byte) error {
			var r RefusedError
			if kind != "refused" || json.Unmarshal(body, &r) != nil {
				return nil
			}
			return &r
		},
	}
}

// method makes a handler of a function.
func method(f func(ctx context.Context, t task, tell func(news)) (outcome, error)) worker.Handler {
	return func(ctx context.Context, args json.RawMessage, tell func(any)) (any, error) {
		var t task
		if err := json.Unmarshal(args, &t); err != nil {
			return nil, err
		}
		o, err := f(ctx, t, func(n news) { tell(n) })
		if err != nil {
			return nil, err
		}
		return o, nil
	}
}

// work is the worker's side of a job.
type work struct{ runner command.Runner }
