// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent/mount"
)

// Outcome is what became of a mount after a hold left it.
type Outcome string

// The outcomes.
const (
	NotNeeded Outcome = "not needed" // It stays: others hold it, or it is desired.
	Done      Outcome = "done"       // It is not mounted any more.
	Deferred  Outcome = "deferred"   // It is still mounted and will be unmounted later.
	Abandoned Outcome = "abandoned"  // The unmount hangs in the kernel and was left there.
)

// Teardown says what became of a mount. It never is a reason to call the work of the holder failed.
type Teardown struct {
	Outcome  Outcome
	Holders  int          // With NotNeeded: how many holds are left.
	Anomaly  bool         // There was no such hold to release.
	Reason   string       // Why it is still mounted, or how it was unmounted when that was not as usual.
	Next     time.Time    // With Deferred: when it is tried next. Zero: when something changes.
	Blockers []mount.User // With Deferred: who uses it.
}

// String returns the outcome as people read it.
func (t Teardown) String() string {
	var b strings.Builder
	b.WriteString(string(t.Outcome))
	if t.Outcome == NotNeeded && t.Holders > 0 {
		fmt.Fprintf(&b, ", held by %d", t.Holders)
	}
	if t.Anomaly {
		b.WriteString(", there was no such hold")
	}
	if t.Reason != "" {
		fmt.Fprintf(&b, ": %s", t.Reason)
	}
	for i, u := range t.Blockers {
		sep := "; "
		if i == 0 {
			sep = ": "
		}
		fmt.Fprintf(&b, "%s%s", sep, u)
	}
	if !t.Next.IsZero() {
		fmt.Fprintf(&b, "; next try at %s", t.Next.UTC().Format(time.RFC3339))
	}
	return b.String()
}
