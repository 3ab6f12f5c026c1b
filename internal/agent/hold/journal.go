// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/agent/mount"
)

// Files is the Journal in a folder: a file for each source, a line for each record. A line is the checksum of its JSON and the JSON. The first
// says for which source and which boot of the kernel the file is.
type Files struct {
	dir  string
	boot string

	mu   sync.Mutex // Guards open, and is not held during I/O.
	open map[mount.Source]*journalFile
}

// journalFile is the open journal of one source. It is used by one goroutine at a time.
type journalFile struct {
	f    *os.File
	size int64 // How much of it is whole lines.
}

const (
	journalSuffix = ".journal"
	journalFormat = "holdfast-holds-1"
)

// head is the first line of a journal.
type head struct {
	Format string       `json:"format"`
	Boot   string       `json:"boot"`
	Source mount.Source `json:"source"`
}

// OpenFiles opens the journal in dir, which is made when it is missing and belongs to this process alone from then on. It should lie on a file
// system in memory: what is in it is void after a reboot. boot tells one run of the kernel from another; empty stands for that of this
// kernel.
func OpenFiles(dir, boot string) (*Files, error) {
	if boot == "" {
		text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
		if err != nil {
			return nil, fmt.Errorf("open the journal of holds: %w", err)
		}
		boot = strings.TrimSpace(string(text))
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open the journal of holds: %w", err)
	}
	return &Files{dir: dir, boot: boot, open: map[mount.Source]*journalFile{}}, nil
}

// Close closes the files. They stay.
func (j *Files) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	var failed []error
	for s, f := range j.open {
		failed = append(failed, f.f.Close())
		delete(j.open, s)
	}
	return errors.Join(failed...)
}

// Load implements Journal. Files of an earlier boot are removed; what a crash left unfinished at the end of a file is cut off.
func (j *Files) Load() ([]Saved, error) {
	entries, err := os.ReadDir(j.dir)
	if err != nil {
		return nil, fmt.Errorf("load the journal of holds: %w", err)
	}
	var all []Saved
	for _, e := range entries {
		path := filepath.Join(j.dir, e.Name())
		if !strings.HasSuffix(e.Name(), journalSuffix) {
			if strings.Contains(e.Name(), journalSuffix+".") {
				_ = os.Remove(path) // A draft that a crash left behind.
			}
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("load the journal of holds: %w", err)
		}
		h, saved, size := parseJournal(text)
		if h.Boot != "" && h.Boot != j.boot {
			if err := os.Remove(path); err != nil {
				return nil, fmt.Errorf("remove a journal of an earlier boot: %w", err)
			}
			continue
		}
		if h.Format == "" || h.Source.Key()+journalSuffix != e.Name() {
			return nil, fmt.Errorf("load the journal of holds: %s is not readable: %s; look at what is mounted and in use, then remove the file", path, saved.Damaged)
		}
		if saved.Damaged == "" && size < len(text) {
			if err := os.Truncate(path, int64(size)); err != nil {
				return nil, fmt.Errorf("load the journal of holds: %w", err)
			}
		}
		all = append(all, saved)
	}
	return all, nil
}

// parseJournal reads a journal and returns how many bytes of it are whole. A last line that is not whole was never answered for, and is
// nothing to worry about; anything else that cannot be read is damage.
func parseJournal(text []byte) (h head, saved Saved, size int) {
	for n := 0; len(text) > 0; n++ {
		line, rest, whole := bytes.Cut(text, []byte("\n"))
		if !whole {
			break
		}
		body, err := unseal(line)
		if err == nil && n == 0 {
			err = json.Unmarshal(body, &h)
			saved.Source = h.Source
			if err == nil && h.Format != journalFormat {
				err = fmt.Errorf("format %q is not known", h.Format)
				h = head{Boot: h.Boot}
			}
		} else if err == nil {
			var r Record
			err = json.Unmarshal(body, &r)
			saved.Records = append(saved.Records, r)
		}
		if err != nil {
			if n > 0 && len(bytes.TrimRight(rest, "\n")) == 0 {
				break // Torn: the file grew before its content was there.
			}
			saved.Damaged = fmt.Sprintf("line %d: %v", n+1, err)
			return h, saved, size
		}
		size += len(line) + 1
		text = rest
	}
	if h.Format == "" {
		saved.Damaged = "it has no whole first line"
	}
	return h, saved, size
}

// seal returns a line of the journal.
func seal(v any) ([]byte, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return append(fmt.Appendf(nil, "%08x ", checksum(body)), append(body, '\n')...), nil
}

func unseal(line []byte) ([]byte, error) {
	sum, body, ok := strings.Cut(string(line), " ")
	if !ok || sum != fmt.Sprintf("%08x", checksum([]byte(body))) {
		return nil, errors.New("its checksum is wrong")
	}
	return []byte(body), nil
}

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

func (j *Files) path(s mount.Source) string { return filepath.Join(j.dir, s.Key()+journalSuffix) }

// Append implements Journal.
func (j *Files) Append(s mount.Source, records []Record, sync bool) error {
	f, err := j.file(s)
	if err != nil {
		return fmt.Errorf("record holds of %s: %w", s, err)
	}
	var text []byte
	for _, r := range records {
		line, err := seal(r)
		if err != nil {
			return fmt.Errorf("record holds of %s: %w", s, err)
		}
		text = append(text, line...)
	}
	_, err = f.f.WriteAt(text, f.size)
	if err == nil && sync {
		err = unix.Fdatasync(int(f.f.Fd()))
	}
	if err != nil {
		// What may be there of it must not come before the next record.
		return fmt.Errorf("record holds of %s: %w", s, errors.Join(err, f.f.Truncate(f.size)))
	}
	f.size += int64(len(text))
	return nil
}

// file returns the open journal of a source, made when it is missing.
func (j *Files) file(s mount.Source) (*journalFile, error) {
	j.mu.Lock()
	f := j.open[s]
	j.mu.Unlock()
	if f != nil {
		return f, nil
	}
	file, err := os.OpenFile(j.path(s), os.O_RDWR, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		return j.create(s, nil)
	}
	if err != nil {
		return nil, err
	}
	st, err := file.Stat()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return j.keep(s, &journalFile{f: file, size: st.Size()}), nil
}

func (j *Files) keep(s mount.Source, f *journalFile) *journalFile {
	j.mu.Lock()
	defer j.mu.Unlock()
	if old := j.open[s]; old != nil {
		_ = old.f.Close()
	}
	if f == nil {
		delete(j.open, s)
		return nil
	}
	j.open[s] = f
	return f
}

// create makes the journal of a source anew. It appears whole or not at all.
func (j *Files) create(s mount.Source, records []Record) (*journalFile, error) {
	text, err := seal(head{Format: journalFormat, Boot: j.boot, Source: s})
	if err != nil {
		return nil, err
	}
	for _, r := range records {
		line, err := seal(r)
		if err != nil {
			return nil, err
		}
		text = append(text, line...)
	}
	f, err := os.OpenFile(j.path(s)+".new", os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = os.Rename(f.Name(), j.path(s))
	}
	if err == nil {
		err = j.syncDir()
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return j.keep(s, &journalFile{f: f, size: int64(len(text))}), nil
}

func (j *Files) syncDir() error {
	d, err := os.Open(j.dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Rewrite implements Journal.
func (j *Files) Rewrite(s mount.Source, records []Record) error {
	if len(records) > 0 {
		if _, err := j.create(s, records); err != nil {
			return fmt.Errorf("record holds of %s: %w", s, err)
		}
		return nil
	}
	j.keep(s, nil)
	if err := os.Remove(j.path(s)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget the holds of %s: %w", s, err)
	}
	return nil
}
