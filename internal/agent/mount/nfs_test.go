// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package mount_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent/mount"
	"github.com/holdfast-storage/holdfast/internal/agent/mount/mounttest"
)

// on returns a source with options, as a spec.
func on(t *testing.T, export, opts string) mount.Spec {
	t.Helper()
	return mount.Spec{Source: source(t, mount.NFS, export), Options: options(t, mount.NFS, opts)}
}

func TestNFSExportIsMounted(t *testing.T) {
	lab := mounttest.NFS(t)
	for _, opts := range lab.Versions {
		t.Run(opts, func(t *testing.T) {
			h := newHost(t, nil)
			spec := on(t, lab.Export, opts)
			spec.Identity.Create = true
			m := h.up(t, spec)
			if !strings.HasPrefix(m.Entry.FSType, "nfs") || m.Identity == "" {
				t.Errorf("mounted %v, identity %q", m.Entry, m.Identity)
			}
			for _, o := range []string{"nosuid", "nodev", "noexec"} {
				if !strings.Contains(m.Entry.Options, o) {
					t.Errorf("options %q lack %s", m.Entry.Options, o)
				}
			}
			spec.Identity = mount.Identity{UUID: m.Identity}
			if err := h.Probe(t.Context(), spec, m.Entry); err != nil {
				t.Error(err)
			}
			write(t, filepath.Join(m.Entry.Target, "file"), page)
			p := mounttest.Use(t, mounttest.OpenFile, filepath.Join(m.Entry.Target, "file"))
			wantFault(t, h.Unmount(t.Context(), spec.Source, m.Entry, mount.Plain), mount.Busy)
			if users, err := h.Users(t.Context(), m.Entry); err != nil || len(users) != 1 || users[0].PID != p.PID {
				t.Errorf("users %v, %v", users, err)
			}
			p.Stop()
			if err := h.Unmount(t.Context(), spec.Source, m.Entry, mount.Plain); err != nil {
				t.Error(err)
			}
			if names, err := os.ReadDir(m.Entry.Target); err != nil || len(names) != 0 {
				t.Errorf("the bare folder has %v, %v", names, err)
			}
		})
	}
}

func TestNFSErrorsAreThoseOfTheProgram(t *testing.T) {
	lab := mounttest.NFS(t)
	h := newHost(t, nil)
	for _, tc := range []struct{ export, opts, says string }{
		{lab.Export + "-not", lab.Versions[0], "No such file or directory"},
		{lab.Export, lab.Versions[0] + ",nonesuch=1", "an incorrect mount option was specified"},
		{"nonesuch.invalid:/a", "", "mount.nfs:"},
	} {
		_, err := h.Mount(soon(t), on(t, tc.export, tc.opts))
		wantFault(t, err, mount.Failed, tc.says)
	}
}

func TestNFSServerThatHangs(t *testing.T) {
	lab := mounttest.NFS(t)
	h := newHost(t, nil)
	spec := on(t, lab.Export, lab.Versions[0]+",hard,timeo=10,retrans=1")
	m := h.up(t, spec)
	lab.Stop(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	wantFault(t, h.Probe(ctx, spec, m.Entry), mount.TimedOut)
	began := time.Now()
	if n := len(h.at(t, m.Entry.Target)); n != 1 || time.Since(began) > 100*time.Millisecond {
		t.Errorf("%d mounts, after %s", n, time.Since(began))
	}
	lab.Start(t)
	if err := h.Probe(soon(t), spec, m.Entry); err != nil {
		t.Errorf("after the server came back: %v", err)
	}
	lab.Stop(t)
	ctx, cancel = context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	if err := h.Unmount(ctx, spec.Source, m.Entry, mount.Detach); err != nil {
		t.Errorf("detach: %v", err)
	}
	if n := len(h.at(t, m.Entry.Target)); n != 0 {
		t.Errorf("%d mounts are left", n)
	}
}
