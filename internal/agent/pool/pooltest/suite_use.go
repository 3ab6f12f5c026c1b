// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package pooltest

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
)

func testInUse(t *testing.T, u *subject) {
	for kind, use := range u.Uses {
		t.Run(string(kind), func(t *testing.T) {
			u.create(t, db(0), 16*MiB)
			d := u.open(t, db(0))
			u.finish(t, db(0))
			release := use(t, db(0), d.Path)
			for _, restarted := range []bool{false, true} {
				if restarted {
					u.restart(t)
				}
				u.refused(t, "close", kind, u.d.Close(t.Context(), db(0)))
				u.refused(t, "remove", kind, u.d.Remove(t.Context(), db(0)))
				if v, again := u.find(t, db(0)), u.open(t, db(0)); v.New || v.Size != 16*MiB || again != d {
					t.Errorf("after refusals: %+v, %+v", v, again)
				}
				u.holders(t, kind)
			}
			u.grow(t, db(0), 32*MiB) // Growing under the user's feet is allowed.
			release()
			u.close(t, db(0))
			u.remove(t, db(0))
		})
	}
}

func (u *subject) refused(t *testing.T, what string, kind pool.HolderKind, err error) {
	t.Helper()
	e := wantError[*pool.InUseError](t, what, err)
	if e.ID.Fold() != db(0) || !slices.ContainsFunc(e.Holders, func(h pool.Holder) bool { return h.Kind == kind && h.Name != "" }) {
		t.Errorf("%s: %v, want a holder that is %s", what, e, kind)
	}
}

func (u *subject) holders(t *testing.T, kind pool.HolderKind) {
	t.Helper()
	lister, ok := u.d.(pool.HolderLister)
	if !ok {
		return
	}
	holders, err := lister.Holders(t.Context(), db(0))
	if err != nil || !slices.ContainsFunc(holders, func(h pool.Holder) bool { return h.Kind == kind }) {
		t.Errorf("holders %v, %v, want one that is %s", holders, err, kind)
	}
}

func testNewInUse(t *testing.T, u *subject) {
	use := u.Uses[pool.Opened]
	u.create(t, db(0), MiB)
	release := use(t, db(0), u.open(t, db(0)).Path)
	u.restart(t)
	u.refused(t, "create", pool.Opened, u.d.Create(t.Context(), db(0), 2*MiB))
	if v := u.find(t, db(0)); v.Size != MiB || !v.New {
		t.Errorf("%+v", v)
	}
	release()
	u.create(t, db(0), 2*MiB)
}

func testForeign(t *testing.T, u *subject) {
	if u.Foreign == nil {
		t.Skip("the pool holds nothing but volumes")
	}
	untouched := u.Foreign(t)
	if left := u.list(t); len(left) != 0 {
		t.Errorf("foreign things are listed: %+v", left)
	}
	u.create(t, db(0), MiB)
	u.open(t, db(0))
	u.finish(t, db(0))
	u.grow(t, db(0), 2*MiB)
	if n := len(u.list(t)); n != 1 {
		t.Errorf("%d volumes are listed, want 1", n)
	}
	u.close(t, db(0))
	u.remove(t, db(0))
	untouched(t)
}

// testCrash ends the driver after each step of a volume's life, and repeats the step in the next life.
func testCrash(t *testing.T, u *subject) {
	type step struct {
		name string
		do   func(*testing.T)
	}
	steps := []step{
		{"create", func(t *testing.T) { u.create(t, db(0), MiB) }},
		{"open", func(t *testing.T) { u.open(t, db(0)) }},
		{"finish", func(t *testing.T) { u.finish(t, db(0)) }},
		{"grow", func(t *testing.T) { u.grow(t, db(0), 2*MiB) }},
		{"close", func(t *testing.T) { u.close(t, db(0)) }},
		{"reopen", func(t *testing.T) { u.open(t, db(0)) }},
		{"grow open", func(t *testing.T) { u.grow(t, db(0), 3*MiB) }},
		{"remove", func(t *testing.T) { u.remove(t, db(0)) }},
	}
	for _, s := range steps {
		t.Run(s.name, func(t *testing.T) {
			for range 2 {
				s.do(t)
				u.restart(t)
			}
		})
	}
}

func testMany(t *testing.T, u *subject) {
	n := u.few(32)
	g, ctx := errgroup.WithContext(t.Context())
	devices := make([]string, n)
	for i := range n {
		g.Go(func() error { return live(ctx, u.d, pool.ID{Resource: fmt.Sprintf("r%d", i)}, &devices[i]) })
	}
	for range 4 { // Someone always looks.
		g.Go(func() error {
			_, err := u.d.List(ctx)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(devices)
	if len(slices.Compact(devices)) != n {
		t.Errorf("two volumes had one device: %v", devices)
	}
	if got := len(u.list(t)); got != n {
		t.Errorf("%d volumes are listed, want %d", got, n)
	}
	g, ctx = errgroup.WithContext(t.Context())
	for i := range n {
		g.Go(func() error { return u.d.Remove(ctx, pool.ID{Resource: fmt.Sprintf("r%d", i)}) })
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
}

// live takes a volume through all that does not end it, and notes its device.
func live(ctx context.Context, d pool.Driver, id pool.ID, device *string) error {
	if err := d.Create(ctx, id, MiB); err != nil {
		return fmt.Errorf("create %s: %w", id, err)
	}
	if _, err := d.Open(ctx, id); err != nil {
		return fmt.Errorf("open %s: %w", id, err)
	}
	if err := d.Finish(ctx, id); err != nil {
		return fmt.Errorf("finish %s: %w", id, err)
	}
	if err := d.Grow(ctx, id, 2*MiB); err != nil {
		return fmt.Errorf("grow %s: %w", id, err)
	}
	if err := d.Close(ctx, id); err != nil {
		return fmt.Errorf("close %s: %w", id, err)
	}
	dev, err := d.Open(ctx, id)
	if err != nil {
		return fmt.Errorf("open %s again: %w", id, err)
	}
	v, ok, err := pool.Find(ctx, d, id)
	if err != nil || !ok || v.New || v.Size != 2*MiB || v.Device != dev {
		return fmt.Errorf("find %s: %+v, %t, %w", id, v, ok, err)
	}
	*device = dev.Path
	return nil
}

func testContended(t *testing.T, u *subject) {
	u.create(t, db(0), MiB)
	g, ctx := errgroup.WithContext(t.Context())
	paths := make([]string, 8)
	for i := range paths {
		g.Go(func() error {
			d, err := u.d.Open(ctx, db(0))
			paths[i] = d.Path
			return err
		})
		g.Go(func() error { return u.d.Finish(ctx, db(0)) })
		g.Go(func() error { return u.d.Grow(ctx, db(0), int64(i+1)*MiB) })
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if len(slices.Compact(paths)) != 1 {
		t.Errorf("one volume was opened as %v", paths)
	}
	if v, d := u.find(t, db(0)), u.open(t, db(0)); v.New || v.Size != 8*MiB || d.Size != 8*MiB {
		t.Errorf("%+v, %+v", v, d)
	}
	g, ctx = errgroup.WithContext(t.Context())
	for range 4 {
		g.Go(func() error { return u.d.Close(ctx, db(0)) })
		g.Go(func() error { return u.d.Remove(ctx, db(0)) })
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	u.absent(t, db(0))
}
