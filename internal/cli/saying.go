// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/holdfast-storage/holdfast/client"
)

// saying is what is said about something that went wrong: what, why, and what to do. It is printed in three lines at most.
// It is an error itself, for commands that know what to do.
type saying struct{ what, why, do string }

func (s saying) Error() string { return strings.TrimSuffix(s.what+": "+s.why, ": ") }

// lines returns what is to be printed about an error.
func (s saying) lines() string {
	if s.what == "" {
		return ""
	}
	var b strings.Builder
	b.WriteString("error: " + oneLine(s.what) + "\n")
	if s.why != "" {
		b.WriteString("  why: " + oneLine(s.why) + "\n")
	}
	if s.do != "" {
		b.WriteString("  do:  " + oneLine(s.do) + "\n")
	}
	return b.String()
}

// oneLine joins the lines of a text, with nothing in it that moves a cursor.
func oneLine(text string) string {
	var parts []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			parts = append(parts, printable(line))
		}
	}
	return strings.Join(parts, "; ")
}

// said returns what is to be said about an error, which is nothing when all was said or nobody listens.
func (a *app) said(err error) saying {
	if err == nil || brokenPipe(err) || errors.Is(err, errShown) {
		return saying{}
	}
	if exit, ok := errors.AsType[exitError](err); ok && exit.err == nil {
		return saying{}
	}
	if known, ok := errors.AsType[saying](err); ok {
		return known
	}
	if exit, ok := errors.AsType[exitError](err); ok {
		return saying{what: exit.err.Error()}
	}
	if failure, ok := errors.AsType[*client.ConnectionError](err); ok {
		return connectionSaying(failure)
	}
	if answer, ok := errors.AsType[*client.UnexpectedError](err); ok {
		return unexpectedSaying(answer)
	}
	return saying{what: err.Error()}
}

func connectionSaying(failure *client.ConnectionError) saying {
	interrupted := errors.Is(failure, context.Canceled)
	switch {
	case interrupted && failure.Unknown:
		return saying{what: "interrupted; the request may have been carried out"}
	case interrupted:
		return saying{what: "interrupted"}
	}
	var asked, reasons []string
	for _, attempt := range failure.Attempts {
		asked = append(asked, attempt.Address)
		reasons = append(reasons, attempt.Address+": "+plainly(attempt.Err))
	}
	said := saying{what: "no controller answered at " + strings.Join(asked, ", "), why: strings.Join(reasons, "; ")}
	if len(failure.Attempts) == 1 {
		said.why = plainly(failure.Attempts[0].Err)
	}
	if failure.Unknown {
		said.what += ", and the request may have been carried out"
		said.do = "look at what is there before you ask again"
	}
	if len(failure.Attempts) > 0 && !failure.Unknown {
		last := failure.Attempts[len(failure.Attempts)-1]
		said.do = remedy(last.Address, last.Err, failure.Timeout())
	}
	return said
}

// plainly says in words what the network has no words for.
func plainly(err error) string {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "there was no answer in time"
	case errors.Is(err, io.EOF):
		return "the connection was closed without an answer"
	default:
		return strings.TrimPrefix(err.Error(), "net/http: HTTP/1.x transport connection broken: ")
	}
}

// remedy says what to do about a connection that could not be made.
func remedy(address string, err error, timeout bool) string {
	text := err.Error()
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "give the authority that has signed the controller's certificate with --cafile"
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "ask the controller by a name that is in its certificate"
	}
	if unknown, ok := errors.AsType[*net.DNSError](err); ok && unknown.IsNotFound {
		return "check the name in --controllers or LS_CONTROLLERS"
	}
	switch {
	case strings.Contains(text, "server gave HTTP response to HTTPS client"):
		return "no TLS is spoken there: write http://" + address
	case strings.Contains(text, "malformed HTTP"):
		return "something else listens there: a controller listens on 3370, and on 3371 with TLS, unless told otherwise"
	case strings.Contains(text, "certificate required"), strings.Contains(text, "bad certificate"):
		return "give the certificate that the controller wants to see with --certfile and --keyfile"
	case timeout:
		return "see whether the controller runs and is not cut off, or give it longer with --timeout"
	default:
		return "start a controller (holdfast up), or say with --controllers or LS_CONTROLLERS where one listens"
	}
}

func unexpectedSaying(answer *client.UnexpectedError) saying {
	said := saying{
		what: fmt.Sprintf("%s %s was not answered as a controller does", answer.Method, answer.URL),
		why:  fmt.Sprintf("status %d, and %s; the answer begins %q", answer.Status, answer.Problem, answer.Answer),
		do:   "check the port: a controller listens on 3370, and on 3371 with TLS, unless told otherwise",
	}
	switch {
	case strings.Contains(answer.Answer, "HTTP request to an HTTPS server"):
		said.do = "TLS is spoken there: write https:// before the address"
	case answer.Status == http.StatusNotFound:
		said.do = "something else listens there, or the controller is older than this call: see holdfast controller version"
	}
	return said
}
