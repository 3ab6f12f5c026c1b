// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package hold

// Kill ends the Set as the end of its process would: nothing is recorded, awaited or unmounted.
func (s *Set) Kill() {
	s.die()
	s.loops.Wait()
}
