// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/agent"
	"github.com/holdfast-storage/holdfast/internal/agent/fakecontroller"
)

var errAway = status.Error(codes.Unavailable, "the controller is away")

func TestRestartWithoutControllerServesWhatExists(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.FailApplies("unmade", 1, nil)
		s := b.serve(resource("r1", "pool1", 1), resource("lost", "pool1", 1))
		b.awaitReady("r1", 1)
		b.awaitReady("lost", 1)
		b.send(s, increment("1", "2", resource("unmade", "pool1", 2)))
		b.send(s, increment("2", "3", resource("r2", "pool2", 3)))
		b.awaitReady("r2", 3)
		b.stop()
		b.ctrl.Forget()
		b.LoseVolumes("lost")
		b.ctrl.Refuse(errAway)
		served := &servedHost{Host: b.host}
		b.startOn(served, agent.Limits{})
		synctest.Wait()
		if got := served.names(); got != "r1 r2" {
			t.Errorf("served %q without a controller, want r1 and r2", got)
		}
		elapse(10 * time.Minute)
		b.wantVolumes("pool1/r1/0 pool2/r2/0")

		b.ctrl.Refuse(nil)
		s = b.accept()
		if got := s.Hello.GetAppliesTo(); got != "" {
			t.Errorf("applies_to = %q: what a file says is not to be built upon", got)
		}
		began := time.Now()
		b.send(s, full("3", resource("r1", "pool1", 1), resource("lost", "pool1", 1), resource("r2", "pool2", 3), resource("unmade", "pool1", 2)))
		b.await("all that can be ready", func(n fakecontroller.Node) bool { return allReady(n, 3) })
		b.awaitState("lost", failed)
		if took := time.Since(began); took > time.Second {
			t.Errorf("took %s after the controller had come back", took)
		}
		b.wantVolumes("pool1/r1/0 pool2/r2/0 pool1/unmade/0")
	})
}

func TestSavedSetNeverDestroys(t *testing.T) {
	inBubble(t, func(b *bench) {
		s := b.serve(resource("r1", "pool1", 1), resource("r2", "pool1", 1))
		b.await("all to be ready", func(n fakecontroller.Node) bool { return allReady(n, 2) })
		b.Use("r1", "qemu")
		b.send(s, increment("1", "2", destroyed(resource("r1", "pool1", 2)), destroyed(resource("r2", "pool1", 2))))
		b.awaitState("r2", destroyedGone)
		b.awaitState("r1", failed)
		b.stop()
		b.ctrl.Forget()
		b.Leave("r1")
		b.ctrl.Refuse(errAway)
		b.start()
		elapse(10 * time.Minute)
		b.wantVolumes("pool1/r1/0")
		b.ctrl.Refuse(nil)
		b.send(b.accept(), full("2", destroyed(resource("r1", "pool1", 2))))
		b.awaitState("r1", destroyedGone)
		b.wantVolumes("")
	})
}

func TestSavedSetDestroysNoSingleVolume(t *testing.T) {
	inBubble(t, func(b *bench) {
		two := func(g uint64) *agentpb.Resource {
			r := resource("r1", "pool1", g)
			r.Volumes = append(r.Volumes, &agentpb.Volume{Number: 1, Pool: "pool1", Size: mib})
			return r
		}
		s := b.serve(two(1))
		b.awaitReady("r1", 1)
		b.Use("r1", "qemu")
		r := two(2)
		r.Volumes[1].Destroy = true
		b.send(s, increment("1", "2", r))
		b.awaitState("r1", failed)
		b.stop()
		b.Leave("r1")
		b.ctrl.Forget()
		b.ctrl.Refuse(errAway)
		b.start()
		elapse(10 * time.Minute)
		b.wantVolumes("pool1/r1/0 pool1/r1/1")
		b.ctrl.OnReport(func(_ context.Context, m *agentpb.ReportRequest) error {
			for _, s := range m.GetResources() {
				if s.GetState() == ready && b.volumes() != "pool1/r1/0" {
					t.Errorf("reported %v while the volume is there", s)
				}
			}
			return nil
		})
		b.ctrl.Refuse(nil)
		b.send(b.accept(), full("2", r))
		b.awaitReady("r1", 2)
		b.wantVolumes("pool1/r1/0")
	})
}

func TestStaleSavedSetCannotDestroyWhatIsAssignedAgain(t *testing.T) {
	inBubble(t, func(b *bench) {
		s := b.serve(resource("r1", "pool1", 1))
		b.awaitReady("r1", 1)
		b.send(s, increment("1", "2", destroyed(resource("r1", "pool1", 2))))
		b.awaitState("r1", destroyedGone)
		b.stop()
		stale := readFile(t, filepath.Join(b.StateDir, "assigned"))
		b.start()
		b.send(b.accept(), full("3", resource("r1", "pool1", 3)))
		b.awaitReady("r1", 3)
		b.stop()
		b.ctrl.Forget()
		writeFile(t, filepath.Join(b.StateDir, "assigned"), stale) // The disk went back in time.
		b.start()
		b.send(b.accept(), full("3", resource("r1", "pool1", 3)))
		b.awaitReady("r1", 3)
		b.wantVolumes("pool1/r1/0")
	})
}

func TestCrashBetweenApplyAndReport(t *testing.T) {
	for _, kept := range []bool{true, false} {
		t.Run(fmt.Sprintf("state kept %t", kept), func(t *testing.T) {
			inBubble(t, func(b *bench) {
				b.ctrl.OnReport(func(context.Context, *agentpb.ReportRequest) error { return errAway })
				s := b.serve(resource("r1", "pool1", 1))
				for b.volumes() == "" {
					elapse(time.Millisecond)
				}
				b.send(s, increment("1", "2", destroyed(resource("r2", "pool1", 2))))
				synctest.Wait()
				b.stop()
				if !kept {
					if err := os.Remove(filepath.Join(b.StateDir, "assigned")); err != nil {
						t.Fatal(err)
					}
				}
				b.ctrl.OnReport(nil)
				b.start()
				b.send(b.accept(), full("2", resource("r1", "pool1", 1), destroyed(resource("r2", "pool1", 2))))
				b.awaitReady("r1", 1)
				b.awaitState("r2", destroyedGone)
				b.wantVolumes("pool1/r1/0")
			})
		})
	}
}

func TestSavedFileThatCannotBeUsedIsSetAside(t *testing.T) {
	for name, spoil := range map[string]func([]byte) []byte{
		"torn":          func(b []byte) []byte { return b[:len(b)-3] },
		"empty":         func([]byte) []byte { return nil },
		"changed":       func(b []byte) []byte { b[len(b)-1] ^= 1; return b },
		"foreign":       func([]byte) []byte { return []byte("#!/bin/sh\necho hello\n") },
		"another node":  func(b []byte) []byte { return bytes.Replace(b, []byte(" n1 "), []byte(" n2 "), 1) },
		"newer program": func(b []byte) []byte { return bytes.Replace(b, []byte("assigned-1"), []byte("assigned-2"), 1) },
		"longer":        func(b []byte) []byte { return append(b, b...) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				b.serve(resource("r1", "pool1", 1))
				b.awaitReady("r1", 1)
				b.stop()
				b.ctrl.Forget()
				path := filepath.Join(b.StateDir, "assigned")
				spoiled := spoil(readFile(t, path))
				writeFile(t, path, spoiled)
				applies := b.Applies()
				b.ctrl.Refuse(errAway)
				b.start()
				synctest.Wait()
				if got := b.Applies(); got != applies {
					t.Error("the spoiled file was worked on")
				}
				if got := readFile(t, path+".set-aside"); !bytes.Equal(got, spoiled) {
					t.Errorf("set aside: %q", got)
				}
				if !strings.Contains(b.log.String(), "set aside") {
					t.Errorf("log: %s", b.log)
				}
				b.ctrl.Refuse(nil)
				b.send(b.accept(), full("1", resource("r1", "pool1", 1)))
				b.awaitReady("r1", 1)
			})
		})
	}
}

func TestStateDirectoryIsForOneAgent(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.serve()
		synctest.Wait()
		second := *b.config()
		if err := agent.Run(b.ctx, second); err == nil || !strings.Contains(err.Error(), "another agent") {
			t.Errorf("a second agent on the same state: %v", err)
		}
	})
}

func TestUnusableConfigurationIsRefusedAtOnce(t *testing.T) {
	inBubble(t, func(b *bench) {
		file := filepath.Join(b.StateDir, "file")
		writeFile(t, file, nil)
		for name, change := range map[string]func(*agent.Config){
			"name":  func(c *agent.Config) { c.Node = "-" },
			"dial":  func(c *agent.Config) { c.Dial = nil },
			"host":  func(c *agent.Config) { c.Host = nil },
			"state": func(c *agent.Config) { c.StateDir = file },
		} {
			c := b.config()
			change(c)
			if err := agent.Run(b.ctx, *c); err == nil {
				t.Errorf("%s: no error", name)
			}
		}
	})
}

func TestStateThatCannotBeWrittenStopsNothing(t *testing.T) {
	inBubble(t, func(b *bench) {
		s := b.serve(resource("r1", "pool1", 1))
		b.awaitReady("r1", 1)
		synctest.Wait()
		// A directory in the way of the new file stands for a disk that cannot be written.
		if err := os.Mkdir(filepath.Join(b.StateDir, "assigned.draft"), 0o700); err != nil {
			t.Fatal(err)
		}
		b.send(s, increment("1", "2", resource("r2", "pool1", 2)))
		b.awaitReady("r2", 2)
		elapse(time.Minute)
		if err := os.Remove(filepath.Join(b.StateDir, "assigned.draft")); err != nil {
			t.Fatal(err)
		}
		elapse(time.Minute)
		if !strings.Contains(b.log.String(), "could not be saved") {
			t.Errorf("log: %s", b.log)
		}
		if got := readFile(t, filepath.Join(b.StateDir, "assigned")); !bytes.Contains(got, []byte("r2")) {
			t.Error("the set was not saved later")
		}
	})
}

func (b *bench) config() *agent.Config {
	return &agent.Config{
		Node: node, Dial: func(string) (agent.Conn, error) { return nil, errors.New("no") }, Host: b.host, StateDir: b.StateDir, Uname: node,
	}
}

// servedHost remembers the names of the resources that were applied with success.
type servedHost struct {
	agent.Host
	log logBuffer
}

func (h *servedHost) Apply(ctx context.Context, w agent.Want) (agent.Result, error) {
	r, err := h.Host.Apply(ctx, w)
	if err == nil {
		_, _ = h.log.Write([]byte(w.Resource + "\n"))
	}
	return r, err
}

func (h *servedHost) names() string { return sortedWords(h.log.String()) }

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func writeFile(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}
