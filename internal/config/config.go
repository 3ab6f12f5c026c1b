// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package config reads the configuration file of the controller and the agent: TOML, read
// strictly, with a position for what is wrong, and defaults for what is not said. What flags
// say comes on top of it, in main.
package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"
)

// Config is the whole file. Both roles may stand in one.
type Config struct {
	Log        Log        `toml:"log"`
	Controller Controller `toml:"controller"`
	Agent      Agent      `toml:"agent"`
}

// Log says what is logged, and how.
type Log struct {
	Level  string `toml:"level"`  // debug, info, warn or error
	Format string `toml:"format"` // text or json
}

// Controller is the configuration of a controller.
type Controller struct {
	Data        string `toml:"data"`         // the folder of the embedded store
	Listen      string `toml:"listen"`       // address of the REST API
	AgentListen string `toml:"agent_listen"` // address that agents dial
	Plaintext   bool   `toml:"plaintext"`    // agents are served without TLS; for tests alone

	Name      string  `toml:"name"`      // among several controllers; empty: the host's name
	Advertise string  `toml:"advertise"` // URL of the REST API for the other controllers; empty: made of listen
	Etcd      Etcd    `toml:"etcd"`
	Backups   Backups `toml:"backups"`
}

// Duration is a time such as "90s" or "6h".
type Duration time.Duration

// UnmarshalText implements [encoding.TextUnmarshaler].
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = Duration(parsed)
	return err
}

// Etcd says where the database is when it is not embedded, and how etcd is spoken to. Without endpoints the database is embedded.
type Etcd struct {
	Endpoints    []string `toml:"endpoints"`     // URLs of the members
	Prefix       string   `toml:"prefix"`        // begins all keys; empty: /holdfast/
	CA           string   `toml:"ca"`            // file of the authorities of the members' certificates; empty: the system's
	Certificate  string   `toml:"certificate"`   // file of this client's certificate
	Key          string   `toml:"key"`           // file of its key
	User         string   `toml:"user"`          // empty: none
	PasswordFile string   `toml:"password_file"` // file with the user's password
	Lease        Duration `toml:"lease"`         // how long a leader that hangs stays the leader; 0: 5s
	KeepHistory  bool     `toml:"keep_history"`  // the leader does not compact etcd: something else does
}

// Backups says how the database is backed up by itself.
type Backups struct {
	Folder string   `toml:"folder"` // empty: "backups" in the data folder
	Every  Duration `toml:"every"`  // 0: 6h
	Keep   int      `toml:"keep"`   // 0: 14
}

// Agent is the configuration of an agent.
type Agent struct {
	Node        string   `toml:"node"`        // its name in the cluster; empty: the host's
	Controllers []string `toml:"controllers"` // addresses of the controllers, tried in turn
	State       string   `toml:"state"`       // the folder of what the agent keeps over a restart
	Run         string   `toml:"run"`         // the folder of what is void after a reboot; empty: /run/holdfast, or below another state folder
	JoinFile    string   `toml:"join_file"`   // a file with a join token, looked at again and again; empty: none
	Plaintext   bool     `toml:"plaintext"`   // controllers are dialled without TLS; for tests alone
}

// Default is what holds where nothing is said. Everything listens on loopback.
func Default() Config {
	return Config{
		Log: Log{Level: "info", Format: "text"},
		Controller: Controller{
			Data: "/var/lib/holdfast/controller", Listen: "127.0.0.1:3370", AgentListen: "127.0.0.1:3366",
		},
		Agent: Agent{Controllers: []string{"127.0.0.1:3366"}, State: "/var/lib/holdfast/agent"},
	}
}

// Load reads a file over the defaults. Keys that are not known, and values that cannot be
// right, are errors that name their place.
func Load(path string) (Config, error) {
	c := Default()
	f, err := os.Open(path)
	if err != nil {
		return c, fmt.Errorf("read the configuration: %w", err)
	}
	defer f.Close() //nolint:errcheck // nothing was written
	if err := toml.NewDecoder(f).DisallowUnknownFields().Decode(&c); err != nil {
		return c, fmt.Errorf("configuration %s: %w", path, readable(err))
	}
	if err := c.Validate(); err != nil {
		return c, fmt.Errorf("configuration %s: %w", path, err)
	}
	return c, nil
}

// readable adds the place of a mistake to its text.
func readable(err error) error {
	if strict, ok := errors.AsType[*toml.StrictMissingError](err); ok {
		return errors.New(strings.TrimSpace(strict.String()))
	}
	if decode, ok := errors.AsType[*toml.DecodeError](err); ok {
		row, col := decode.Position()
		return fmt.Errorf("line %d, column %d: %w", row, col, err)
	}
	return err
}

// Validate refuses values that cannot work.
func (c Config) Validate() error {
	for what, addr := range map[string]string{
		"controller.listen": c.Controller.Listen, "controller.agent_listen": c.Controller.AgentListen,
	} {
		if _, _, err := net.SplitHostPort(addr); err != nil {
			return fmt.Errorf("%s %q is not an address such as 127.0.0.1:3370: %w", what, addr, err)
		}
	}
	if len(c.Agent.Controllers) == 0 {
		return errors.New("agent.controllers names no controller")
	}
	for _, addr := range c.Agent.Controllers {
		if _, _, err := net.SplitHostPort(addr); err != nil {
			return fmt.Errorf("agent.controllers has %q, which is not an address such as 10.0.0.1:3366: %w", addr, err)
		}
	}
	if err := c.Controller.Etcd.validate(); err != nil {
		return err
	}
	if c.Controller.Advertise != "" {
		if u, err := url.Parse(c.Controller.Advertise); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return fmt.Errorf("controller.advertise %q is not a URL such as http://10.0.0.1:3370", c.Controller.Advertise)
		}
	}
	if c.Controller.Backups.Every < 0 || c.Controller.Backups.Keep < 0 {
		return errors.New("controller.backups: every and keep cannot be negative")
	}
	switch c.Log.Format {
	case "text", "json":
	default:
		return fmt.Errorf("log.format %q is not known; use text or json", c.Log.Format)
	}
	return nil
}

// validate refuses settings of etcd that cannot work.
func (e Etcd) validate() error {
	if len(e.Endpoints) == 0 {
		if e.User != "" || e.CA != "" || e.Certificate != "" {
			return errors.New("controller.etcd has no endpoints, for example [\"https://10.0.0.1:2379\"]")
		}
		return nil
	}
	for _, endpoint := range e.Endpoints {
		if u, err := url.Parse(endpoint); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return fmt.Errorf("controller.etcd.endpoints has %q, which is not a URL such as https://10.0.0.1:2379", endpoint)
		}
	}
	if (e.Certificate == "") != (e.Key == "") {
		return errors.New("controller.etcd: certificate and key need each other")
	}
	if lease := time.Duration(e.Lease); lease != 0 && (lease < 2*time.Second || lease > time.Minute) {
		return fmt.Errorf("controller.etcd.lease is %s; it must be from 2s to 1m", lease)
	}
	return nil
}

// Password reads the password of the user of etcd.
func (e Etcd) Password() (string, error) {
	if e.PasswordFile == "" {
		return "", nil
	}
	text, err := os.ReadFile(e.PasswordFile)
	if err != nil {
		return "", fmt.Errorf("read the password of the user of etcd: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}
