// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/command"
)

func TestAHostSaysWhatItLacksForDRBD(t *testing.T) {
	const all = "drbdadm drbdsetup drbdmeta modinfo modprobe"
	for _, c := range []struct {
		name     string
		programs string
		loaded   string // version of the module that is loaded
		there    string // version of the one that would be
		tcp      bool   // the transport is loaded, or can be
		want     string // the beginning; empty: it lacks nothing
	}{
		{name: "nothing", programs: all, loaded: "9.2.18", tcp: true},
		{name: "nothing, once it is loaded", programs: all, there: "9.2.18", tcp: true},
		{name: "drbdadm", programs: "drbdsetup drbdmeta modinfo modprobe", loaded: "9.2.18", tcp: true, want: "the program drbdadm is not installed"},
		{name: "drbdmeta", programs: "drbdadm drbdsetup modinfo modprobe", loaded: "9.2.18", tcp: true, want: "the program drbdmeta is not installed"},
		{name: "the module", programs: all, want: "the kernel module drbd is not there"},
		{name: "the module, and the programs of modules", programs: "drbdadm drbdsetup drbdmeta", want: "the kernel module drbd is not there"},
		{name: "a newer one", programs: all, loaded: "8.4.11", want: "the kernel module drbd is of version 8.4.11, and 9 is needed"},
		{name: "a newer one, which is not loaded", programs: all, there: "8.4.11", want: "the kernel module drbd is of version 8.4.11, and 9 is needed"},
		{name: "the transport", programs: all, loaded: "9.2.18", want: "the kernel module drbd_transport_tcp cannot be loaded"},
	} {
		t.Run(c.name, func(t *testing.T) {
			sys := t.TempDir()
			load := func(module, version string) {
				folder := filepath.Join(sys, "module", module)
				if err := os.MkdirAll(folder, 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(folder, "version"), []byte(version+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if c.loaded != "" {
				load("drbd", c.loaded)
			}
			runner := command.RunnerFunc(func(_ context.Context, cmd command.Command) (command.Result, error) {
				fails := &command.Error{Kind: command.Exited, Program: cmd.Program, Code: 1}
				switch {
				case !strings.Contains(c.programs, cmd.Program):
					return command.Result{}, &command.Error{Kind: command.NotInstalled, Program: cmd.Program}
				case cmd.Program == "modinfo" && c.there == "":
					return command.Result{}, fails
				case cmd.Program == "modinfo":
					return command.Result{Stdout: []byte(c.there + "\n")}, nil
				case cmd.Program == "modprobe" && cmd.Args[0] == "drbd":
					if !strings.HasPrefix(c.there, "9.") {
						t.Errorf("the module of version %s was loaded", c.there)
					}
					load("drbd", c.there)
				case cmd.Program == "modprobe" && !c.tcp:
					return command.Result{}, fails
				case cmd.Program == "modprobe":
					load(cmd.Args[0], "")
				default:
					return command.Result{}, &command.Error{Kind: command.Exited, Program: cmd.Program, Code: 20} // what --version may end with
				}
				return command.Result{}, nil
			})
			got := lacksDRBD(t.Context(), runner, sys)
			if c.want == "" && got != "" || !strings.HasPrefix(got, c.want) {
				t.Errorf("it lacks %q, want %q", got, c.want)
			}
		})
	}
}
