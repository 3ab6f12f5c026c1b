// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// call makes one request and returns the length of the answer and its status.
func call(ctx context.Context, c *http.Client, method, url, body string) (int64, int, error) {
	q, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, 0, err
	}
	a, err := c.Do(q)
	if err != nil {
		return 0, 0, err
	}
	defer a.Body.Close() //nolint:errcheck // read to its end below
	n, err := io.Copy(io.Discard, a.Body)
	return n, a.StatusCode, err
}

// fetch makes one request and returns the answer and its status.
func fetch(ctx context.Context, c *http.Client, method, url, body string) (string, int, error) {
	q, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return "", 0, err
	}
	a, err := c.Do(q)
	if err != nil {
		return "", 0, err
	}
	defer a.Body.Close() //nolint:errcheck // read to its end below
	text, err := io.ReadAll(a.Body)
	return string(text), a.StatusCode, err
}

// load is a number of requests by several clients at once.
type load struct {
	clients int
	count   int
	request func(i int) (method, path, body string)
	want    int // the status of every answer
}

// figures are what a load has shown.
type figures struct {
	took      time.Duration
	latencies []time.Duration // sorted
	bytes     int64           // of the last answer
	cpu       time.Duration   // of the server, for one request
}

func (f figures) rate() float64 { return float64(len(f.latencies)) / f.took.Seconds() }

// at is a quantile of the latencies, zero when there are none.
func (f figures) at(q float64) time.Duration {
	if len(f.latencies) == 0 {
		return 0
	}
	return f.latencies[min(len(f.latencies)-1, int(q*float64(len(f.latencies))))]
}

func (f figures) String() string {
	return fmt.Sprintf("%8.0f/s   p50 %8s   p99 %8s   server CPU %8s a request", f.rate(), short(f.at(0.5)), short(f.at(0.99)), short(f.cpu))
}

func short(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%d µs", d.Microseconds())
	case d < time.Second:
		return fmt.Sprintf("%.2f ms", float64(d.Microseconds())/1000)
	default:
		return fmt.Sprintf("%.2f s", d.Seconds())
	}
}

// run makes the requests and measures. An answer with another status than the one wanted ends
// it: figures of refusals mean nothing.
func (s *server) run(ctx context.Context, l load) (figures, error) {
	before, err := look(s.pid)
	if err != nil {
		return figures{}, err
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: l.clients, DisableCompression: true}}
	defer client.CloseIdleConnections()
	latencies := make([]time.Duration, l.count)
	failures := make([]error, l.clients)
	var next, size atomic.Int64
	var wg sync.WaitGroup
	began := time.Now()
	for w := range l.clients {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < l.count; i = int(next.Add(1)) - 1 {
				method, path, body := l.request(i)
				start := time.Now()
				n, code, err := call(ctx, client, method, s.url+path, body)
				if err == nil && code != l.want {
					err = fmt.Errorf("%s %s was answered with %d, not %d", method, path, code, l.want)
				}
				if err != nil {
					failures[w] = err
					return
				}
				latencies[i] = time.Since(start)
				size.Store(n)
			}
		})
	}
	wg.Wait()
	took := time.Since(began)
	if err := errors.Join(failures...); err != nil {
		return figures{}, err
	}
	after, err := look(s.pid)
	slices.Sort(latencies)
	return figures{
		took: took, latencies: latencies, bytes: size.Load(), cpu: (after.cpu - before.cpu) / time.Duration(l.count),
	}, err
}
