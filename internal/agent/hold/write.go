// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"time"
)

// writer is the owner's side of the journal. Records are written in the order in which they were given, all that have come together at once,
// by a goroutine of their own.
type writer struct {
	image   *image // What the journal amounts to when all that was given is written.
	queue   []entry
	writing bool
	dirty   bool // The journal may lack records that are in image: only writing it anew helps.
	filed   bool // The journal may have something of this source.
	lines   int  // How many records were written since it was written anew.
	retry   retry
}

// entry is a record on its way.
type entry struct {
	record Record
	sync   bool
	done   func(error) // A step, once the record is written. Nil: nobody waits.
}

func (w *writer) busy() bool { return w.writing || len(w.queue) > 0 || w.dirty }

// record has r written, and then done called as a step of the owner. sync is for records that whoever waits will rely on; one that only
// takes a claim back may be lost with the host: the mounts then are, too.
func (s *source) record(r Record, sync bool, done func(error)) {
	r.Time = time.Now()
	s.log.image.apply(r)
	s.log.queue = append(s.log.queue, entry{record: r, sync: sync, done: done})
	s.checked = false
	s.write()
}

// write begins to write what was given, unless that is under way.
func (s *source) write() {
	w := &s.log
	if w.writing || len(w.queue) == 0 && !w.dirty {
		return
	}
	const longest, perHold = 256, 4
	batch := w.queue
	w.queue, w.writing, w.filed = nil, true, true
	if w.dirty || w.lines > longest+perHold*len(w.image.holds) {
		records := w.image.records(time.Now())
		w.lines, w.filed = len(records), len(records) > 0
		go func() { err := s.set.c.Journal.Rewrite(s.id, records); s.post(func() { s.written(batch, err) }) }()
		return
	}
	w.lines += len(batch)
	records, sync := make([]Record, len(batch)), false
	for i, e := range batch {
		records[i], sync = e.record, sync || e.sync
	}
	go func() {
		err := s.set.c.Journal.Append(s.id, records, sync)
		s.post(func() { s.written(batch, err) })
	}()
}

// written is the step after a write.
func (s *source) written(batch []entry, err error) {
	w := &s.log
	w.writing, w.dirty = false, err != nil
	if err != nil {
		w.filed = true
		w.retry.failed(time.Now(), s.set.limits.UnmountRetry, s.set.limits.Jitter)
		s.fault(err)
		s.tell(Event{Kind: JournalError, Err: err, Detail: "holds of this source cannot be recorded"})
	} else {
		w.retry = retry{}
	}
	for _, e := range batch {
		if e.done != nil {
			e.done(err)
		}
	}
	if err == nil || len(w.queue) > 0 {
		s.write()
	}
}

// forgetFile has the journal of this source removed when there is nothing in it.
func (s *source) forgetFile() {
	if w := &s.log; w.filed && !w.busy() {
		w.writing, w.filed, w.lines = true, false, 0
		go func() { err := s.set.c.Journal.Rewrite(s.id, nil); s.post(func() { s.written(nil, err) }) }()
	}
}
