// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"compress/gzip"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/holdfast-storage/holdfast/internal/rest/encode"
)

// Sizes of answers, in bytes.
const (
	flushSize = 64 << 10 // an answer is sent in pieces of this size
	gzipSize  = 16 << 10 // smaller answers are not worth compressing
)

// output is the body of an answer on its way. A body that fits into one piece is sent with its length; a larger one is
// streamed. Nothing is sent before the first piece is full.
type output struct {
	encode.Buffer // what is not sent yet

	q      *request
	status int
	gzip   bool // the client takes it
	zipped *gzip.Writer
	begun  bool
	failed error // the client is gone
}

// output begins an answer. The caller closes it.
func (q *request) output(status int) *output {
	o := &output{q: q, status: status, gzip: takesGzip(q.Request)}
	if b, ok := q.server.buffers.Get().(*encode.Buffer); ok {
		o.Buffer = (*b)[:0]
	} else {
		o.Buffer = make(encode.Buffer, 0, flushSize+flushSize/4)
	}
	return o
}

// takesGzip reads the client's word on compression. Weights are not looked at but for "never".
func takesGzip(r *http.Request) bool {
	for coding := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, weight, _ := strings.Cut(strings.TrimSpace(coding), ";")
		if name == "gzip" || name == "*" {
			w := strings.ReplaceAll(weight, " ", "")
			return w != "q=0" && w != "q=0.0"
		}
	}
	return false
}

// spill sends what there is when it makes a piece, but for a comma at its end, which may have to go. It is false when the
// client is gone.
func (o *output) spill() bool {
	if len(o.Buffer) < flushSize {
		return true
	}
	n := len(o.Buffer)
	o.Trim()
	comma := n - len(o.Buffer)
	o.send()
	o.Buffer = append(o.Buffer, ","[:comma]...)
	return o.failed == nil
}

// send sends what there is.
func (o *output) send() {
	if !o.begun {
		o.begin(-1)
	}
	var w io.Writer = o.q
	if o.zipped != nil {
		w = o.zipped
	}
	if o.failed == nil {
		_, o.failed = w.Write(o.Buffer)
	}
	o.Buffer = o.Buffer[:0]
}

// begin sends the header. A length of -1 is not known.
func (o *output) begin(length int) {
	o.begun = true
	h := o.q.w.Header()
	if h.Get("Content-Type") == "" {
		h.Set("Content-Type", "application/json")
	}
	h.Add("Vary", "Accept-Encoding")
	if o.gzip && (length < 0 || length >= gzipSize) {
		h.Set("Content-Encoding", "gzip")
		o.zipped = o.q.server.gzip(o.q)
	} else if length >= 0 {
		h.Set("Content-Length", strconv.Itoa(length))
	}
	o.q.begin(o.status)
}

// end sends what is left, and ends the answer.
func (o *output) end() {
	o.Trim()
	if !o.begun {
		o.begin(len(o.Buffer))
	}
	o.send()
	if o.zipped != nil {
		if err := o.zipped.Close(); err != nil && o.failed == nil {
			o.failed = err
		}
		o.q.server.gzips.Put(o.zipped)
	}
	o.q.server.buffers.Put(&o.Buffer)
}

func (s *Server) gzip(w io.Writer) *gzip.Writer {
	if z, ok := s.gzips.Get().(*gzip.Writer); ok {
		z.Reset(w)
		return z
	}
	z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed) // The level is a valid one.
	return z
}

// begin sends the status.
func (q *request) begin(status int) {
	q.status = status
	q.w.WriteHeader(status)
}

// Write sends a part of the body as it is.
func (q *request) Write(p []byte) (int, error) {
	n, err := q.w.Write(p)
	q.bytes += int64(n)
	return n, err
}

// text answers with plain text.
func (q *request) text(status int, text string) {
	q.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	q.w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	q.begin(status)
	_, _ = q.Write([]byte(text)) // The client is gone; there is nobody to tell.
}
