// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package numbers_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-storage/holdfast/internal/agent"
	"github.com/holdfast-storage/holdfast/internal/agent/numbers"
)

const head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"

// host is a host that exists in a folder.
func host(t *testing.T, tcp, tcp6 string, blocks ...string) *numbers.Watcher {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("proc/net/tcp", head+tcp)
	if tcp6 != "" {
		write("proc/net/tcp6", head+tcp6)
	}
	for _, b := range blocks {
		write("sys/block/"+b+"/size", "0\n")
	}
	return &numbers.Watcher{Proc: filepath.Join(dir, "proc"), Sys: filepath.Join(dir, "sys")}
}

// socket is a line of the kernel's table.
func socket(port uint16, state string) string {
	return fmt.Sprintf("   0: 00000000:%04X 00000000:0000 %s 00000000:00000000 00:00000000 00000000     0        0 5 1 0000 100 0 0 10 0\n", port, state)
}

func TestWhatOthersUseIsTaken(t *testing.T) {
	w := host(t, socket(22, "0A")+socket(7001, "0A")+socket(7000, "0A")+socket(7002, "01"),
		"   0: 00000000000000000000000000000000:1B5B 00000000000000000000000000000000:0000 0A 0 0 0\n"+socket(7000, "0A"),
		"sda", "drbd1000", "drbd7", "drbdx")
	ports, minors := w.Look()
	if !slices.Equal(ports, []uint32{7000, 7001, 7003}) || !slices.Equal(minors, []uint32{7, 1000}) {
		t.Errorf("ports %v, minors %v", ports, minors)
	}
	w.Ours = func() ([]uint32, []uint32) { return []uint32{7001, 9999}, []uint32{7} }
	if ports, minors = w.Look(); !slices.Equal(ports, []uint32{7000, 7003}) || !slices.Equal(minors, []uint32{1000}) {
		t.Errorf("without ours: ports %v, minors %v", ports, minors)
	}
	if ports, minors = host(t, "", "").Look(); len(ports)+len(minors) > 0 {
		t.Errorf("an empty host has ports %v, minors %v", ports, minors)
	}
}

func TestChangesAreToldAndNothingElse(t *testing.T) {
	w := host(t, socket(7001, "0A"), "")
	w.Every = time.Second
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var told []string
		var n agent.Numbers = w
		go n.Watch(ctx, func(ports, minors []uint32) { told = append(told, fmt.Sprint(ports, minors)) })
		synctest.Wait()
		time.Sleep(5 * time.Second)
		if err := os.WriteFile(filepath.Join(w.Proc, "net/tcp"), []byte(head+socket(7001, "0A")+socket(7005, "0A")), 0o644); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if want := []string{"[7001] []", "[7001 7005] []"}; !slices.Equal(told, want) {
			t.Errorf("told %q", told)
		}
	})
}

func TestAPortOfThisHostIsSeen(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	port := uint32(l.Addr().(*net.TCPAddr).Port)
	if ports, _ := (&numbers.Watcher{}).Look(); !slices.Contains(ports, port) {
		t.Errorf("port %d is not among %v", port, ports)
	}
}

func FuzzListening(f *testing.F) {
	f.Add([]byte(head + socket(7000, "0A")))
	f.Add([]byte("0: x:y z 0A\n1: :FFFF : 0A\n"))
	f.Fuzz(func(t *testing.T, table []byte) {
		for _, p := range numbers.Listening(table) {
			if p > 65535 || !strings.Contains(string(table), "0A") {
				t.Fatalf("port %d was read", p)
			}
		}
	})
}
