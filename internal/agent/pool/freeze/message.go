// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package freeze

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// kind is what a message says.
type kind string

// What agent and guard tell each other, in the order of a good life.
const (
	opened   kind = "opened" // With a descriptor of the root.
	freezeIt kind = "freeze"
	frozen   kind = "frozen"
	thawIt   kind = "thaw"
	thawed   kind = "thawed" // Writes were stopped all the time.
	lapsed   kind = "lapsed" // The filesystem is thawed, and was not frozen all the time.
	failed   kind = "failed"
)

// message is one packet between agent and guard.
type message struct {
	Kind    kind   `json:"kind"`
	Why     string `json:"why,omitempty"`
	Type    string `json:"type,omitempty"`    // Of the filesystem, with opened.
	Foreign bool   `json:"foreign,omitempty"` // Someone else had frozen it, with frozen.
}

const messageLimit = 4096

// send sends a message, with a descriptor unless fd is negative.
func send(conn *net.UnixConn, m message, fd int) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	var rights []byte
	if fd >= 0 {
		rights = unix.UnixRights(fd)
	}
	_, _, err = conn.WriteMsgUnix(text, rights, nil)
	return err
}

// receive returns the next message and the file that came with it. That the other one failed is an error.
func receive(conn *net.UnixConn) (message, *os.File, error) {
	text, rights := make([]byte, messageLimit), make([]byte, unix.CmsgSpace(4))
	n, got, _, _, err := conn.ReadMsgUnix(text, rights)
	if err != nil {
		return message{}, nil, err
	}
	file, err := attached(rights[:got])
	if err != nil {
		return message{}, nil, err
	}
	var m message
	if n == 0 {
		err = errors.New("the other end has died")
	} else {
		err = json.Unmarshal(text[:n], &m)
	}
	if err == nil && m.Kind == failed {
		err = errors.New(m.Why)
	}
	if err != nil && file != nil {
		_ = file.Close()
		file = nil
	}
	return m, file, err
}

// attached returns the descriptor in the ancillary data of a packet, or nil.
func attached(rights []byte) (*os.File, error) {
	if len(rights) == 0 {
		return nil, nil
	}
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil || len(messages) != 1 {
		return nil, fmt.Errorf("read the descriptor of a message: %w", err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return nil, fmt.Errorf("read the descriptor of a message: %w", err)
	}
	unix.CloseOnExec(fds[0])
	return os.NewFile(uintptr(fds[0]), "root"), nil
}

// peer returns who is at the other end.
func peer(conn *net.UnixConn) (*unix.Ucred, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return nil, err
	}
	return cred, credErr
}
