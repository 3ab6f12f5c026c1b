// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package stack_test

import (
	"context"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/holdfast-storage/holdfast/internal/agent/pool/pooltest"
	"github.com/holdfast-storage/holdfast/internal/agent/stack"
)

// TestAnyFaultsLeaveAStateThatConverges applies wishes while calls fail before or after their work, and looks at what may never be.
func TestAnyFaultsLeaveAStateThatConverges(t *testing.T) {
	ops := []pooltest.Op{pooltest.Find, pooltest.Holders, pooltest.Create, pooltest.Open, pooltest.Finish, pooltest.Grow, pooltest.Close, pooltest.Remove}
	rapid.Check(t, func(t *rapid.T) {
		b := newBench(pooltest.MemoryConfig{})
		size := int64(mib)
		for range rapid.IntRange(1, 6).Draw(t, "rounds") {
			var heal []func()
			for range rapid.IntRange(0, 3).Draw(t, "faults") {
				f := pooltest.Fault{
					Op:    rapid.SampledFrom(ops).Draw(t, "op"),
					After: rapid.Bool().Draw(t, "after"),
					Times: rapid.IntRange(1, 2).Draw(t, "times"),
					Err:   errors.New("injected"),
				}
				heal = append(heal, b.memory.Inject(f))
			}
			if rapid.Bool().Draw(t, "mkfs fails") {
				b.mkfs.fail = errors.New("injected")
			}
			size += rapid.SampledFrom([]int64{0, 0, mib}).Draw(t, "growth")
			w := wish(size, mib)
			w.Destroy = rapid.Bool().Draw(t, "destroy")
			r, err := b.Apply(t.Context(), w)
			check(t, b, w, r, err)
			for _, h := range heal {
				h()
			}
			b.mkfs.fail = nil
			r, err = b.Apply(t.Context(), w)
			if err != nil {
				t.Fatalf("without faults: %v", err)
			}
			check(t, b, w, r, err)
			if w.Destroy {
				size = mib
			}
		}
	})
}

// check looks whether an answer is what is there.
func check(t *rapid.T, b *bench, w stack.Want, r stack.Result, err error) {
	if len(b.mkfs.wrong) > 0 {
		t.Fatalf("finished volumes were formatted: %v", b.mkfs.wrong)
	}
	if err != nil {
		if r.State != "" {
			t.Fatalf("an error with the answer %+v", r)
		}
		return
	}
	volumes, err := b.memory.List(context.Background())
	if err != nil {
		return // A fault that was injected is left.
	}
	switch {
	case w.Destroy && (r.State != stack.Destroyed || len(volumes) != 0):
		t.Fatalf("%+v, and there is %+v", r, volumes)
	case !w.Destroy && (r.State != stack.Ready || len(volumes) != 2 || len(r.Volumes) != 2):
		t.Fatalf("%+v, and there is %+v", r, volumes)
	}
	for i, v := range volumes {
		if v.New || v.Device.Path == "" || v.Device.Path != r.Volumes[i].DevicePath || v.Size < w.Volumes[i].Size || v.Device.Size != v.Size {
			t.Fatalf("%+v, and there is %+v", r, v)
		}
	}
}
