// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
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

func (f figures) at(q float64) time.Duration {
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
	before, err := s.process(ctx)
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
	after, err := s.process(ctx)
	slices.Sort(latencies)
	return figures{
		took: took, latencies: latencies, bytes: size.Load(), cpu: (after.cpu - before.cpu) / time.Duration(l.count),
	}, err
}

// process is what a server says of its own process in its metrics.
type process struct {
	cpu    time.Duration
	memory int64 // resident bytes
}

func (s *server) process(ctx context.Context) (process, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/metrics", nil)
	if err != nil {
		return process{}, err
	}
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		return process{}, err
	}
	defer a.Body.Close() //nolint:errcheck // only read
	var p process
	lines := bufio.NewScanner(a.Body)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		number, err := strconv.ParseFloat(value, 64)
		switch {
		case err != nil:
		case name == "process_cpu_seconds_total":
			p.cpu = time.Duration(number * float64(time.Second))
		case name == "process_resident_memory_bytes":
			p.memory = int64(number)
		}
	}
	return p, lines.Err()
}
