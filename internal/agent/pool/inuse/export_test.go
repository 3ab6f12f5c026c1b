// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package inuse

// Waiting returns how many callers wait for a look that has not begun.
func Waiting(s *Scanner) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		return 0
	}
	return s.next.callers
}

// Running tells whether a look is under way.
func Running(s *Scanner) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running
}
