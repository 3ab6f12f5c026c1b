// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package lvm_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/lvm"
	"github.com/holdfast-storage/holdfast/internal/command"
)

// programs is a host on which all programs take a second, and answer with what was recorded of an empty group.
type programs struct {
	t       *testing.T
	hung    string // A group whose programs do not end by themselves.
	most    atomic.Int32
	running atomic.Int32

	mu  sync.Mutex
	ran []string
}

func (p *programs) Run(ctx context.Context, c command.Command) (command.Result, error) {
	now := p.running.Add(1)
	defer p.running.Add(-1)
	for most := p.most.Load(); now > most && !p.most.CompareAndSwap(most, now); most = p.most.Load() {
	}
	p.mu.Lock()
	p.ran = append(p.ran, c.Program+" "+strings.Join(c.Args, " "))
	p.mu.Unlock()
	took := time.Second
	group := c.Args[len(c.Args)-1]
	if p.hung != "" && strings.HasPrefix(group, p.hung) {
		took = time.Hour
	}
	ctx, cancel := context.WithTimeout(ctx, c.Limit)
	defer cancel()
	select {
	case <-time.After(took):
	case <-ctx.Done():
		return command.Result{}, &command.Error{Kind: command.TimedOut, Program: c.Program, Code: -1, Err: ctx.Err()}
	}
	switch c.Program {
	case "lvmconfig":
		return command.Result{Stdout: []byte(`global_filter=["r|/dev/sdz|","a|.*|"]`)}, nil
	case "lvm":
		return command.Result{Stdout: recorded(p.t, "report-empty.json")}, nil
	}
	return command.Result{}, nil
}

// count is how many calls had a word.
func (p *programs) count(word string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, call := range p.ran {
		if strings.Contains(call, word) {
			n++
		}
	}
	return n
}

func thick(t *testing.T, host *lvm.Host, group string) *lvm.Thick {
	t.Helper()
	d, err := lvm.NewThick(lvm.Config{Name: "p", Group: group, Host: host})
	must(t, err)
	return d
}

func TestQueriesAreSharedAndProgramsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &programs{t: t}
		host := lvm.NewHost(p)
		var wg sync.WaitGroup
		const volumes = 50
		for g := range 5 {
			d := thick(t, host, fmt.Sprintf("vg%d", g))
			for i := range volumes {
				wg.Go(func() {
					if err := d.Create(t.Context(), pool.ID{Resource: "db", Volume: i}, 1<<20); err != nil {
						t.Error(err)
					}
				})
			}
		}
		wg.Wait()
		if most := p.most.Load(); most > lvm.MaxCommands {
			t.Errorf("%d programs ran at once", most)
		}
		if made := p.count("lvcreate"); made != 5*volumes {
			t.Errorf("%d volumes were made", made)
		}
		if looks := p.count("fullreport"); looks > 5*2 {
			t.Errorf("%d reports were made for %d volumes that all came at once", looks, 5*volumes)
		}
	})
}

func TestGroupThatHangsHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &programs{t: t, hung: "bad"}
		host := lvm.NewHost(p)
		bad, good := thick(t, host, "bad"), thick(t, host, "good")
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				began := time.Now()
				_, err := bad.Space(t.Context())
				hung, ok := errors.AsType[*lvm.HungError](err)
				if took := time.Since(began); !ok || hung.Group != "bad" || took > 90*time.Second {
					t.Errorf("after %s: %v", took, err)
				}
			})
		}
		time.Sleep(time.Second)
		began := time.Now()
		if err := good.Create(t.Context(), pool.ID{Resource: "db"}, 1<<20); err != nil || time.Since(began) > 10*time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		wg.Wait()
	})
}

func TestDevicesOnVolumesAreNotLookedInto(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &programs{t: t}
		_, err := thick(t, lvm.NewHost(p), "vg").Space(t.Context())
		must(t, err)
		p.mu.Lock()
		defer p.mu.Unlock()
		i := slices.IndexFunc(p.ran, func(call string) bool { return strings.HasPrefix(call, "lvm fullreport") })
		if i < 0 {
			t.Fatalf("ran %q", p.ran)
		}
		// Ours come first, and what the host's own configuration says is kept.
		const want = `devices{global_filter=["r|^/dev/drbd|","r|^/dev/zd[0-9]|","r|^/dev/zvol/|","r|/dev/sdz|","a|.*|"] scan_lvs=0}`
		if !strings.Contains(p.ran[i], want) || strings.Count(p.ran[i], "--config ") != 1 {
			t.Errorf("ran %q, want %q in it", p.ran[i], want)
		}
	})
}

// A program of LVM that was killed between its two messages to a thin pool leaves a volume that LVM wants to make once more.
func TestOnlyAVolumeThatNobodyWasToldOfIsForgottenByItsThinPool(t *testing.T) {
	const said = "Thin pool %s (253:2) already contain thin device with device_id %d.\n"
	for _, test := range []struct {
		what, stderr string
		forgotten    bool
	}{
		{"new", fmt.Sprintf(said, "vg-tp-tpool", 2), true},
		{"finished", fmt.Sprintf(said, "vg-tp-tpool", 1), false},
		{"unknown", fmt.Sprintf(said, "vg-tp-tpool", 7), false},
		{"in another pool", fmt.Sprintf(said, "vg-tp2-tpool", 2), false},
		{"something else", "No space left", false},
	} {
		t.Run(test.what, func(t *testing.T) {
			var changes []string
			runner := command.RunnerFunc(func(_ context.Context, c command.Command) (command.Result, error) {
				switch c.Program {
				case "lvmconfig":
					return command.Result{Stdout: []byte(`global_filter=["a|.*|"]`)}, nil
				case "lvm":
					return command.Result{Stdout: recorded(t, "report-volumes.json")}, nil
				}
				changes = append(changes, c.Program+" "+strings.Join(c.Args[max(0, len(c.Args)-4):], " "))
				if len(changes) == 1 {
					return command.Result{}, &command.Error{Kind: command.Exited, Program: c.Program, Code: 5, Stderr: test.stderr}
				}
				return command.Result{}, nil
			})
			d, err := lvm.NewThin(lvm.Config{Name: "p", Group: "vg", ThinPool: "tp", Host: lvm.NewHost(runner)})
			must(t, err)
			err = d.RemoveSnapshot(t.Context(), pool.SnapshotID{Resource: "db", Snapshot: "daily"})
			if (err == nil) != test.forgotten {
				t.Errorf("ended with %v", err)
			}
			if forgotten := slices.Contains(changes, "dmsetup message vg-tp-tpool 0 delete 2"); forgotten != test.forgotten || !forgotten && len(changes) != 1 {
				t.Errorf("ran %q", changes)
			}
		})
	}
}
