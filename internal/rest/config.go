// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"cmp"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"

	"github.com/holdfast-storage/holdfast/internal/errs"
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
// configuration file. The API has four names for the level: the controller's libraries have none of their own here, and
// agents keep theirs.
func (s *Server) modifyControllerConfig(q *request) (wire.RcList, error) {
	var b wire.ControllerConfig
	if err := q.decode(&b); err != nil {
		return nil, err
	}
	var asked wire.LogLevel
	if b.Log != nil {
		asked = cmp.Or(b.Log.LevelLinstor, b.Log.LevelLinstorGlobal, b.Log.Level, b.Log.LevelGlobal)
	}
	if asked == "" {
		return nil, errs.New(errs.Unsupported, errs.Controller, "the request changes nothing that can be changed while the controller runs").
			Because("only the level of the log can").Fix("change the configuration file and start the controller again")
	}
	level, known := levelOf(asked)
	if !known {
		return nil, errs.New(errs.Invalid, errs.Controller, "the log level %q is not known", asked).About(errs.Body).
			Fix("use ERROR, WARN, INFO, DEBUG or TRACE")
	}
	if s.Setup.LogLevel == nil {
		return nil, errs.New(errs.Unsupported, errs.Controller, "the log level of this controller cannot be changed while it runs").
			Fix("set it in the configuration file")
	}
	was := s.Setup.LogLevel.Level()
	s.Setup.LogLevel.Set(level)
	l := wire.RcList{done(wire.Modified, "", "the log level of the controller is %s now; it was %s", levelName(level), levelName(was))}
	if b.Log.LevelGlobal != "" || b.Log.LevelLinstorGlobal != "" {
		l = append(l, wire.NewRc(wire.WarnNoEffect, fmt.Sprintf("agents keep their log levels: %s holds for the controller alone", levelName(level))))
	}
	return l, nil
}
