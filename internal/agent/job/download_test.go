// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package job_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/pooltest"
)

// site serves one content, and can be made to misbehave.
type site struct {
	*httptest.Server

	content []byte
	served  atomic.Int64
	before  func(w http.ResponseWriter, q *http.Request) (handled bool)
}

func newSite(t *testing.T, content []byte) *site {
	t.Helper()
	s := &site{content: content}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		s.served.Add(1)
		if s.before != nil && s.before(w, q) {
			return
		}
		w.Header().Set("ETag", `"1"`)
		http.ServeContent(w, q, "", time.Time{}, bytes.NewReader(s.content))
	}))
	t.Cleanup(s.Close)
	return s
}

func TestAnImageIsDownloaded(t *testing.T) {
	r := newRig(t)
	content := noise(9*mib + 100) // Not a multiple of a sector.
	s := newSite(t, content)
	to := r.volume("a", 16*mib, bytes.Repeat([]byte("old"), 5*mib))
	r.done(&agentpb.Job{Id: "j1", Kind: agentpb.Job_DOWNLOAD, Url: s.URL, To: end("a"), Checksum: hexsum(content)}, hexsum(content))
	r.has(to, content)

	image := filepath.Join(t.TempDir(), "image")
	must(t, os.WriteFile(image+".raw", content[:8*mib], 0o600))
	pooltest.Run(t, "qemu-img", "convert", "-f", "raw", "-O", "qcow2", image+".raw", image)
	var err error
	s.content, err = os.ReadFile(image)
	must(t, err)
	r.done(&agentpb.Job{Id: "j2", Kind: agentpb.Job_DOWNLOAD, Url: s.URL, To: end("a"), Format: "qcow2"}, hexsum(s.content))
	r.has(to, content[:8*mib])
}

func TestABrokenDownloadIsGoneOnWith(t *testing.T) {
	r := newRig(t)
	content := noise(12 * mib)
	s := newSite(t, content)
	var ranges []string
	s.before = func(w http.ResponseWriter, q *http.Request) bool {
		ranges = append(ranges, q.Header.Get("Range"))
		if len(ranges) > 3 {
			return false
		}
		if len(ranges) == 2 {
			http.Error(w, "busy", http.StatusServiceUnavailable)
			return true
		}
		from := 0
		_, _ = fmt.Sscanf(q.Header.Get("Range"), "bytes=%d-", &from)
		w.Header().Set("ETag", `"1"`)
		w.Header().Set("Content-Length", fmt.Sprint(len(content)-from))
		if from > 0 {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(content)-1, len(content)))
			w.WriteHeader(http.StatusPartialContent)
		}
		_, _ = w.Write(content[from : from+3*mib+77])
		panic(http.ErrAbortHandler)
	}
	to := r.volume("a", 12*mib, nil)
	r.done(&agentpb.Job{Id: "j", Kind: agentpb.Job_DOWNLOAD, Url: s.URL, To: end("a"), Checksum: hexsum(content)}, hexsum(content))
	r.has(to, content)
	if len(ranges) != 4 || ranges[0] != "" || !strings.HasPrefix(ranges[3], "bytes=6") {
		t.Errorf("it asked for the ranges %q", ranges)
	}
}

func TestABadDownloadFailsAndLeavesZeros(t *testing.T) {
	r := newRig(t)
	content := noise(4 * mib)
	for name, tc := range map[string]struct {
		before    func(http.ResponseWriter, *http.Request) bool
		checksum  string
		why       string
		untouched bool
	}{
		"checksum": {checksum: hexsum([]byte("x")), why: "checksum is"},
		"missing":  {before: func(w http.ResponseWriter, q *http.Request) bool { http.NotFound(w, q); return true }, why: "404", untouched: true},
		"too-large": {before: func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Length", "99999999")
			return true
		}, why: "room for", untouched: true},
		"too-large-unsaid": {before: func(w http.ResponseWriter, _ *http.Request) bool {
			w.(http.Flusher).Flush() //nolint:forcetypeassert // It is one.
			_, _ = w.Write(make([]byte, 9*mib))
			return true
		}, why: "room for"},
		"stops": {before: func(w http.ResponseWriter, _ *http.Request) bool {
			w.(http.Flusher).Flush() //nolint:forcetypeassert // It is one.
			_, _ = w.Write(content[:mib])
			panic(http.ErrAbortHandler)
		}, why: "tried"},
		"goes-meanwhile": {before: thenGone(func(w http.ResponseWriter, _ *http.Request) {
			w.(http.Flusher).Flush() //nolint:forcetypeassert // It is one.
			_, _ = w.Write(content[:mib])
			panic(http.ErrAbortHandler)
		}), why: "404"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, content)
			s.before = tc.before
			to := r.volume(name, 8*mib, content)
			r.fails(&agentpb.Job{Id: name, Kind: agentpb.Job_DOWNLOAD, Url: s.URL, To: end(name), Checksum: tc.checksum}, tc.why)
			if tc.untouched {
				r.has(to, content)
			} else {
				r.has(to, nil)
			}
		})
	}
}

// thenGone serves something once, and says afterwards that there is nothing.
func thenGone(first func(http.ResponseWriter, *http.Request)) func(http.ResponseWriter, *http.Request) bool {
	var asked atomic.Bool
	return func(w http.ResponseWriter, q *http.Request) bool {
		if asked.Swap(true) {
			http.NotFound(w, q)
			return true
		}
		first(w, q)
		return true
	}
}

func TestAJobThatIsRefusedAfterARestartLeavesZeros(t *testing.T) {
	r := newRig(t)
	content := noise(8 * mib)
	s := newSite(t, content)
	s.before = thenGone(func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(content)))
		_, _ = w.Write(content[:4*mib])
		w.(http.Flusher).Flush() //nolint:forcetypeassert // It is one.
		<-q.Context().Done()
	})
	to := r.volume("a", 8*mib, bytes.Repeat([]byte("old"), 2*mib))
	j := &agentpb.Job{Id: "j", Kind: agentpb.Job_DOWNLOAD, Url: s.URL, To: end("a")}
	_, err := r.Start(t.Context(), j)
	must(t, err)
	r.await("j", "it has got something", func(st *agentpb.JobStatus) bool { return st.GetDone() > 0 })
	r.Close()
	r.boot()
	if st := r.ended("j"); st.GetState() != agentpb.JobStatus_FAILED || !strings.Contains(st.GetFailure().GetMessage(), "404") {
		t.Errorf("the job is %v", st)
	}
	r.has(to, nil)
	r.nothingLeft(j)
}

func TestACancelledJobLeavesNothing(t *testing.T) {
	r := newRig(t)
	content := noise(8 * mib)
	s := newSite(t, content)
	var once sync.Once
	gate, arrived := make(chan struct{}), make(chan struct{})
	defer close(gate)
	s.before = func(w http.ResponseWriter, q *http.Request) bool {
		w.Header().Set("Content-Length", fmt.Sprint(len(content)))
		_, _ = w.Write(content[:4*mib])
		w.(http.Flusher).Flush() //nolint:forcetypeassert // It is one.
		once.Do(func() { close(arrived) })
		select {
		case <-gate:
		case <-q.Context().Done():
		}
		return true
	}
	to := r.volume("a", 8*mib, bytes.Repeat([]byte("old"), 2*mib))
	_, err := r.Start(t.Context(), &agentpb.Job{Id: "j", Kind: agentpb.Job_DOWNLOAD, Url: s.URL, To: end("a")})
	must(t, err)
	<-arrived
	r.await("j", "it has got something", func(st *agentpb.JobStatus) bool { return st.GetDone() > 0 })
	_, err = r.Cancel(t.Context(), "j")
	must(t, err)
	if st := r.ended("j"); st.GetState() != agentpb.JobStatus_CANCELLED {
		t.Errorf("the job is %v", st)
	}
	r.has(to, nil)
	if _, err := r.Cancel(t.Context(), "j"); err != nil {
		t.Errorf("cancel it again: %v", err)
	}
	must(t, r.Forget(t.Context(), "j"))
	if _, ok := r.Get("j"); ok {
		t.Error("it is not forgotten")
	}
	must(t, r.Forget(t.Context(), "j"))
}

func TestAJobGoesOnAfterARestart(t *testing.T) {
	r := newRig(t)
	content := noise(100 * mib)
	s := newSite(t, content)
	var ranges []string
	var mu sync.Mutex
	stop := make(chan struct{})
	s.before = func(w http.ResponseWriter, q *http.Request) bool {
		mu.Lock()
		ranges = append(ranges, q.Header.Get("Range"))
		first := len(ranges) == 1
		mu.Unlock()
		if !first {
			return false
		}
		w.Header().Set("ETag", `"1"`)
		w.Header().Set("Content-Length", fmt.Sprint(len(content)))
		_, _ = w.Write(content[:80*mib])
		w.(http.Flusher).Flush() //nolint:forcetypeassert // It is one.
		select {
		case <-stop:
		case <-q.Context().Done():
		}
		return true
	}
	to := r.volume("a", 100*mib, nil)
	_, err := r.Start(t.Context(), &agentpb.Job{Id: "j", Kind: agentpb.Job_DOWNLOAD, Url: s.URL, To: end("a"), Checksum: hexsum(content)})
	must(t, err)
	r.await("j", "it is far", func(st *agentpb.JobStatus) bool { return st.GetDone() >= 80*mib })
	r.Close()
	close(stop)
	if r.holds() == 0 {
		t.Error("nothing is held over the restart")
	}
	r.boot()
	if st := r.ended("j"); st.GetState() != agentpb.JobStatus_DONE {
		t.Errorf("the job is %v", st)
	}
	r.has(to, content)
	if len(ranges) != 2 || ranges[1] != fmt.Sprintf("bytes=%d-", 64*mib) {
		t.Errorf("it asked for the ranges %q", ranges)
	}
}
