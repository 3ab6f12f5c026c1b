// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package mount

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// scan is one look for the users of a mount. It reads only what the kernel tells without asking the file system: numbers of mounts, texts of
// links, tables. It runs in a helper, because some of that waits for a process that hangs.
type scan struct {
	proc, sys string
	e         Entry
	own       Table
	spaces    map[string]*space // Mount namespaces by their links.
	users     map[userKey]User
}

// userKey keeps one user for each process and use.
type userKey struct {
	use  Use
	pid  int
	path string // Of those that are no processes.
}

// space is a mount namespace.
type space struct {
	foreign bool
	ids     map[int]string // The mounts of ours in it: their mount points by number.
}

// findUsers looks for the users of e and writes what it has found after each stage, so that something is known when a later one hangs.
func findUsers(e Entry, out io.Writer) (answer, error) {
	s := &scan{proc: "/proc", sys: "/sys", e: e, spaces: map[string]*space{}, users: map[userKey]User{}}
	enc := json.NewEncoder(out)
	var err error
	if s.own, err = ownTable(); err != nil {
		return answer{}, err
	}
	for _, stage := range []func() error{s.tables, s.processes, s.names, s.maps} {
		if err := stage(); err != nil {
			return answer{Users: s.list()}, err
		}
		if err := enc.Encode(answer{Users: s.list()}); err != nil {
			return answer{}, err
		}
	}
	return answer{Users: s.list()}, nil
}

// list returns the users found so far, in a stable order.
func (s *scan) list() []User {
	users := make([]User, 0, len(s.users))
	for _, u := range s.users {
		users = append(users, u)
	}
	slices.SortFunc(users, func(a, b User) int {
		return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(a.Use, b.Use), cmp.Compare(a.Path, b.Path))
	})
	const most = 200 // Who blocks an unmount is read by people.
	return users[:min(len(users), most)]
}

func (s *scan) add(u User) {
	key := userKey{use: u.Use, pid: u.PID}
	if u.PID == 0 {
		key.path = u.Path
	}
	if _, known := s.users[key]; !known {
		s.users[key] = u
	}
}

// tables finds the users that are no processes.
func (s *scan) tables() error {
	for _, m := range s.own {
		switch {
		case m.Parent == s.e.ID && m.ID != s.e.ID:
			s.add(User{Use: Nested, Path: m.Target})
		case m.FSType == "overlay" && s.layered(m.Super):
			s.add(User{Use: Layered, Path: m.Target})
		}
	}
	if err := s.loops(); err != nil {
		return err
	}
	for _, list := range []struct {
		file string
		use  Use
	}{{"swaps", Swap}, {"fs/nfsd/exports", Exported}} {
		text, err := os.ReadFile(filepath.Join(s.proc, list.file))
		if err != nil {
			continue // A kernel without it.
		}
		for line := range strings.Lines(string(text)) {
			if file, _, _ := strings.Cut(unescape(line), "\t"); within(strings.Split(file, " ")[0], s.e.Target) {
				s.add(User{Use: list.use, Path: strings.Split(file, " ")[0]})
			}
		}
	}
	return nil
}

// layered tells whether the options of an overlay name a folder of the mount.
func (s *scan) layered(options string) bool {
	for o := range strings.SplitSeq(options, ",") {
		name, dirs, _ := strings.Cut(o, "=")
		if name != "lowerdir" && name != "upperdir" && name != "workdir" {
			continue
		}
		for dir := range strings.SplitSeq(dirs, ":") {
			if within(dir, s.e.Target) {
				return true
			}
		}
	}
	return false
}

// loops finds the loop devices whose files lie in the mount.
func (s *scan) loops() error {
	devices, err := os.ReadDir(filepath.Join(s.sys, "block"))
	if err != nil {
		return fmt.Errorf("list block devices: %w", err)
	}
	for _, d := range devices {
		if !strings.HasPrefix(d.Name(), "loop") {
			continue
		}
		dir := filepath.Join(s.sys, "block", d.Name())
		backing, err := os.ReadFile(filepath.Join(dir, "loop/backing_file"))
		file := strings.TrimSuffix(string(backing), "\n")
		if err != nil || !within(file, s.e.Target) {
			continue // It is not bound.
		}
		name := []string{d.Name()}
		above, _ := os.ReadDir(filepath.Join(dir, "holders"))
		for _, a := range above {
			name = append(name, "below "+a.Name())
		}
		for _, m := range s.own {
			if m.Source == "/dev/"+d.Name() {
				name = append(name, "mounted at "+m.Target)
			}
		}
		s.add(User{Use: Loop, Path: file, Command: strings.Join(name, ", ")})
	}
	return nil
}

// processes finds the processes that have something of the mount open, as working directory, as root or as their program.
func (s *scan) processes() error {
	entries, err := os.ReadDir(s.proc)
	if err != nil {
		return fmt.Errorf("list processes: %w", err)
	}
	for _, p := range entries {
		pid, err := strconv.Atoi(p.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		if err := s.process(pid); err != nil && !unseen(err) {
			return fmt.Errorf("look at process %d: %w", pid, err)
		}
	}
	return nil
}

// unseen tells whether an error means that the process has ended, or that it is better protected than we are.
func unseen(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) || errors.Is(err, fs.ErrPermission)
}

func (s *scan) process(pid int) error {
	dir := filepath.Join(s.proc, strconv.Itoa(pid))
	sp, err := s.space(dir)
	if err != nil || len(sp.ids) == 0 {
		return err
	}
	user := User{PID: pid, Foreign: sp.foreign}
	for link, use := range map[string]Use{"cwd": WorkDir, "root": RootDir, "exe": Program} {
		file, err := os.Readlink(filepath.Join(dir, link))
		if err != nil {
			continue // A kernel thread, or one that ends.
		}
		for _, point := range sp.ids {
			if within(file, point) && s.nearest(sp, file) {
				user.Use, user.Path = use, file
				s.add(user)
			}
		}
	}
	fds, err := os.ReadDir(filepath.Join(dir, "fdinfo"))
	if err != nil {
		return err
	}
	for _, fd := range fds {
		text, err := os.ReadFile(filepath.Join(dir, "fdinfo", fd.Name()))
		if err != nil {
			continue // Closed meanwhile.
		}
		id, ok := mountID(text)
		point, ours := sp.ids[id]
		if !ok || !ours {
			continue
		}
		file, err := os.Readlink(filepath.Join(dir, "fd", fd.Name()))
		if err != nil {
			file = point
		}
		user.Use, user.Path = Open, file
		s.add(user)
		break // One is enough for each process.
	}
	return nil
}

// nearest tells whether no mount below ours, in our own namespace, is nearer to file.
func (s *scan) nearest(sp *space, file string) bool {
	if sp.foreign {
		return true
	}
	return !slices.ContainsFunc(s.own, func(m Entry) bool {
		return m.ID != s.e.ID && within(m.Target, s.e.Target) && within(file, m.Target) && m.Target != s.e.Target
	})
}

// mountID reads the number of the mount that an open file lies on from its fdinfo.
func mountID(text []byte) (int, bool) {
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "mnt_id:"); ok {
			id, err := strconv.Atoi(strings.TrimSpace(value))
			return id, err == nil
		}
	}
	return 0, false
}

// space returns the mount namespace of a process, read once.
func (s *scan) space(dir string) (*space, error) {
	link, err := os.Readlink(filepath.Join(dir, "ns/mnt"))
	if err != nil {
		return nil, err
	}
	if sp, ok := s.spaces[link]; ok {
		return sp, nil
	}
	f, err := os.Open(filepath.Join(dir, "mountinfo"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	t, err := ParseTable(f)
	if err != nil {
		return nil, err
	}
	mine, err := os.Readlink(filepath.Join(s.proc, "self/ns/mnt"))
	if err != nil {
		return nil, err
	}
	sp := &space{foreign: link != mine, ids: map[int]string{}}
	for _, m := range t {
		if s.ours(m, sp.foreign) {
			sp.ids[m.ID] = m.Target
		}
	}
	// Gone from our own table, it may still be in use: its number is not given to another while it is.
	if _, there := s.own.Find(s.e); !there && !sp.foreign && !slices.ContainsFunc(t, func(m Entry) bool { return m.ID == s.e.ID }) {
		sp.ids[s.e.ID] = s.e.Target
	}
	s.spaces[link] = sp
	return sp, nil
}

// ours tells whether a mount is the one that is asked about or, in another namespace, a copy of it or of a part of it.
func (s *scan) ours(m Entry, foreign bool) bool {
	if !foreign {
		return m.ID == s.e.ID && m.SameFS(s.e)
	}
	if !m.shows(s.e) {
		return false
	}
	// Somebody else's mount of the same file system has copies too.
	return !slices.ContainsFunc(s.own, func(o Entry) bool {
		return o.ID != s.e.ID && o.SameFS(s.e) && o.Target == m.Target && o.Root == m.Root
	})
}

func unescape(text string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(text)
}
