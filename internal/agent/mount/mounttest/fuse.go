// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package mounttest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// Server is a file system with an empty root folder that can be made to hang: whoever asks it for something then waits in the kernel and
// cannot be killed, as with a server that does not answer.
type Server struct {
	dev *os.File

	mu      sync.Mutex
	changed *sync.Cond // Hung or the number of calls that wait has changed.
	hung    bool
	waiting int
	late    [][]byte // Answers that are held back.
	ended   chan struct{}
}

// The FUSE protocol, as far as it is needed: operations, and the sizes of what is exchanged.
const (
	opGetattr    = 3
	opStatfs     = 17
	opInit       = 26
	opOpendir    = 27
	opReleasedir = 29
	opForget     = 2
	opBatch      = 42
	opInterrupt  = 36
	opDestroy    = 38
	inHeader     = 40
	outHeader    = 16
	attrSize     = 88
)

// Serve mounts a new file system at dir. At the end of the test it no longer hangs and is gone.
func Serve(tb testing.TB, dir string) *Server {
	tb.Helper()
	NeedRoot(tb)
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		tb.Skipf("needs /dev/fuse: %v", err)
	}
	s := &Server{dev: os.NewFile(uintptr(fd), "/dev/fuse"), ended: make(chan struct{})}
	s.changed = sync.NewCond(&s.mu)
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fd)
	if err := unix.Mount("server", dir, "fuse.holdfast-test", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		tb.Fatalf("mount a FUSE file system: %v", err)
	}
	go s.serve(fd)
	tb.Cleanup(func() {
		_ = unix.Unmount(dir, unix.MNT_FORCE|unix.MNT_DETACH) // Ends all that wait, and the server too.
		s.Resume()
		_ = unix.Unmount(dir, unix.MNT_DETACH)
		<-s.ended
		_ = s.dev.Close()
	})
	return s
}

// Hang makes every call from now on wait.
func (s *Server) Hang() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hung = true
	s.changed.Broadcast()
}

// Resume answers all calls that wait, and later ones.
func (s *Server) Resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hung = false
	for _, out := range s.late {
		_, _ = unix.Write(int(s.dev.Fd()), out)
	}
	s.late, s.waiting = nil, 0
	s.changed.Broadcast()
}

// AwaitCaller returns when somebody waits for an answer.
func (s *Server) AwaitCaller() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.waiting == 0 {
		s.changed.Wait()
	}
}

func (s *Server) serve(fd int) {
	defer close(s.ended)
	buf := make([]byte, 1<<17)
	for {
		n, err := unix.Read(fd, buf)
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil || n < inHeader {
			return // Unmounted.
		}
		op, unique := binary.NativeEndian.Uint32(buf[4:]), binary.NativeEndian.Uint64(buf[8:])
		if op == opForget || op == opBatch || op == opInterrupt {
			continue // They want no answer.
		}
		s.answer(fd, op, reply(op, unique))
	}
}

func (s *Server) answer(fd int, op uint32, out []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hung && op != opInit && op != opDestroy {
		s.late = append(s.late, out)
		s.waiting++
		s.changed.Broadcast()
		return
	}
	_, _ = unix.Write(fd, out)
}

// reply is the answer to an operation.
func reply(op uint32, unique uint64) []byte {
	order := binary.NativeEndian
	var body []byte
	errno := unix.Errno(0)
	switch op {
	case opInit:
		body = make([]byte, 64)
		order.PutUint32(body[0:], 7)      // The version of the protocol:
		order.PutUint32(body[4:], 31)     // 7.31.
		order.PutUint32(body[20:], 1<<16) // The largest write.
	case opGetattr:
		body = make([]byte, 16+attrSize) // Valid for no time at all, so that each look asks.
		order.PutUint64(body[16:], 1)    // The number of the root.
		order.PutUint32(body[16+60:], unix.S_IFDIR|0o755)
		order.PutUint32(body[16+64:], 2)
	case opStatfs:
		body = make([]byte, 80)
		order.PutUint32(body[40:], 4096)
		order.PutUint32(body[44:], 255)
	case opOpendir:
		body = make([]byte, 16)
	case opReleasedir, opDestroy:
	default:
		errno = unix.ENOENT
		if op != 1 { // A look-up finds nothing; all else is not there.
			errno = unix.ENOSYS
		}
	}
	out := make([]byte, outHeader+len(body))
	order.PutUint32(out[0:], uint32(len(out)))
	order.PutUint32(out[4:], uint32(-int32(errno)))
	order.PutUint64(out[8:], unique)
	copy(out[outHeader:], body)
	return out
}
