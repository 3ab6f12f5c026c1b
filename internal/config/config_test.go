// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-storage/holdfast/internal/config"
)

func load(t *testing.T, text string) (config.Config, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "holdfast.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return config.Load(path)
}

func TestEverythingListensOnLoopbackByDefault(t *testing.T) {
	c, err := load(t, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, addr := range []string{c.Controller.Listen, c.Controller.AgentListen, c.Agent.Controllers[0]} {
		if !strings.HasPrefix(addr, "127.0.0.1:") {
			t.Errorf("the default %s is not on loopback", addr)
		}
	}
}

func TestWrongFilesAreRefusedWithTheirPlace(t *testing.T) {
	for name, tt := range map[string]struct{ text, want string }{
		"an unknown key":       {"[controller]\ndatta = 'x'\n", "datta"},
		"a wrong type":         {"[controller]\ndata = 7\n", "line 2"},
		"not TOML":             {"[controller\n", "line 1"},
		"no port":              {"[controller]\nlisten = '127.0.0.1'\n", "controller.listen"},
		"no controllers":       {"[agent]\ncontrollers = []\n", "names no controller"},
		"a wrong log format":   {"[log]\nformat = 'xml'\n", "text or json"},
		"an etcd without http": {"[controller.etcd]\nendpoints = ['10.0.0.1:2379']\n", "controller.etcd.endpoints"},
		"a user without etcd":  {"[controller.etcd]\nuser = 'holdfast'\n", "no endpoints"},
		"half a certificate":   {"[controller.etcd]\nendpoints = ['https://a:2379']\ncertificate = 'a'\n", "need each other"},
		"a lease too short":    {"[controller.etcd]\nendpoints = ['https://a:2379']\nlease = '1s'\n", "2s to 1m"},
		"no duration":          {"[controller.backups]\nevery = 'often'\n", "duration"},
		"no URL":               {"[controller]\nadvertise = '10.0.0.1:3370'\n", "controller.advertise"},
		"a wrong agent's end":  {"[agent]\ncontrollers = ['nowhere']\n", "nowhere"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, tt.text)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
		})
	}
}

func TestExampleFilesLoad(t *testing.T) {
	paths, err := filepath.Glob("../../packaging/*.toml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no example configuration found: %v", err)
	}
	for _, p := range paths {
		if _, err := config.Load(p); err != nil {
			t.Errorf("%s: %v", p, err)
		}
	}
}

func TestMissingFileIsNamed(t *testing.T) {
	_, err := config.Load("/nonexistent/holdfast.toml")
	if err == nil || !strings.Contains(err.Error(), "/nonexistent/holdfast.toml") {
		t.Errorf("got %v", err)
	}
}

func TestEtcdIsRead(t *testing.T) {
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := load(t, "[controller.etcd]\nendpoints = ['https://a:2379', 'https://b:2379']\nlease = '4s'\npassword_file = '"+password+"'\n")
	if err != nil {
		t.Fatal(err)
	}
	e := c.Controller.Etcd
	if len(e.Endpoints) != 2 || time.Duration(e.Lease) != 4*time.Second {
		t.Errorf("%+v", e)
	}
	if p, err := e.Password(); err != nil || p != "secret" {
		t.Errorf("%q, %v", p, err)
	}
}
