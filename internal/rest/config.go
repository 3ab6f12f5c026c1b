// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

// Setup says how the controller was set up, for those who ask. It holds no secrets.
type Setup struct {
	Directory string         // of its configuration; empty when there is none
	Database  string         // where the database is, as a URL
	Listen    string         // the address of the API, with its port
	LogLevel  *slog.LevelVar // of what is logged from now on; nil: it cannot be changed
}

func (s *Server) controllerConfig(*request) (body, error) {
	no := false
	c := wire.ControllerConfig{
		Config: &wire.ControllerConfigConfig{Dir: s.Setup.Directory},
		Debug:  &wire.ControllerConfigDebug{ConsoleEnabled: &no},
		Log:    &wire.ControllerConfigLog{PrintStackTrace: &no},
		DB:     &wire.ControllerConfigDB{ConnectionURL: s.Setup.Database},
		HTTP:   &wire.ControllerConfigHTTP{Enabled: true},
		HTTPS:  &wire.ControllerConfigHTTP{},
		LDAP:   &wire.ControllerConfigLDAP{},
	}
	if host, port, err := net.SplitHostPort(s.Setup.Listen); err == nil {
		c.HTTP.ListenAddress = host
		if n, err := strconv.ParseInt(port, 10, 32); err == nil {
			number := int32(n)
			c.HTTP.Port = &number
		}
	}
	if s.Setup.LogLevel != nil {
		level := levelName(s.Setup.LogLevel.Level())
		c.Log.Level, c.Log.LevelLinstor = level, level
	}
	return value{c}, nil
}

// levelTrace is below slog's levels.
const levelTrace = slog.LevelDebug - 4

// levelName is the API's name of a level.
func levelName(l slog.Level) wire.LogLevel {
	switch {
	case l >= slog.LevelError:
		return wire.LogError
	case l >= slog.LevelWarn:
		return wire.LogWarn
	case l >= slog.LevelInfo:
		return wire.LogInfo
	case l > levelTrace:
		return wire.LogDebug
	default:
		return wire.LogTrace
	}
}

func levelOf(name wire.LogLevel) (slog.Level, bool) {
	switch wire.LogLevel(strings.ToUpper(string(name))) {
	case wire.LogError:
		return slog.LevelError, true
	case wire.LogWarn:
		return slog.LevelWarn, true
	case wire.LogInfo:
		return slog.LevelInfo, true
	case wire.LogDebug:
		return slog.LevelDebug, true
	case wire.LogTrace:
		return levelTrace, true
	}
	return 0, false
}

// modifyControllerConfig changes the level of the log until the controller is started again; everything else is in its
// configuration file. The API has four names for the level: the controller's libraries have none of their own here. A level
// that is asked for globally is that of all agents as well.
func (s *Server) modifyControllerConfig(q *request) (wire.RcList, error) {
	var b wire.ControllerConfig
	if err := q.decode(&b); err != nil {
		return nil, err
	}
	var asked wire.LogLevel
	if b.Log != nil {
		asked = cmp.Or(b.Log.LevelLinstor, b.Log.LevelLinstorGlobal, b.Log.Level, b.Log.LevelGlobal)
	}
	level, err := askedLevel(asked, errs.Controller)
	if err != nil {
		return nil, err
	}
	if s.Setup.LogLevel == nil {
		return nil, errs.New(errs.Unsupported, errs.Controller, "the log level of this controller cannot be changed while it runs").
			Fix("set it in the configuration file")
	}
	was := s.Setup.LogLevel.Level()
	s.Setup.LogLevel.Set(level)
	l := wire.RcList{done(wire.Modified, "", "the log level of the controller is %s now; it was %s", levelName(level), levelName(was))}
	if b.Log.LevelGlobal != "" || b.Log.LevelLinstorGlobal != "" {
		l = append(l, s.setAgentLevels(q, levelName(level))...)
	}
	return l, nil
}

// askedLevel is the level that a request asks for, which is all of a configuration that can be changed.
func askedLevel(asked wire.LogLevel, object errs.Object) (slog.Level, error) {
	if asked == "" {
		return 0, errs.New(errs.Unsupported, object, "the request changes nothing that can be changed while the program runs").
			Because("only the level of the log can").Fix("change the configuration file and start the program again")
	}
	level, known := levelOf(asked)
	if !known {
		return 0, errs.New(errs.Invalid, object, "the log level %q is not known", asked).About(errs.Body).
			Fix("use ERROR, WARN, INFO, DEBUG or TRACE")
	}
	return level, nil
}

// setAgentLevels changes the level of the log of every agent. One that does not take it keeps nobody from the others.
func (s *Server) setAgentLevels(q *request, level wire.LogLevel) wire.RcList {
	var (
		mu     sync.Mutex
		taken  int
		failed = map[model.NodeName]error{}
		busy   sync.WaitGroup
	)
	for n := range schema.Nodes.All(s.Store.Snapshot()) {
		busy.Go(func() {
			err := s.Inventory.SetLogLevel(q.Context(), string(n.Name), string(level))
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed[n.Name] = err
				return
			}
			taken++
		})
	}
	busy.Wait()
	l := wire.RcList{wire.NewRc(wire.Modified, fmt.Sprintf("the log level of %s is %s now", counted(taken, "agent"), level))}
	for _, name := range slices.Sorted(maps.Keys(failed)) {
		l = append(l, wire.NewRc(wire.WarnNoEffect, fmt.Sprintf("the agent of node %s keeps its log level", name)).
			WithCause(failed[name].Error()).WithRef(wire.RefNode, string(name)))
	}
	return l
}

// nodeConfig tells how a node's agent is set up, as far as the controller knows. Agents dial in, and do not tell their log
// levels.
func (s *Server) nodeConfig(q *request) (body, error) {
	n, err := schema.FindNode(s.Store.Snapshot(), q.PathValue("node"))
	if err != nil {
		return nil, err
	}
	no := false
	return value{wire.SatelliteConfig{
		Debug: &wire.ControllerConfigDebug{ConsoleEnabled: &no}, Log: &wire.SatelliteConfigLog{PrintStackTrace: &no},
		OverrideNodeName: string(n.Name),
	}}, nil
}

// modifyNodeConfig changes the level of the log of a node's agent until that is started again.
func (s *Server) modifyNodeConfig(q *request) (wire.RcList, error) {
	var b wire.SatelliteConfig
	if err := q.decode(&b); err != nil {
		return nil, err
	}
	var asked wire.LogLevel
	if b.Log != nil {
		asked = cmp.Or(b.Log.LevelLinstor, b.Log.Level)
	}
	level, err := askedLevel(asked, errs.Node)
	if err != nil {
		return nil, err
	}
	node := q.PathValue("node")
	if err := s.Inventory.SetLogLevel(q.Context(), node, string(levelName(level))); err != nil {
		return nil, err
	}
	return wire.RcList{done(wire.Modified, "", "the log level of the agent of node %s is %s now", node, levelName(level))}, nil
}
