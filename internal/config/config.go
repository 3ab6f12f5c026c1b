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
	"os"
	"strings"

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
	switch c.Log.Format {
	case "text", "json":
	default:
		return fmt.Errorf("log.format %q is not known; use text or json", c.Log.Format)
	}
	return nil
}
