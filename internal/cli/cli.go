// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/client"
	"github.com/holdfast-storage/holdfast/internal/doctor"
)

// Exit codes, as the linstor client has them.
const (
	ExitOK         = 0
	ExitUnknown    = 1  // something else went wrong, or the user ended it
	ExitUsage      = 2  // the arguments are wrong; nothing was done
	ExitNotFound   = 3  // what was to be shown does not exist
	ExitAPI        = 10 // the controller refused, or warned with --warn-as-error
	ExitConnection = 20 // no controller answered
	ExitTimeout    = 21 // a controller did not answer in time
)

// Env is all that the commands touch outside of this package. Stdout and Stderr must be set; all else has a default.
type Env struct {
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	// Getenv reads the environment: LS_CONTROLLERS and LS_CLIENT_ variables, tokens, the locale and so on. Nil: it is empty.
	Getenv func(string) string
	// Terminal says that Stdout is a terminal: colours and drawn tables are for terminals alone.
	Terminal bool
	// Width returns how many columns the terminal has now; 0 is no bound. Nil: no bound.
	Width func() int
	// Asks says that Stdin and Stderr are terminals: somebody is there to be asked, and to be shown how far work is.
	Asks bool
	// ReadFile reads files that options name, and linstor-client.conf. Nil: there are none.
	ReadFile func(name string) ([]byte, error)
	// HTTP sends the requests. Nil: the client's own.
	HTTP *http.Client
	// Secret asks for a passphrase, which is not shown. Nil: a line of Stdin.
	Secret func(ctx context.Context, prompt string) (string, error)
	// LookupHost resolves the name of a node that is created without an address. Nil: the system's resolver.
	LookupHost func(ctx context.Context, host string) ([]string, error)
	// Poll is how often a command asks that waits for something that the API has no call to wait for. Zero: each second.
	Poll time.Duration
	// Host is what holdfast doctor looks at. The zero value: the host that the program runs on.
	Host doctor.Host
	// Location is the time zone in which times are shown. Nil: the local one.
	Location *time.Location
}

func (e Env) withDefaults() Env {
	if e.Stdin == nil {
		e.Stdin = strings.NewReader("")
	}
	if e.Getenv == nil {
		e.Getenv = func(string) string { return "" }
	}
	if e.Width == nil {
		e.Width = func() int { return 0 }
	}
	if e.ReadFile == nil {
		e.ReadFile = func(name string) ([]byte, error) {
			return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
		}
	}
	if e.Secret == nil {
		in := bufio.NewReader(e.Stdin)
		e.Secret = func(context.Context, string) (string, error) {
			line, err := in.ReadString('\n')
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return strings.TrimRight(line, "\r\n"), err
		}
	}
	if e.LookupHost == nil {
		e.LookupHost = net.DefaultResolver.LookupHost
	}
	if e.Host.Root == nil {
		e.Host = doctor.This()
	}
	if e.Poll == 0 {
		e.Poll = time.Second
	}
	if e.Location == nil {
		e.Location = time.Local
	}
	return e
}

// AddTo adds the client commands and the global flags to root. It takes over root's output, its errors and how they are
// printed: see [Run]. A root named linstor answers as the linstor client does.
func AddTo(root *cobra.Command, env Env) {
	a := &app{env: env.withDefaults(), linstor: root.Name() == "linstor"}
	a.addGlobalFlags(root)
	root.SilenceUsage, root.SilenceErrors = true, true
	root.SetFlagErrorFunc(wrongFlag)
	root.SetIn(a.env.Stdin)
	root.SetOut(a.env.Stdout)
	root.SetErr(a.env.Stderr)
	root.AddCommand(a.commands()...)
	root.AddCommand(helpTopics()...)
}

// commands returns the groups of client commands. A new command is one line here, or one in its group.
func (a *app) commands() []*cobra.Command {
	return []*cobra.Command{
		a.advise(),
		a.controller(),
		a.encryption(),
		a.errorReport(),
		a.examine(),
		a.explain(),
		a.hold(),
		a.jobs(),
		a.keyValueStore(),
		a.listCommands(),
		a.node(),
		a.nodeConnection(),
		a.orphans(),
		a.pages(),
		a.physicalStorage(),
		a.pools(),
		a.remote(),
		a.resource(),
		a.resourceConnection(),
		a.resourceDefinition(),
		a.resourceGroup(),
		a.snapshot(),
		a.spaceReporting(),
		a.status(),
		a.storagePool(),
		a.storagePoolDefinition(),
		a.volume(),
		a.volumeDefinition(),
		a.volumeGroup(),
	}
}

// Run runs the command of root that args name, and returns the exit code. Commands that do not come from this package may be
// below root, too: an error of theirs is printed, and ends in [ExitUnknown] unless they return one from [WithExit].
func Run(ctx context.Context, root *cobra.Command, env Env, args []string) int {
	a := &app{env: env.withDefaults()}
	arrange(root)
	addOtherForms(root)
	err := a.takeDefaults(root, args)
	cmd := root
	if isCompletion(args) {
		a.addCompletions(ctx, root, root)
	}
	if err == nil {
		cmd, args, err = rewrite(root, args)
	}
	if err == nil {
		root.SetArgs(args)
		cmd, err = root.ExecuteContextC(ctx)
	}
	code := exitCode(err)
	_, _ = io.WriteString(a.env.Stderr, a.said(err).lines())
	if code == ExitUsage {
		_, _ = fmt.Fprintf(a.env.Stderr, "usage: %s\nTry '%s --help'.\n", cmd.UseLine(), cmd.CommandPath())
	}
	return code
}

// usageError is a mistake in the arguments.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// exitError ends the program with a code. Without a cause, all that there is to say was said.
type exitError struct {
	code int
	err  error
}

func (e exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.code)
	}
	return e.err.Error()
}

func (e exitError) Unwrap() error { return e.err }

// WithExit returns an error that ends [Run] with code after err was printed. A nil err prints nothing.
func WithExit(code int, err error) error { return exitError{code, err} }

func exitCode(err error) int {
	if err == nil || brokenPipe(err) || errors.Is(err, errShown) {
		return ExitOK
	}
	if exit, ok := errors.AsType[exitError](err); ok {
		return exit.code
	}
	if _, ok := errors.AsType[usageError](err); ok {
		return ExitUsage
	}
	if failure, ok := errors.AsType[*client.ConnectionError](err); ok {
		switch {
		case errors.Is(err, context.Canceled):
			return ExitUnknown
		case failure.Timeout():
			return ExitTimeout
		default:
			return ExitConnection
		}
	}
	if _, ok := errors.AsType[*client.UnexpectedError](err); ok {
		return ExitConnection
	}
	if _, ok := errors.AsType[*client.Error](err); ok {
		return ExitAPI
	}
	return ExitUnknown
}

// brokenPipe reports whether the reader of the output has gone: it has seen enough.
func brokenPipe(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe)
}
