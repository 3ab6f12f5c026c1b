// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/client"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

// session is one run of one command: its connection, and what was answered so far.
type session struct {
	*client.Client

	app      *app
	args     []string
	out      io.Writer // where answers go
	form     form
	pastable bool
	fromFile bool // a file answers, and that once
	groupBy  list
	last     []byte            // the answer of the last call as it came
	url      string            // of the last call
	entries  []json.RawMessage // of changes, in the forms of JSON
	missing  []client.RetCode  // of what the controller did not find
	failed   bool              // the controller refused something
	warned   bool
	named    bool // names were printed, and nothing else is to be
}

// action is what a command does.
type action func(ctx context.Context, s *session, args []string) error

// run makes an action the body of a command.
func (a *app) run(do action) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if every := watchFlag(cmd); every > 0 {
			return a.watch(cmd, args, do, every)
		}
		return a.once(cmd, args, do, a.env.Stdout)
	}
}

// once runs an action once, with its answers going to out.
func (a *app) once(cmd *cobra.Command, args []string, do action, out io.Writer) error {
	form, err := a.form()
	if err != nil {
		return err
	}
	s := &session{app: a, args: args, out: out, form: form}
	if s.Client, err = a.connect(s.note, s.listFlags(cmd)...); err != nil {
		return err
	}
	err = do(cmd.Context(), s, args)
	if _, ok := errors.AsType[*client.UnexpectedError](err); ok && a.globals.curl {
		err = nil // Nobody has answered.
	}
	err = s.refusal(err)
	s.suggest(cmd.Context())
	return errors.Join(err, s.finish(err))
}

// note keeps what the controller answered.
func (s *session) note(x client.Exchange) {
	s.last, s.url = x.Answer, x.URL
	if s.app.globals.verbose {
		_, _ = fmt.Fprintf(s.app.env.Stderr, "%s %s: %d, %.1f ms\n", x.Method, x.URL, x.Status, float64(x.Duration.Microseconds())/1000)
	}
}

// refusal prints what the controller said when it refused a read, which ends the command.
func (s *session) refusal(err error) error {
	refused, ok := errors.AsType[*client.Error](err)
	if !ok {
		return err
	}
	if wrote := s.changed(nil, err); wrote != nil {
		return wrote
	}
	if client.IsNotFound(refused) {
		return WithExit(ExitNotFound, nil)
	}
	return WithExit(ExitAPI, nil)
}

// changed prints the answer of a change: pass both results of the call. A refusal is part of the answer, not an error: a
// command that changes several objects goes on with the next one.
func (s *session) changed(entries client.RcList, err error) error {
	refused, ok := errors.AsType[*client.Error](err)
	if err != nil && !ok {
		return err
	}
	if ok {
		s.failed = true
		entries = refused.Entries
		if len(entries) == 0 {
			entries = client.RcList{wire.NewRc(wire.FailUnknownError, refused.Error())}
		}
	}
	for _, e := range entries {
		s.warned = s.warned || e.RetCode.IsWarning()
		s.missing = append(s.missing, e.RetCode)
	}
	if s.form == text {
		return s.writeEntries(entries)
	}
	var raw []json.RawMessage
	if len(s.last) == 0 || json.Unmarshal(s.last, &raw) != nil || len(raw) != len(entries) {
		body, err := wire.Encode(entries)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(body, &raw); err != nil {
			return err
		}
	}
	s.entries = append(s.entries, raw...)
	return nil
}

// finish prints what was collected and returns the exit code of changes.
func (s *session) finish(err error) error {
	if len(s.entries) > 0 {
		body, failure := wire.Encode(s.entries)
		if failure != nil {
			return failure
		}
		if wrote := s.writeJSON(body); wrote != nil {
			return wrote
		}
	}
	if err == nil && (s.failed || (s.warned && s.app.globals.warnAsError)) {
		return WithExit(ExitAPI, nil)
	}
	return nil
}

// list prints the list that the last call gave: as a table, or as it came.
func (s *session) list(t *table) error {
	if s.form == text {
		return s.writeTable(t)
	}
	return s.listJSON(s.last)
}

// listJSON prints a list of the API in a form of JSON.
func (s *session) listJSON(body []byte) error {
	if s.form == machine {
		body = bytes.Join([][]byte{[]byte("["), body, []byte("]")}, nil)
	}
	return s.writeJSON(body)
}

// writeJSON prints body with the indentation of the linstor client, or as YAML.
func (s *session) writeJSON(body []byte) error {
	if s.form == yaml {
		lines, err := toYAML(body)
		if err != nil {
			return err
		}
		return s.write(lines)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, bytes.TrimSpace(body), "", "  "); err != nil {
		return err
	}
	out.WriteByte('\n')
	return s.write(out.String())
}

func (s *session) write(text string) error {
	if s.named {
		return nil
	}
	_, err := io.WriteString(s.out, text)
	return err
}

// writeTable prints a table. With the output name, nothing is printed after it.
func (s *session) writeTable(t *table) error {
	if err := t.group(s.groupBy); err != nil {
		return err
	}
	style := s.app.style(s.pastable)
	err := s.write(t.draw(style))
	s.named = style.names
	return err
}

// writeEntries prints what a controller said.
func (s *session) writeEntries(entries client.RcList) error {
	style := s.app.style(s.pastable)
	if s.app.linstor {
		return s.write(blocks(entries, style))
	}
	return s.write(sayings(entries, style, s.app.globals.verbose))
}
