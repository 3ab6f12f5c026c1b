// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package libvirt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/digitalocean/go-libvirt"
	"github.com/digitalocean/go-libvirt/socket/dialers"

	"github.com/holdfast-storage/holdfast/internal/agent/hold"
)

// Sockets are where libvirt listens: that of its modular daemon for QEMU, and that of the daemon for everything.
func Sockets() []string {
	return []string{"/run/libvirt/virtqemud-sock", "/run/libvirt/libvirt-sock", "/var/run/libvirt/libvirt-sock"}
}

// Definitions is where libvirt keeps the domains that are defined.
const Definitions = "/etc/libvirt/qemu"

// Finder finds the users that libvirt knows. Its fields are set before the first call.
type Finder struct {
	Sockets     []string      // The first that is there is asked. Nil: Sockets().
	Definitions string        // Empty: Definitions.
	Limit       time.Duration // How long all of it may take. Zero: 15 s.

	seen atomic.Bool // It has answered once, so it must answer again.
}

// Find implements hold.Finder. A host on which libvirt never was has no domains.
func (f *Finder) Find(ctx context.Context) ([]hold.Found, error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(f.Limit, 15*time.Second))
	defer cancel()
	socket, err := f.socket()
	if err != nil || socket == "" {
		return nil, err
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, fmt.Errorf("ask libvirt at %s: %w", socket, err)
	}
	found, err := ask(ctx, conn)
	if err != nil {
		return nil, fmt.Errorf("ask libvirt at %s: %w", socket, err)
	}
	f.seen.Store(true)
	return found, nil
}

// socket returns where libvirt listens, or nothing on a host that has no domains for sure.
func (f *Finder) socket() (string, error) {
	sockets := f.Sockets
	if sockets == nil {
		sockets = Sockets()
	}
	for _, s := range sockets {
		if info, err := os.Stat(s); err == nil && info.Mode()&fs.ModeSocket != 0 {
			return s, nil
		}
	}
	defined, err := filepath.Glob(filepath.Join(cmp.Or(f.Definitions, Definitions), "*.xml"))
	if err != nil {
		return "", err
	}
	if f.seen.Load() || len(defined) > 0 {
		return "", fmt.Errorf("libvirt does not run: it listens at none of %v, and there are domains", sockets)
	}
	return "", nil
}

// ask asks for all domains. The client has no deadlines: when ctx ends, the connection is closed under it.
func ask(ctx context.Context, conn net.Conn) ([]hold.Found, error) {
	type answer struct {
		found []hold.Found
		err   error
	}
	done := make(chan answer, 1)
	go func() {
		found, err := domains(conn)
		done <- answer{found, err}
	}()
	select {
	case a := <-done:
		return a.found, errors.Join(a.err, ignoreClosed(conn.Close()))
	case <-ctx.Done():
		_ = conn.Close()
		return nil, fmt.Errorf("it did not answer: %w", ctx.Err())
	}
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func domains(conn net.Conn) ([]hold.Found, error) {
	l := libvirt.NewWithDialer(dialers.NewAlreadyConnected(conn))
	if err := l.ConnectToURI(libvirt.QEMUSystem); err != nil {
		return nil, err
	}
	all, _, err := l.ConnectListAllDomains(1, 0)
	if err != nil {
		return nil, fmt.Errorf("list the domains: %w", err)
	}
	var found []hold.Found
	for _, d := range all {
		text, err := l.DomainGetXMLDesc(d, 0)
		if gone(err) {
			continue // It was undefined meanwhile.
		}
		if err != nil {
			return nil, fmt.Errorf("describe domain %s: %w", d.Name, err)
		}
		name, uses, err := parse(text)
		if err != nil {
			return nil, fmt.Errorf("domain %s: %w", d.Name, err)
		}
		for _, u := range uses {
			mode := hold.ReadOnly
			if u.write {
				mode = hold.ReadWrite
			}
			found = append(found, hold.Found{Holder: hold.Holder{Kind: hold.VM, Name: name}, Path: u.path, Mode: mode})
		}
	}
	return found, nil // The connection is closed without a farewell, for which a libvirt that hangs would have to be waited.
}

// gone tells whether an error says that a domain is not there any more.
func gone(err error) bool {
	failed, ok := errors.AsType[libvirt.Error](err)
	return ok && failed.Code == uint32(libvirt.ErrNoDomain)
}
