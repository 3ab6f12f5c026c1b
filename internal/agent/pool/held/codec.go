// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package held

import (
	"encoding/json"
	"errors"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/worker"
)

// codec carries the errors of package pool over from the worker.
func codec() worker.Codec { return worker.Codec{Encode: encode, Decode: decode} }

// faulty is a pool.FaultyError with its cause as text.
type faulty struct {
	pool.FaultyError

	Err string
}

func encode(err error) (string, any) {
	if e, ok := errors.AsType[*pool.FaultyError](err); ok {
		f := faulty{FaultyError: *e}
		if e.Err != nil {
			f.Err = e.Err.Error()
		}
		f.FaultyError.Err = nil
		return "faulty", f
	}
	if e, ok := errors.AsType[*pool.ExistsError](err); ok {
		return "exists", e
	}
	if e, ok := errors.AsType[*pool.InUseError](err); ok {
		return "in use", e
	}
	if e, ok := errors.AsType[*pool.NoSpaceError](err); ok {
		return "no space", e
	}
	if e, ok := errors.AsType[*pool.NotFoundError](err); ok {
		return "not found", e
	}
	if e, ok := errors.AsType[*pool.SizeError](err); ok {
		return "size", e
	}
	if e, ok := errors.AsType[*pool.ChangedError](err); ok {
		return "changed", e
	}
	if e, ok := errors.AsType[*pool.LostError](err); ok {
		return "lost", e
	}
	return "", nil
}

func decode(kind string, body []byte) error {
	switch kind {
	case "faulty":
		var f faulty
		if json.Unmarshal(body, &f) != nil {
			return nil
		}
		e := f.FaultyError
		if f.Err != "" {
			e.Err = errors.New(f.Err)
		}
		return &e
	case "exists":
		return read(body, new(pool.ExistsError))
	case "in use":
		return read(body, new(pool.InUseError))
	case "no space":
		return read(body, new(pool.NoSpaceError))
	case "not found":
		return read(body, new(pool.NotFoundError))
	case "size":
		return read(body, new(pool.SizeError))
	case "changed":
		return read(body, new(pool.ChangedError))
	case "lost":
		return read(body, new(pool.LostError))
	}
	return nil
}

func read(body []byte, into error) error {
	if json.Unmarshal(body, into) != nil {
		return nil
	}
	return into
}
