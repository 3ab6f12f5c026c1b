// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package freeze

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"
)

// The verbs of the helper.
const (
	guardVerb   = "guard"
	recoverVerb = "recover"
)

// guardRequest is what a guard is asked, as JSON on its standard input.
type guardRequest struct {
	Socket string        `json:"socket"`
	Device uint64        `json:"device"`
	Mounts []Mount       `json:"mounts"`
	Limit  time.Duration `json:"limit"`
}

// HelperMain is the main function of a helper: args are those after HelperName. It returns the exit code. It is run in a process of its own, which may hang
// in it for ever.
func HelperMain(args []string) int {
	err := errors.New("this is not for use by hand: a verb is missing")
	if len(args) > 0 {
		err = serve(args[0], os.Stdin)
	}
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func serve(verb string, in io.Reader) error {
	d := json.NewDecoder(in)
	switch verb {
	case guardVerb:
		// Before anything is frozen: a guard that is told to end must thaw first.
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT)
		var req guardRequest
		if err := d.Decode(&req); err != nil {
			return fmt.Errorf("this is not for use by hand: %w", err)
		}
		return guard(req, signals)
	case recoverVerb:
		var req recoverRequest
		if err := d.Decode(&req); err != nil {
			return fmt.Errorf("this is not for use by hand: %w", err)
		}
		return recoverDevice(req)
	}
	return fmt.Errorf("verb %q is not known", verb)
}

// guard freezes a filesystem and thaws it, whatever happens in between.
func guard(req guardRequest, signals <-chan os.Signal) error {
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: req.Socket, Net: "unixpacket"})
	if err != nil {
		return fmt.Errorf("connect to the agent: %w", err)
	}
	defer func() { _ = conn.Close() }()
	root, fstype, err := Open(req.Device, req.Mounts)
	if err != nil {
		return errors.Join(err, send(conn, message{Kind: failed, Why: err.Error()}, -1))
	}
	defer func() { _ = root.Close() }()
	if err := send(conn, message{Kind: opened, Type: fstype}, int(root.Fd())); err != nil {
		return err
	}
	orders := make(chan kind)
	go func() {
		defer close(orders) // The agent is gone.
		for {
			m, _, err := receive(conn)
			if err != nil {
				return
			}
			orders <- m.Kind
		}
	}()
	select {
	case order := <-orders:
		if order != freezeIt {
			return nil
		}
	case <-signals:
		return nil
	}
	answer := hold(root, req.Limit, conn, orders, signals)
	if err := send(conn, answer, -1); err != nil {
		return err
	}
	if answer.Kind == failed {
		return errors.New(answer.Why)
	}
	return nil
}

// hold freezes, waits, and thaws. It returns the last word to the agent.
func hold(root *os.File, limit time.Duration, conn *net.UnixConn, orders <-chan kind, signals <-chan os.Signal) message {
	_ = unix.Syncfs(int(root.Fd())) // What is written now need not be written while everyone stands still.
	over := time.NewTimer(limit)
	defer over.Stop()
	err := freeze(root)
	foreign := errors.Is(err, unix.EBUSY)
	if err != nil && !foreign {
		return message{Kind: failed, Why: "the kernel refuses: " + err.Error()}
	}
	asked := false
	if send(conn, message{Kind: frozen, Foreign: foreign}, -1) == nil {
		select {
		case order := <-orders:
			asked = order == thawIt
		case <-over.C:
		case <-signals:
		}
	}
	if foreign {
		// It is still frozen if it cannot be frozen again.
		if err := freeze(root); err == nil {
			asked = false
			_ = thaw(root)
		}
	} else if err := thaw(root); errors.Is(err, unix.EINVAL) {
		asked = false // Someone else thawed it before.
	} else if err != nil {
		return message{Kind: failed, Why: "thaw: " + err.Error()}
	}
	if asked {
		return message{Kind: thawed}
	}
	return message{Kind: lapsed}
}
