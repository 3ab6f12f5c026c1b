// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"context"
	"slices"
	"time"
)

// Who only has a device open may be gone in a moment: udev and losetup look into devices, and so do other agents. They are
// looked for this often, with this pause in between, before they count as users.
const (
	passingTries = 10
	passingPause = 50 * time.Millisecond
)

// Lasting returns who uses something. It calls look once when there is nobody, or when one of them will not be gone in a
// moment, and otherwise again for a while.
func Lasting(ctx context.Context, look func(context.Context) ([]Holder, error)) ([]Holder, error) {
	for try := 1; ; try++ {
		holders, err := look(ctx)
		lasting := slices.ContainsFunc(holders, func(h Holder) bool { return h.Kind != Opened })
		if err != nil || len(holders) == 0 || lasting || try == passingTries {
			return holders, err
		}
		if err := Pause(ctx, passingPause); err != nil {
			return nil, err
		}
	}
}

// Pause waits. It is an error when ctx ends before.
func Pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
