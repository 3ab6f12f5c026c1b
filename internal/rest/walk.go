// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"net"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-storage/holdfast/internal/rest/encode"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// Bounds of what is kept for walks.
const (
	maxWalks = 128              // at a time; the oldest makes room
	walkRest = 30 * time.Second // how long a walk waits for its next page
	walkLife = 5 * time.Minute  // how long a walk may take
)

// walks keeps the states that lists are walked through in, page by page.
//
// A client that reads a list in pages says with each how many elements it has seen. When others create and delete elements
// meanwhile, these numbers shift, and it would see an element twice or never. So the page that begins where the one before
// ended is answered from the same state of the database. A page that nobody has read up to is answered from the newest
// state, as every list.
type walks struct {
	mu    sync.Mutex
	kept  []walk // the one that was served last is the last
	swept bool   // a sweep is to come
}

// walk is a list that a client reads in pages.
type walk struct {
	list   string // path and parameters but for the offset
	client string // host and program
	port   string // of the connection that the last page went over
	next   int    // the offset of the page to come
	view   *store.View
	began  time.Time
	served time.Time
}

// paged returns the page that is asked for, with an encoder of the state that it is of, and that state.
func (s *Server) paged(q *request) (page, *encode.Encoder, *store.View, error) {
	p, err := q.page()
	if err != nil {
		return p, nil, nil, err
	}
	view := s.Store.Snapshot()
	if p.limit > 0 {
		view = s.walks.step(q, p, view)
	}
	return p, encode.New(view, s.Observed), view, nil
}

// step returns the state that a page is to be of: that of the walk that it continues, or else the newest.
func (w *walks) step(q *request, p page, newest *store.View) *store.View {
	now := q.server.Now()
	params := q.URL.Query()
	params.Del("offset")
	host, port, _ := net.SplitHostPort(q.RemoteAddr)
	at := walk{
		list: q.URL.Path + "?" + params.Encode(), client: host + " " + q.UserAgent(), port: port,
		next: p.offset, view: newest, began: now, served: now,
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drop(now)
	if i := w.find(at); p.offset > 0 && i >= 0 {
		at.view, at.began = w.kept[i].view, w.kept[i].began
		w.kept = slices.Delete(w.kept, i, i+1)
	}
	at.next = p.offset + p.limit
	if len(w.kept) == maxWalks {
		w.kept = slices.Delete(w.kept, 0, 1)
	}
	w.kept = append(w.kept, at)
	if !w.swept {
		w.swept = true
		now := q.server.Now
		time.AfterFunc(walkRest, func() { w.sweep(now) })
	}
	return at.view
}

// drop forgets the walks that have rested or gone on for too long.
func (w *walks) drop(now time.Time) {
	w.kept = slices.DeleteFunc(w.kept, func(x walk) bool { return now.Sub(x.served) > walkRest || now.Sub(x.began) > walkLife })
}

// sweep drops walks also when nobody reads pages any more, so that old states do not take memory for ever. It ends when there
// are none.
func (w *walks) sweep(now func() time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drop(now())
	if w.swept = len(w.kept) > 0; w.swept {
		time.AfterFunc(walkRest, func() { w.sweep(now) })
	}
}

// find returns the walk that a page continues, -1 when there is none. Of several, it is the one on the same connection, or
// else the last.
func (w *walks) find(at walk) int {
	found := -1
	for i, x := range slices.Backward(w.kept) {
		if x.list != at.list || x.client != at.client || x.next != at.next {
			continue
		}
		if x.port == at.port {
			return i
		}
		if found < 0 {
			found = i
		}
	}
	return found
}
