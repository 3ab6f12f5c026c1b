// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// reached is how far a download is that can be resumed: all before it is durable.
type reached struct {
	At        int64  `json:"at"`
	Total     int64  `json:"total"`
	Digest    []byte `json:"digest"`    // The state of the hash.
	Validator string `json:"validator"` // Which content it was.
}

const (
	keepEvery = 64 << 20         // Bytes between two points of which a download can be resumed.
	stalled   = time.Minute      // A server that sends nothing for so long is asked anew.
	mostWait  = 30 * time.Second // Between two tries.
	mostTries = 8                // In a row in which nothing came.
)

// sink takes what is downloaded.
type sink interface {
	put(p []byte, at int64) error
	flush() error
}

// download fetches an image into a volume. An image that is not raw comes into a file first.
func (w work) download(ctx context.Context, t task, tell func(news)) (o outcome, err error) {
	want, err := parseChecksum(t.Checksum)
	if err != nil {
		return o, err
	}
	to, err := openTarget(t.Target)
	if err != nil {
		return o, err
	}
	defer func() { _ = to.Close() }()
	if t.Format == qcow2 {
		return w.downloadQcow2(ctx, t, to, want, tell)
	}
	f := &fetch{url: t.URL, want: want, room: to.size, sink: to, wait: t.Wait, share: 2, tell: tell}
	size, written, err := f.run(ctx, t.Reached)
	if err != nil {
		return o, err
	}
	return finishVolume(ctx, to, size, written, want, tell)
}

func (w work) downloadQcow2(ctx context.Context, t task, to *device, want sum, tell func(news)) (o outcome, err error) {
	file, err := os.OpenFile(t.Scratch, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return o, refusef("make a file for the image: %w", err)
	}
	defer func() { _ = file.Close() }()
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(file.Fd()), &fs); err != nil {
		return o, refusef("ask for the room for the image: %w", err)
	}
	f := &fetch{
		url: t.URL, want: want, room: int64(fs.Bavail) * fs.Bsize, sink: scratch{file}, wait: t.Wait, share: 2, tell: tell,
		where: "the agent's folder",
	}
	size, written, err := f.run(ctx, t.Reached)
	if err != nil {
		return o, untouched(err)
	}
	if err := file.Truncate(size); err != nil {
		return o, untouched(err)
	}
	if err := want.verify(written); err != nil {
		return o, untouched(err)
	}
	return w.importQcow2(ctx, file, size, to, want, func(n news) { tell(news{Done: size + n.Done, Total: size + n.Total}) })
}

// untouched says of an error that the volume is as it was.
func untouched(err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	return &RefusedError{Reason: err.Error(), Err: err}
}

// scratch is a sink in a file.
type scratch struct{ *os.File }

func (s scratch) put(p []byte, at int64) error {
	_, err := s.WriteAt(p, at)
	return err
}

func (s scratch) flush() error { return s.Sync() }

// fetch is a download on its way.
type fetch struct {
	url   string
	want  sum
	room  int64  // How much fits.
	where string // Into what. Empty: the volume.
	sink  sink
	wait  time.Duration
	share int64 // How many times the size all of the job takes, of which this is one.
	tell  func(news)

	digest    digest
	at, total int64 // Total is below zero while it is not known.
	validator string
	kept      int64
	wrote     bool // Something has gone into the sink, which beginning anew does not undo.
}

// fatal is an error that another try would not mend.
type fatal struct{ error }

func (e fatal) Unwrap() error { return e.error }

// run fetches all and returns its size and digest.
func (f *fetch) run(ctx context.Context, from *reached) (size int64, written []byte, err error) {
	f.restart()
	if from != nil && f.digest.UnmarshalBinary(from.Digest) == nil {
		f.at, f.total, f.validator, f.kept = from.At, from.Total, from.Validator, from.At
	}
	wait := f.wait
	for failed := 0; ; {
		before := f.at
		err := f.once(ctx)
		if err == nil {
			return f.at, f.digest.Sum(nil), nil
		}
		if stop, ok := errors.AsType[fatal](err); ok {
			return 0, nil, stop.error
		}
		if ctx.Err() != nil {
			return 0, nil, ctx.Err()
		}
		if f.at > before {
			failed, wait = 0, f.wait
		}
		if failed++; failed >= mostTries {
			return 0, nil, fmt.Errorf("%w; it was tried %d times", err, failed)
		}
		f.say(nil, err.Error())
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return 0, nil, ctx.Err()
		}
		wait = min(2*wait, mostWait)
	}
}

func (f *fetch) restart() { f.digest, f.at, f.total, f.validator, f.kept = f.want.new(), 0, -1, "", 0 }

func (f *fetch) say(r *reached, problem string) {
	f.tell(news{Done: f.at, Total: f.share * max(f.total, 0), Reached: r, Problem: problem})
}

// once asks the server once, and takes what it sends.
func (f *fetch) once(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silent := time.AfterFunc(stalled, func() { cancel(fmt.Errorf("the server sent nothing for %s", stalled)) })
	defer silent.Stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.url, nil)
	if err != nil {
		return fatal{err}
	}
	req.Header.Set("Accept-Encoding", "identity")
	req.Header.Set("User-Agent", "holdfast")
	if f.at > 0 && f.validator != "" {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", f.at))
		req.Header.Set("If-Range", f.validator)
	} else {
		f.restart()
	}
	res, err := client().Do(req)
	if err != nil {
		return cause(ctx, err)
	}
	defer func() { _ = res.Body.Close() }()
	if done, err := f.begin(res); done || err != nil {
		return err
	}
	return f.take(ctx, res.Body, silent)
}

// cause prefers why a context ended over that it did.
func cause(ctx context.Context, err error) error {
	if why := context.Cause(ctx); why != nil {
		return why
	}
	return err
}

// client follows no redirection to anything but HTTP, and not many.
func client() *http.Client {
	const most = 5
	return &http.Client{
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, ResponseHeaderTimeout: stalled, TLSHandshakeTimeout: stalled},
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			if req.URL.Scheme == "http" && via[0].URL.Scheme == "https" {
				return fatal{errors.New("the server redirects from HTTPS to HTTP")}
			}
			if len(via) > most {
				return fatal{fmt.Errorf("the server redirects more than %d times", most)}
			}
			return nil
		},
	}
}

// begin reads the head of an answer. It is true when there is nothing left to take.
func (f *fetch) begin(res *http.Response) (done bool, err error) {
	switch res.StatusCode {
	case http.StatusOK:
		f.restart()
		f.total = res.ContentLength
	case http.StatusPartialContent:
		from, total, ok := contentRange(res.Header.Get("Content-Range"))
		if !ok || from != f.at || f.total >= 0 && total != f.total {
			f.restart()
			return false, fmt.Errorf("the server sent another part than it was asked for: %q", res.Header.Get("Content-Range"))
		}
		f.total = total
	case http.StatusRequestedRangeNotSatisfiable:
		if f.total >= 0 && f.at == f.total {
			return true, nil
		}
		f.restart()
		return false, errors.New("the server has another content than before")
	default:
		err := fmt.Errorf("the server answered %s", res.Status)
		if c := res.StatusCode; c < http.StatusInternalServerError && c != http.StatusTooManyRequests && c != http.StatusRequestTimeout {
			return false, fatal{f.last(err)}
		}
		return false, err
	}
	f.validator = validator(res.Header)
	if f.total > f.room {
		return false, fatal{f.tooLarge(f.total)}
	}
	return false, nil
}

func (f *fetch) tooLarge(size int64) error {
	return f.last(fmt.Errorf("the image has %d bytes or more, and %s has room for %d", size, cmp.Or(f.where, "the volume"), f.room))
}

// last makes a refusal of what a download ends by, as long as nothing was written.
func (f *fetch) last(err error) error {
	if f.wrote {
		return err
	}
	return refusef("%w", err)
}

// validator is by what a server knows a content again. Weak ones do not say that all bytes are the same.
func validator(h http.Header) string {
	if tag := h.Get("ETag"); tag != "" && !strings.HasPrefix(tag, "W/") {
		return tag
	}
	return h.Get("Last-Modified")
}

// contentRange reads such as "bytes 5-9/10".
func contentRange(text string) (from, total int64, ok bool) {
	rest, isBytes := strings.CutPrefix(text, "bytes ")
	span, all, cut := strings.Cut(rest, "/")
	first, _, dash := strings.Cut(span, "-")
	from, err1 := strconv.ParseInt(first, 10, 64)
	total, err2 := strconv.ParseInt(all, 10, 64)
	return from, total, isBytes && cut && dash && err1 == nil && err2 == nil && from >= 0 && total >= from
}

// take takes the body of an answer.
func (f *fetch) take(ctx context.Context, body io.Reader, silent *time.Timer) error {
	buffer := make([]byte, piece)
	for {
		n, err := io.ReadFull(body, buffer)
		silent.Reset(stalled)
		if f.at+int64(n) > f.room {
			return fatal{f.tooLarge(f.at + int64(n))}
		}
		finished := err != nil && f.finished(n, err, body)
		whole := n
		if err != nil && !finished { // Only whole sectors are kept: what is broken off within one is taken anew.
			whole = n / sector * sector
		}
		if err := f.put(buffer, whole); err != nil {
			return fatal{err}
		}
		switch {
		case finished:
			return nil
		case err == nil:
			if err := f.keep(); err != nil {
				return fatal{err}
			}
			continue
		}
		return fmt.Errorf("the server stopped at %d of %d bytes: %w", f.at, f.total, cause(ctx, err))
	}
}

// finished tells whether the end of a body, after the last n bytes, is that of the content.
func (f *fetch) finished(n int, err error, body io.Reader) bool {
	if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return false
	}
	if f.total >= 0 {
		return f.at+int64(n) == f.total
	}
	// Only after the chunk that says that there are no more is the end an end.
	_, err = body.Read(make([]byte, 1))
	return errors.Is(err, io.EOF)
}

func (f *fetch) put(buffer []byte, n int) error {
	if n == 0 {
		return nil
	}
	_, _ = f.digest.Write(buffer[:n]) // A hash never fails.
	p := buffer[:n]
	if _, file := f.sink.(scratch); !file {
		p = padded(buffer, n)
	}
	f.wrote = true
	if err := f.sink.put(p, f.at); err != nil {
		return fmt.Errorf("write at %d bytes: %w", f.at, err)
	}
	f.at += int64(n)
	f.say(nil, "")
	return nil
}

// keep makes a point of which the download can be resumed, from time to time.
func (f *fetch) keep() error {
	if f.validator == "" || f.at-f.kept < keepEvery {
		return nil
	}
	if err := f.sink.flush(); err != nil {
		return err
	}
	state, err := f.digest.MarshalBinary()
	if err != nil {
		return err
	}
	f.kept = f.at
	f.say(&reached{At: f.at, Total: f.total, Digest: state, Validator: f.validator}, "")
	return nil
}
