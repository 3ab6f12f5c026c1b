// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package held

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/file"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/freeze"
	"github.com/holdfast-storage/holdfast/internal/agent/worker"
	"github.com/holdfast-storage/holdfast/internal/command"
)

// KindName is the kind of the workers of this package.
const KindName = "file-pool"

// Kind is what the workers of this package serve: a pool in the folder that they work in.
func Kind() worker.Kind { return worker.Kind{Open: open, Codec: codec()} }

// setup says which pool a worker serves.
type setup struct {
	Name     string `json:"name"`
	Node     string `json:"node"`
	Dir      string `json:"dir"` // For messages.
	Thin     bool   `json:"thin,omitempty"`
	Identity string `json:"identity,omitempty"`
}

// arguments are those of all methods.
type arguments struct {
	ID       pool.ID         `json:"id,omitzero"`
	Snapshot pool.SnapshotID `json:"snapshot,omitzero"`
	Size     int64           `json:"size,omitempty"`
	Text     string          `json:"text,omitempty"` // A token, the name of a resource, the key of a suspension.
	IDs      []pool.ID       `json:"ids,omitempty"`
	Limit    time.Duration   `json:"limit,omitempty"`
}

// found is the result of the method find.
type found struct {
	Volume pool.Volume `json:"volume"`
	Found  bool        `json:"found"`
}

// The methods.
const (
	spaceMethod          = "space"
	listMethod           = "list"
	createMethod         = "create"
	finishMethod         = "finish"
	openMethod           = "open"
	closeMethod          = "close"
	growMethod           = "grow"
	removeMethod         = "remove"
	findMethod           = "find"
	holdersMethod        = "holders"
	identityMethod       = "identity"
	checkMethod          = "check"
	cloneMethod          = "clone"
	takeSnapshotMethod   = "take snapshot"
	finishSnapshotMethod = "finish snapshot"
	snapshotsMethod      = "snapshots"
	removeSnapshotMethod = "remove snapshot"
	rollBackMethod       = "roll back"
	suspendMethod        = "suspend"
	resumeMethod         = "resume"
)

// open makes the methods of a worker.
func open(text json.RawMessage) (map[string]worker.Handler, error) {
	var s setup
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, err
	}
	p, err := file.New(file.Config{
		Name: s.Name, Node: s.Node, Dir: s.Dir, Inside: true, Thin: s.Thin, Identity: s.Identity, Freezer: freeze.New(freeze.Config{Runner: &command.Exec{}}),
	})
	if err != nil {
		return nil, err
	}
	methods := volumeMethods(p)
	maps.Copy(methods, copyMethods(p))
	return methods, nil
}

// method makes a handler of a function.
func method(f func(ctx context.Context, a arguments, progress pool.Progress) (any, error)) worker.Handler {
	return func(ctx context.Context, text json.RawMessage, tell func(any)) (any, error) {
		var a arguments
		if err := json.Unmarshal(text, &a); err != nil {
			return nil, err
		}
		return f(ctx, a, func(c pool.Copied) { tell(c) })
	}
}

// on makes a handler of a method that works on one volume and returns nothing.
func on(f func(context.Context, pool.ID) error) worker.Handler {
	return method(func(ctx context.Context, a arguments, _ pool.Progress) (any, error) { return nil, f(ctx, a.ID) })
}

func volumeMethods(p *file.Pool) map[string]worker.Handler {
	return map[string]worker.Handler{
		spaceMethod: method(func(ctx context.Context, _ arguments, _ pool.Progress) (any, error) { return p.Space(ctx) }),
		listMethod:  method(func(ctx context.Context, _ arguments, _ pool.Progress) (any, error) { return p.List(ctx) }),
		createMethod: method(func(ctx context.Context, a arguments, _ pool.Progress) (any, error) {
			return nil, p.Create(ctx, a.ID, a.Size)
		}),
		finishMethod: on(p.Finish),
		openMethod:   method(func(ctx context.Context, a arguments, _ pool.Progress) (any, error) { return p.Open(ctx, a.ID) }),
		closeMethod:  on(p.Close),
		growMethod: method(func(ctx context.Context, a arguments, _ pool.Progress) (any, error) {
			return nil, p.Grow(ctx, a.ID, a.Size)
		}),
		removeMethod: on(p.Remove),
		findMethod: method(func(ctx context.Context, a arguments, _ pool.Progress) (any, error) {
			v, ok, err := p.Find(ctx, a.ID)
			return found{Volume: v, Found: ok}, err
		}),
		holdersMethod:  method(func(ctx context.Context, a arguments, _ pool.Progress) (any, error) { return p.Holders(ctx, a.ID) }),
		identityMethod: method(func(ctx context.Context, _ arguments, _ pool.Progress) (any, error) { return p.Identity(ctx) }),
		checkMethod:    method(func(ctx context.Context, _ arguments, _ pool.Progress) (any, error) { return nil, p.Check(ctx) }),
	}
}

func copyMethods(p *file.Pool) map[string]worker.Handler {
	still := &suspensions{open: map[string]pool.Suspension{}}
	return map[string]worker.Handler{
		cloneMethod: method(func(ctx context.Context, a arguments, progress pool.Progress) (any, error) {
			return nil, p.Clone(ctx, a.ID, a.Size, a.Snapshot, progress)
		}),
		takeSnapshotMethod: method(func(ctx context.Context, a arguments, progress pool.Progress) (any, error) {
			return nil, p.TakeSnapshot(ctx, a.Snapshot, progress)
		}),
		finishSnapshotMethod: method(func(ctx context.Context, a arguments, _ pool.Progress) (any, error) {
			return nil, p.FinishSnapshot(ctx, a.Snapshot)
		}),
		snapshotsMethod: method(func(ctx context.Context, a arguments, _ pool.Progress) (any, error) { return p.Snapshots(ctx, a.Text) }),
		removeSnapshotMethod: method(func(ctx context.Context, a arguments, _ pool.Progress) (any, error) {
			return nil, p.RemoveSnapshot(ctx, a.Snapshot)
		}),
		rollBackMethod: method(func(ctx context.Context, a arguments, progress pool.Progress) (any, error) {
			return nil, p.RollBack(ctx, a.Snapshot, a.Text, progress)
		}),
		suspendMethod: method(func(ctx context.Context, a arguments, _ pool.Progress) (any, error) {
			s, err := p.Suspend(ctx, a.IDs, a.Limit)
			if err != nil {
				return nil, err
			}
			return still.add(s), nil
		}),
		resumeMethod: method(func(_ context.Context, a arguments, _ pool.Progress) (any, error) { return still.resume(a.Text) }),
	}
}

// suspensions are those that the worker has begun, by the keys that the agent knows them by.
type suspensions struct {
	mu   sync.Mutex
	last int
	open map[string]pool.Suspension
}

func (s *suspensions) add(one pool.Suspension) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	key := strconv.Itoa(s.last)
	s.open[key] = one
	return key
}

func (s *suspensions) resume(key string) ([]pool.ID, error) {
	s.mu.Lock()
	one := s.open[key]
	delete(s.open, key)
	s.mu.Unlock()
	if one == nil {
		return nil, fmt.Errorf("no suspension %s is known", key)
	}
	return one.Resume()
}
