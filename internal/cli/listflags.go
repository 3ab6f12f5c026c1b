// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/client"
)

// tabular declares the flags that all commands have that print a table.
func tabular(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolP("pastable", "p", false, "plain output, for mails and tickets")
	(&list{}).addTo(f, "groupby", "g", "sort the rows by these columns")
}

// pastable declares the flags that all commands have that print a list or an object of the controller.
func pastable(cmd *cobra.Command) {
	tabular(cmd)
	f := cmd.Flags()
	f.String("from-file", "", "show the answer that is in this file, as -m has printed it, and ask no controller")
	declareWatch(f)
}

// listFlags reads the flags that pastable has declared, and returns what they mean for the connection.
func (s *session) listFlags(cmd *cobra.Command) []client.Option {
	var transport http.RoundTripper
	if s.app.globals.curl {
		transport = &curl{out: s.out, secure: &s.app.globals.credentials}
	}
	if flag := cmd.Flags().Lookup("groupby"); flag != nil {
		if by, ok := flag.Value.(*list); ok {
			s.groupBy = *by
		}
	}
	if flag := cmd.Flags().Lookup("pastable"); flag != nil {
		s.pastable = flag.Value.String() == "true"
	}
	if flag := cmd.Flags().Lookup("from-file"); flag != nil && flag.Value.String() != "" {
		s.fromFile = true
		transport = &replay{read: func() ([]byte, error) { return s.app.env.ReadFile(flag.Value.String()) }}
	}
	if transport == nil {
		return nil
	}
	return []client.Option{client.WithHTTPClient(&http.Client{Transport: transport})}
}

// errShown ends a command that was to print a request and has.
var errShown = errors.New("the request was printed, and not sent")

// curl prints requests as commands of curl. Changes are answered as if there were nothing to say about them, so that a
// command with several goes on; a read ends the command.
type curl struct {
	out    io.Writer
	secure *credentials
}

// RoundTrip prints r.
func (c *curl) RoundTrip(r *http.Request) (*http.Response, error) {
	words := []string{"curl", "-X", r.Method}
	for _, file := range [][2]string{{"--cacert", c.secure.caFile}, {"--cert", c.secure.certFile}, {"--key", c.secure.keyFile}} {
		if file[1] != "" {
			words = append(words, file[0], quoted(file[1]))
		}
	}
	if r.Body != nil && r.ContentLength > 0 {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		words = append(words, "-H", "'Content-Type: application/json'", "-d", quoted(string(body)))
	}
	if _, err := io.WriteString(c.out, strings.Join(append(words, quoted(r.URL.String())), " ")+"\n"); err != nil {
		return nil, err
	}
	if r.Method == http.MethodGet {
		return nil, errShown
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("[]")), Request: r}, nil
}

// quoted returns a word that a shell takes as it is.
func quoted(word string) string {
	if strings.ContainsAny(word, " '\"{}[]$&|;<>*?()\\`~#") {
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return word
}

// replay answers the one request of a command with what -m has printed of an answer.
type replay struct {
	read     func() ([]byte, error)
	answered bool
}

// RoundTrip answers r.
func (p *replay) RoundTrip(r *http.Request) (*http.Response, error) {
	if p.answered {
		return nil, exitError{ExitUsage, saying{what: "--from-file: this command needs more than one answer, and the file has one"}}
	}
	p.answered = true
	body, err := p.read()
	if err != nil {
		return nil, exitError{ExitUsage, saying{what: "--from-file: " + err.Error()}}
	}
	var outer []json.RawMessage
	if json.Unmarshal(body, &outer) == nil && len(outer) == 1 && bytes.HasPrefix(bytes.TrimSpace(outer[0]), []byte("[")) {
		body = outer[0]
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(body)), Request: r}, nil
}
