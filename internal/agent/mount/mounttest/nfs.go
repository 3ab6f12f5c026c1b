// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package mounttest

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/command"
)

// Lab is an NFS server that a test may stop and start.
type Lab struct {
	Export   string   // server:/path, writable for root.
	Versions []string // Options, one set for each version of the protocol that it speaks.

	stop, start string
}

// NFS returns the server that the environment names, and skips the test when it names none. HOLDFAST_LAB_NFS is the export,
// HOLDFAST_LAB_NFS_VERSIONS the options for each version of the protocol, separated by spaces (vers=4.2 when it is not set), and
// HOLDFAST_LAB_NFS_STOP and HOLDFAST_LAB_NFS_START are commands of the shell that keep the server from answering and let it answer again.
func NFS(tb testing.TB) *Lab {
	tb.Helper()
	l := &Lab{
		Export: os.Getenv("HOLDFAST_LAB_NFS"), Versions: strings.Fields(os.Getenv("HOLDFAST_LAB_NFS_VERSIONS")),
		stop: os.Getenv("HOLDFAST_LAB_NFS_STOP"), start: os.Getenv("HOLDFAST_LAB_NFS_START"),
	}
	if l.Export == "" {
		tb.Skip("needs an NFS server: set HOLDFAST_LAB_NFS to server:/export, as in the lab")
	}
	NeedRoot(tb)
	if len(l.Versions) == 0 {
		l.Versions = []string{"vers=4.2"}
	}
	return l
}

// Stop keeps the server from answering until Start, and until the end of the test at the latest.
func (l *Lab) Stop(tb testing.TB) {
	tb.Helper()
	if l.stop == "" || l.start == "" {
		tb.Skip("needs an NFS server that can be stopped: set HOLDFAST_LAB_NFS_STOP and HOLDFAST_LAB_NFS_START")
	}
	tb.Cleanup(func() { l.run(tb, l.start) })
	l.run(tb, l.stop)
}

// Start lets the server answer.
func (l *Lab) Start(tb testing.TB) {
	tb.Helper()
	l.run(tb, l.start)
}

func (l *Lab) run(tb testing.TB, script string) {
	tb.Helper()
	c := command.Command{Program: "sh", Args: []string{"-c", script}}
	if _, err := (&command.Exec{}).Run(context.Background(), c); err != nil { // Also when the test is over.
		tb.Error(err)
	}
}
