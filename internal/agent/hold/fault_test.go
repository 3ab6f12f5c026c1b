// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package hold_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/agent/mount"
)

// subject is a manager in a world, in a bubble.
type subject struct {
	manager

	w      *world
	point  string        // Where a manager that counts is held once, between reading and writing.
	resume chan struct{} // Ends that.
}

// A fault runs a schedule and returns what went wrong.
type fault func(s *subject) []string

// faults are those of a real agent that counted users.
var faults = map[string]fault{
	"acquire and release with no entry":                         noEntry,
	"a release of what was never acquired":                      neverAcquired,
	"a failed unmount is reported as one":                       failedUnmount,
	"an acquire between no users and the unmount":               acquireBetween,
	"an acquire that fails leaves nothing behind, whatever why": failedAcquire,
}

func TestTheFourFaultsCannotHappen(t *testing.T) {
	for name, f := range faults {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(r *rig) {
				for _, wrong := range f(&subject{manager: sound{r}, w: r.world}) {
					t.Error(wrong)
				}
			})
		})
	}
}

func TestManagerThatCountsHasTheFourFaults(t *testing.T) {
	for name, f := range faults {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				s := &subject{w: w, resume: make(chan struct{})}
				p := w.process()
				s.manager = newNaive(p, func(point string) {
					if s.point == point {
						s.point = ""
						<-s.resume
					}
				})
				if wrong := f(s); len(wrong) == 0 {
					t.Error("the test does not find it")
				} else {
					t.Log(wrong)
				}
				w.open()
				p.end()
				synctest.Wait()
			})
		})
	}
}

// job is something that goes on at the same time.
func job(f func()) (done *bool) {
	done = new(bool)
	go func() { f(); *done = true }()
	return done
}

// noEntry: nobody holds the pool. One acquires it while another, who has failed to acquire it, gives back what he never had. The release must
// not erase the acquire: both are held between reading and writing what they change, if they do such a thing.
func noEntry(s *subject) []string {
	s.point = "decrement"
	gave := job(func() { s.release("b") })
	synctest.Wait()
	if err := s.acquire("a"); err != nil {
		return []string{err.Error()}
	}
	s.w.hold(nas, "a")
	if s.resume != nil {
		s.resume <- struct{}{}
	}
	synctest.Wait()
	if !*gave {
		return []string{"the release has not ended"}
	}
	if err := s.acquire("c"); err != nil {
		return []string{err.Error()}
	}
	s.release("c")
	return verdictOn(s, "a")
}

// verdictOn checks that the only user of the pool has it, and that it goes down when he leaves.
func verdictOn(s *subject, user string) []string {
	wrong := s.w.violations()
	if n := s.w.mounted(nas); n != 1 {
		wrong = append(wrong, fmt.Sprintf("%s holds it and there are %d mounts", user, n))
	}
	s.w.unhold(nas, "a")
	if !s.release(user) || s.w.mounted(nas) != 0 {
		wrong = append(wrong, "it is not unmounted although its last user has left")
	}
	return append(wrong, s.w.violations()[min(len(wrong), len(s.w.violations())):]...)
}

// neverAcquired: releases of what was never acquired, and double ones, take nothing from others.
func neverAcquired(s *subject) []string {
	if err := errors.Join(s.acquire("a"), s.acquire("b")); err != nil {
		return []string{err.Error()}
	}
	s.w.hold(nas, "a")
	s.release("b")
	s.release("b")
	s.release("c")
	return verdictOn(s, "a")
}

// failedUnmount: what is reported is what is.
func failedUnmount(s *subject) []string {
	busy := &mount.Error{Fault: mount.Busy, Step: "unmount", Source: nas.String(), Errno: unix.EBUSY}
	var wrong []string
	for name, v := range map[string]verdict{"it failed": fails(busy), "it printed nothing and did nothing": lies, "it failed after it was done": late(busy)} {
		s.w.judge(func(c *call) verdict {
			if c.what == "unmount" {
				return v
			}
			return does
		})
		if err := s.acquire("a"); err != nil {
			return append(wrong, err.Error())
		}
		reported := s.release("a")
		if actual := s.w.mounted(nas) == 0; reported != actual {
			wrong = append(wrong, fmt.Sprintf("%s: reported as unmounted: %v; and it is: %v", name, reported, actual))
		}
		s.w.judge(nil)
	}
	if err := s.acquire("a"); err != nil {
		return append(wrong, err.Error())
	}
	return append(wrong, verdictOn(s, "a")...)
}

// acquireBetween: whoever comes when it is decided that nobody is left, and before the unmount is done, gets a mount that stays.
func acquireBetween(s *subject) []string {
	if err := s.acquire("a"); err != nil {
		return []string{err.Error()}
	}
	s.w.gateAt("mount", "unmount")
	s.w.unhold(nas, "a")
	gave := job(func() { s.release("a") })
	synctest.Wait()
	var err error
	got := job(func() {
		if err = s.acquire("b"); err == nil {
			s.w.hold(nas, "b")
		}
	})
	synctest.Wait()
	// The newcomer's mount first, if he has begun one, and then the unmount.
	for _, what := range []string{"mount", "unmount", "mount", "unmount"} {
		for _, c := range s.w.calls() {
			if c.what == what {
				s.w.let(c, does)
			}
		}
		synctest.Wait()
	}
	if !*gave || !*got || err != nil {
		return []string{fmt.Sprintf("release ended %v, acquire ended %v: %v", *gave, *got, err)}
	}
	s.w.open()
	wrong := s.w.violations()
	if s.w.mounted(nas) != 1 {
		wrong = append(wrong, "b holds it and it is not mounted")
	}
	s.w.unhold(nas, "b")
	s.release("b")
	return wrong
}

// failedAcquire: after any error whatsoever, the pool is as free as before.
func failedAcquire(s *subject) []string {
	errs := map[string]error{
		"of the program":    &mount.Error{Fault: mount.Failed, Step: "mount", Source: nas.String(), Code: 32, Stderr: "access denied"},
		"of time":           &mount.Error{Fault: mount.TimedOut, Step: "mount", Source: nas.String(), Err: context.DeadlineExceeded},
		"of the kernel":     unix.EIO,
		"of the context":    context.Canceled,
		"of no known class": errors.New("something else"),
	}
	var wrong []string
	for name, err := range errs {
		for how, v := range map[string]verdict{"before": fails(err), "after": late(err)} {
			s.w.judge(func(c *call) verdict {
				if c.what == "mount" {
					return v
				}
				return does
			})
			if err := s.acquire("a"); err == nil {
				wrong = append(wrong, "an error "+name+" is no error")
			}
			s.w.judge(nil)
			synctest.Wait()
			if err := s.acquire("a"); err != nil {
				return append(wrong, err.Error())
			}
			if !s.release("a") || s.w.mounted(nas) != 0 {
				wrong = append(wrong, "an error "+name+" "+how+" the mount leaves a claim behind")
			}
		}
	}
	return wrong
}
