// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// terminalLimit is how long a command may run on a terminal.
const terminalLimit = 30 * time.Second

// onTerminal runs a command on a terminal of a width, with what is typed there, and keeps all that is printed for golden.
func (s *script) onTerminal(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 3 {
		ts.Fatalf("usage: terminal COLUMNS TYPED COMMAND...")
	}
	columns, err := strconv.Atoi(args[0])
	ts.Check(err)
	master, slave, err := openTerminal(columns)
	ts.Check(err)
	defer func() { _ = master.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), terminalLimit)
	defer cancel()
	path := ts.Getenv("PATH")
	c := exec.CommandContext(ctx, strings.SplitN(path, ":", 2)[0]+"/"+args[2], args[3:]...)
	c.Env = []string{"PATH=" + path, "LS_CONTROLLERS=" + ts.Getenv("LS_CONTROLLERS"), "LANG=C.UTF-8", "TERM=xterm", "TZ=UTC", "NO_COLOR=" + ts.Getenv("NO_COLOR")}
	c.Stdin, c.Stdout, c.Stderr = slave, slave, slave
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	ts.Check(c.Start())
	ts.Check(slave.Close())
	typed := strings.ReplaceAll(args[1], `\n`, "\n")
	if _, err := io.WriteString(master, typed); err != nil {
		ts.Fatalf("type: %v", err)
	}
	var out strings.Builder
	if _, err := io.Copy(&out, master); err != nil && !errors.Is(err, syscall.EIO) { // EIO is how the other side's end is told.
		ts.Fatalf("read the terminal: %v", err)
	}
	err = c.Wait()
	s.terminal = strings.ReplaceAll(strings.ReplaceAll(out.String(), "\r\n", "\n"), "\x1b", "^[")
	if (err != nil) != neg {
		ts.Fatalf("%v ended with %v:\n%s", args[2:], err, s.terminal)
	}
}

// openTerminal opens a pair of a terminal and what controls it.
func openTerminal(columns int) (master, slave *os.File, err error) {
	if master, err = os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0); err != nil {
		return nil, nil, err
	}
	fd := int(master.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return nil, nil, errors.Join(err, master.Close())
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		return nil, nil, errors.Join(err, master.Close())
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: uint16(columns)}); err != nil {
		return nil, nil, errors.Join(err, master.Close())
	}
	if slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0); err != nil {
		return nil, nil, errors.Join(err, master.Close())
	}
	return master, slave, nil
}
