// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package libvirt_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/holdfast-storage/holdfast/internal/agent/hold"
	"github.com/holdfast-storage/holdfast/internal/agent/libvirt"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The protocol, as far as it is needed: procedures, the kind of an answer, and statuses.
const (
	procOpen    = 1
	procXML     = 14
	procAuth    = 66
	procList    = 273
	headerSize  = 28
	replyType   = 1
	statusOK    = 0
	statusError = 1
	noDomain    = 42
)

// daemon is a libvirt that knows some domains, and can be made to hang.
type daemon struct {
	socket string

	mu      sync.Mutex
	domains map[string]string // Descriptions by name. Empty: it is undefined between being listed and being described.
	hang    uint32            // This procedure is not answered.
	conns   map[net.Conn]bool
}

func newDaemon(t *testing.T) *daemon {
	t.Helper()
	dir, err := os.MkdirTemp("", "lv") //nolint:usetesting // Paths of sockets are short.
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{socket: filepath.Join(dir, "sock"), domains: map[string]string{}, conns: map[net.Conn]bool{}}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return d
}

// serve serves until the returned function is called.
func (d *daemon) serve(t *testing.T) (stop func()) {
	t.Helper()
	l, err := net.Listen("unix", d.socket)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			d.mu.Lock()
			d.conns[c] = true
			d.mu.Unlock()
			all.Go(func() { d.talk(c) })
		}
	})
	return func() {
		_ = l.Close()
		d.mu.Lock()
		for c := range d.conns {
			_ = c.Close()
		}
		d.mu.Unlock()
		all.Wait()
	}
}

func (d *daemon) talk(c net.Conn) {
	defer func() { _ = c.Close() }()
	for {
		var head [headerSize]byte
		if _, err := io.ReadFull(c, head[:]); err != nil {
			return
		}
		body := make([]byte, int(binary.BigEndian.Uint32(head[0:]))-headerSize)
		if _, err := io.ReadFull(c, body); err != nil {
			return
		}
		procedure := binary.BigEndian.Uint32(head[12:])
		answer, status, ok := d.answer(procedure, body)
		if !ok {
			continue
		}
		binary.BigEndian.PutUint32(head[0:], uint32(headerSize+len(answer)))
		binary.BigEndian.PutUint32(head[16:], replyType)
		binary.BigEndian.PutUint32(head[24:], status)
		if _, err := c.Write(append(head[:], answer...)); err != nil {
			return
		}
	}
}

// xdr is a message that is being written.
type xdr []byte

func (x *xdr) number(n uint32) { *x = binary.BigEndian.AppendUint32(*x, n) }

func (x *xdr) text(s string) {
	x.number(uint32(len(s)))
	*x = append(*x, s...)
	for len(*x)%4 != 0 {
		*x = append(*x, 0)
	}
}

func (x *xdr) domain(name string) {
	x.text(name)
	*x = append(*x, make([]byte, 16)...) // Its uuid.
	x.number(1)
}

func (d *daemon) answer(procedure uint32, body []byte) (answer []byte, status uint32, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if procedure == d.hang {
		return nil, 0, false
	}
	var x xdr
	switch procedure {
	case procAuth:
		x.number(1)
		x.number(0)
	case procList:
		x.number(uint32(len(d.domains)))
		for name := range d.domains {
			x.domain(name)
		}
		x.number(uint32(len(d.domains)))
	case procXML:
		text := d.domains[string(body[4:4+binary.BigEndian.Uint32(body)])]
		if text == "" {
			return domainError(), statusError, true
		}
		x.text(text)
	case procOpen:
	}
	return x, statusOK, true
}

// domainError says that there is no such domain.
func domainError() []byte {
	var x xdr
	x.number(noDomain)
	x.number(10) // Of QEMU's driver.
	x.number(1)
	x.text("Domain not found")
	x.number(2)
	for range 9 { // All that may be there is not.
		x.number(0)
	}
	return x
}

const web = `<domain type='kvm'><name>web</name><os><kernel>/boot/vmlinuz</kernel><nvram>/var/lib/nvram/web.fd</nvram></os><devices>
  <disk type='file' device='disk'><source file='/mnt/a/web.qcow2'/>
    <backingStore type='file'><format type='qcow2'/><source file='/mnt/a/base.qcow2'/>
      <backingStore type='file'><format type='raw'/><source file='/mnt/b/golden.img'/><backingStore/></backingStore></backingStore>
    <mirror type='file' job='copy'><source file='/mnt/c/new.qcow2'/></mirror><target dev='vda'/></disk>
  <disk type='file' device='cdrom'><source file='/mnt/iso/debian.iso'/><readonly/></disk>
  <disk type='block'><source dev='/dev/loop7'/></disk>
  <disk type='network'><source protocol='rbd' name='pool/image'/></disk>
  <disk type='file' device='cdrom'><readonly/></disk>
  <filesystem type='mount'><source dir='/mnt/share/'/></filesystem>
</devices></domain>`

func found(name, path string, mode hold.Mode) hold.Found {
	return hold.Found{Holder: hold.Holder{Kind: hold.VM, Name: name}, Path: path, Mode: mode}
}

func TestAllFilesOfADomainAreFound(t *testing.T) {
	d := newDaemon(t)
	d.domains["web"], d.domains["gone"] = web, ""
	defer d.serve(t)()
	got, err := (&libvirt.Finder{Sockets: []string{"/nonexistent", d.socket}}).Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []hold.Found{
		found("web", "/boot/vmlinuz", hold.ReadOnly), found("web", "/var/lib/nvram/web.fd", hold.ReadWrite),
		found("web", "/mnt/a/web.qcow2", hold.ReadWrite), found("web", "/mnt/a/base.qcow2", hold.ReadOnly),
		found("web", "/mnt/b/golden.img", hold.ReadOnly), found("web", "/mnt/c/new.qcow2", hold.ReadWrite),
		found("web", "/mnt/iso/debian.iso", hold.ReadOnly), found("web", "/mnt/share", hold.ReadWrite),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestADescriptionThatCannotBeReadIsAnError(t *testing.T) {
	d := newDaemon(t)
	defer d.serve(t)()
	for _, text := range []string{"<domain", "<domain/>"} {
		d.mu.Lock()
		d.domains["web"] = text
		d.mu.Unlock()
		if got, err := (&libvirt.Finder{Sockets: []string{d.socket}}).Find(t.Context()); err == nil {
			t.Errorf("%q: got %v", text, got)
		}
	}
}

func TestALibvirtThatHangsIsGivenUpAndAskedAnew(t *testing.T) {
	d := newDaemon(t)
	d.domains["web"] = web
	defer d.serve(t)()
	f := &libvirt.Finder{Sockets: []string{d.socket}, Limit: 50 * time.Millisecond}
	for _, procedure := range []uint32{procAuth, procOpen, procList, procXML} {
		d.mu.Lock()
		d.hang = procedure
		d.mu.Unlock()
		if got, err := f.Find(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("procedure %d hangs: got %v, %v", procedure, got, err)
		}
	}
	d.mu.Lock()
	d.hang = 0
	d.mu.Unlock()
	f.Limit = 10 * time.Second
	if got, err := f.Find(t.Context()); err != nil || len(got) == 0 {
		t.Errorf("afterwards: got %v, %v", got, err)
	}
}

func TestALibvirtThatStopsIsAnErrorUntilItIsBack(t *testing.T) {
	d := newDaemon(t)
	d.domains["web"] = web
	f := &libvirt.Finder{Sockets: []string{d.socket}, Definitions: t.TempDir()}
	if got, err := f.Find(t.Context()); err != nil || got != nil {
		t.Errorf("a host without libvirt: got %v, %v", got, err)
	}
	stop := d.serve(t)
	if _, err := f.Find(t.Context()); err != nil {
		t.Error(err)
	}
	stop()
	if got, err := f.Find(t.Context()); err == nil {
		t.Errorf("it has stopped: got %v", got)
	}
	defer d.serve(t)()
	if got, err := f.Find(t.Context()); err != nil || len(got) == 0 {
		t.Errorf("it is back: got %v, %v", got, err)
	}
}

func TestDefinedDomainsWithoutLibvirtAreAnError(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "web.xml"), []byte(web), 0o600); err != nil {
		t.Fatal(err)
	}
	f := &libvirt.Finder{Sockets: []string{filepath.Join(dir, "sock")}, Definitions: dir}
	if got, err := f.Find(t.Context()); err == nil {
		t.Errorf("got %v", got)
	}
}
