// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/client"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

// session is one run of one command: its connection, and what was answered so far.
type session struct {
	*client.Client

	app      *app
	form     form
	pastable bool
	last     []byte            // the answer of the last call as it came
	url      string            // of the last call
	entries  []json.RawMessage // of changes, in the forms of JSON
	failed   bool              // the controller refused something
	warned   bool
}

// action is what a command does.
type action func(ctx context.Context, s *session, args []string) error

// run makes an action the body of a command.
func (a *app) run(do action) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		form, err := a.form()
		if err != nil {
			return err
		}
		s := &session{app: a, form: form}
		if flag := cmd.Flags().Lookup("pastable"); flag != nil {
			s.pastable = flag.Value.String() == "true"
		}
		s.Client, err = a.connect(func(x client.Exchange) { s.last, s.url = x.Answer, x.URL })
		if err != nil {
			return err
		}
		err = s.refusal(do(cmd.Context(), s, args))
		return errors.Join(err, s.finish(err))
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

// writeJSON prints body with the indentation of the linstor client.
func (s *session) writeJSON(body []byte) error {
	var out bytes.Buffer
	if err := json.Indent(&out, bytes.TrimSpace(body), "", "  "); err != nil {
		return err
	}
	out.WriteByte('\n')
	return s.write(out.String())
}

func (s *session) write(text string) error {
	_, err := io.WriteString(s.app.env.Stdout, text)
	return err
}

// writeTable prints a table.
func (s *session) writeTable(t *table) error { return s.write(t.draw(s.app.style(s.pastable))) }

// writeEntries prints entries as blocks.
func (s *session) writeEntries(entries client.RcList) error {
	return s.write(blocks(entries, s.app.style(s.pastable)))
}
