// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package mount

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// HelperMain is the main function of a helper: args are those after HelperName. It returns the exit code. It is run in a process of its own,
// which may hang in it for ever.
func HelperMain(args []string) int {
	if len(args) > 0 && args[0] == enterVerb {
		return enter(args[1:])
	}
	ans, err := serve(args, os.Stdin)
	code := 0
	if err != nil {
		code = refusedCode
		var r *refusal
		if !errors.As(err, &r) {
			r = &refusal{Fault: NoHelper, Detail: err.Error()}
		}
		ans = answer{Refusal: r}
	}
	ans.Complete = err == nil
	if err := json.NewEncoder(os.Stdout).Encode(ans); err != nil {
		return refusedCode
	}
	return code
}

// serve does what a helper is asked.
func serve(args []string, in io.Reader) (answer, error) {
	if len(args) == 0 {
		return answer{}, errors.New("this is not for use by hand: a verb is missing")
	}
	var req request
	if err := json.NewDecoder(in).Decode(&req); err != nil {
		return answer{}, fmt.Errorf("this is not for use by hand: %w", err)
	}
	if err := req.Slot.take(); err != nil {
		return answer{}, err
	}
	if os.Getppid() != req.Parent {
		return answer{}, errors.New("whoever started this helper has ended")
	}
	switch args[0] {
	case "prepare":
		return answer{}, prepare(req.Target)
	case becomesProgram:
		return answer{}, attach(req)
	case "verify":
		return verify(req.Entry, req.Spec)
	case "unmount":
		return answer{}, detach(req.Entry, req.Force)
	case "probe":
		return answer{}, probe(req.Entry, req.Spec)
	case "machines":
		machines, err := findMachines("/proc")
		return answer{Machines: machines}, err
	case "users":
		return findUsers(req.Entry, os.Stdout)
	}
	return answer{}, fmt.Errorf("verb %q is not known", args[0])
}

// refuse makes a refusal of an error of the kernel.
func refuse(fault Fault, err error, format string, args ...any) error {
	r := &refusal{Fault: fault, Detail: fmt.Sprintf(format, args...)}
	if err != nil && !errors.As(err, &r.Errno) {
		r.Detail += ": " + err.Error()
	}
	if staleErrno(r.Errno) && fault == Failed {
		r.Fault = StaleHandle
	}
	return r
}

// openFolder opens a folder by a path that has no symbolic link in it.
func openFolder(dir string, flags int) (*os.File, error) {
	fd, err := openAt(unix.AT_FDCWD, dir, flags|unix.O_DIRECTORY, 0, unix.RESOLVE_NO_SYMLINKS|unix.RESOLVE_NO_MAGICLINKS)
	if err != nil {
		return nil, refuseOpen(err, dir)
	}
	return os.NewFile(uintptr(fd), dir), nil
}

// refuseOpen says why a folder could not be opened.
func refuseOpen(err error, name string) error {
	switch {
	case errors.Is(err, unix.ELOOP):
		return refuse(Linked, nil, "%s", name)
	case errors.Is(err, unix.ENOTDIR):
		return refuse(NotAFolder, nil, "%s", name)
	}
	return refuse(Failed, err, "open %s", name)
}

// openAt is openat2, again while a rename elsewhere disturbs it.
func openAt(dir int, name string, flags int, mode, resolve uint64) (int, error) {
	for {
		fd, err := unix.Openat2(dir, name, &unix.OpenHow{Flags: uint64(flags) | unix.O_CLOEXEC, Mode: mode, Resolve: resolve})
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

func fdPath(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }

func ownTable() (Table, error) {
	var r Reader
	t, err := r.Table()
	return t, errors.Join(err, r.Close())
}

// prepare makes the base folder and makes it shared unless it lies in a shared mount already.
func prepare(base string) error {
	const traversable = 0o711 // Virtual machines that are not root reach their disks.
	if err := os.MkdirAll(base, traversable); err != nil {
		return refuse(Failed, err, "make %s", base)
	}
	f, err := openFolder(base, unix.O_PATH)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	t, err := ownTable()
	if err != nil {
		return err
	}
	e, rest, ok := t.Reach(base)
	if ok && e.Shared() {
		return nil
	}
	if !ok || rest != "/" {
		if err := unix.Mount(fdPath(f), fdPath(f), "", unix.MS_BIND, ""); err != nil {
			return refuse(Failed, err, "bind %s to itself", base)
		}
	}
	if err := unix.Mount("", base, "", unix.MS_SHARED, ""); err != nil {
		return refuse(Failed, err, "share mounts in %s", base)
	}
	return nil
}

// attach mounts what the request wants. For some kinds this process becomes the program that does it, and attach does not return.
func attach(req request) error {
	source := req.Spec.Source
	if err := makePlace(req.Target); err != nil {
		return err
	}
	switch source.Kind {
	case NFS:
		return become("mount.nfs", source.Device(), req.Target, "-n", "-o", strings.Join(append(req.Spec.Options.List(), fixed, "retry=0"), ","))
	case Block:
		var st unix.Stat_t
		if err := unix.Stat(source.Path, &st); err != nil {
			return refuse(Failed, err, "look at %s", source.Path)
		}
		if st.Mode&unix.S_IFMT != unix.S_IFBLK {
			return refuse(NotABlock, nil, "%s", source.Path)
		}
		args := []string{"-n", "-c", "-o", strings.Join(append(req.Spec.Options.List(), fixed), ",")}
		if req.Spec.FSType != "" {
			args = append(args, "-t", req.Spec.FSType)
		}
		return become("mount", append(args, "--", source.Path, req.Target)...)
	case Bind:
		return bind(source.Path, req.Target, req.Spec.Options)
	case Existing:
	}
	return fmt.Errorf("sources of the kind %q cannot be mounted", source.Kind)
}

// fixed are the options that every mount of ours has: what lies in a pool is data.
const fixed = "nosuid,nodev,noexec"

// become replaces this process by a program. It keeps the process id, so the slot names it too.
func become(program string, args ...string) error {
	file, err := lookUp(program)
	if err != nil {
		return refuse(NoProgram, nil, "%s is not installed", program)
	}
	return refuse(Failed, unix.Exec(file, append([]string{program}, args...), os.Environ()), "run %s", file)
}

func lookUp(program string) (string, error) {
	if strings.Contains(program, "/") {
		return program, nil
	}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		file := filepath.Join(dir, program)
		if path.IsAbs(dir) && unix.Access(file, unix.X_OK) == nil {
			return file, nil
		}
	}
	return "", fmt.Errorf("no program %q in %s", program, os.Getenv("PATH"))
}

// makePlace makes the folder that is mounted over, empty and immutable, and makes sure that nothing is mounted on it yet.
func makePlace(target string) error {
	base, err := openFolder(path.Dir(target), unix.O_RDONLY)
	if err != nil {
		return err
	}
	defer func() { _ = base.Close() }()
	name := path.Base(target)
	if err := unix.Mkdirat(int(base.Fd()), name, 0); err != nil && !errors.Is(err, unix.EEXIST) {
		return refuse(Failed, err, "make %s", target)
	}
	const alone = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV
	fd, err := openAt(int(base.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY, 0, alone)
	switch {
	case errors.Is(err, unix.EXDEV):
		return takenBy(target)
	case err != nil:
		return refuseOpen(err, target)
	}
	place := os.NewFile(uintptr(fd), target)
	defer func() { _ = place.Close() }()
	if names, err := place.Readdirnames(1); err == nil || !errors.Is(err, io.EOF) {
		return refuse(Taken, err, "files lie in the bare folder, such as %q", names)
	}
	return guard(place)
}

func takenBy(target string) error {
	r := &refusal{Fault: Taken}
	if t, err := ownTable(); err == nil {
		if e, ok := t.At(target); ok {
			r.Found = &e
		}
	}
	return r
}

// guard makes a folder immutable, where its file system knows that.
func guard(place *os.File) error {
	const immutable = 0x10 // FS_IMMUTABLE_FL.
	flags, err := unix.IoctlGetInt(int(place.Fd()), unix.FS_IOC_GETFLAGS)
	if err == nil && flags&immutable == 0 {
		err = unix.IoctlSetPointerInt(int(place.Fd()), unix.FS_IOC_SETFLAGS, flags|immutable)
	}
	if errors.Is(err, unix.ENOTTY) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) {
		return nil // Mode 0 then has to do: it stops all but root.
	}
	if err != nil {
		return refuse(Failed, err, "make %s immutable", place.Name())
	}
	return nil
}

// bind mounts a folder at another place. Mounts below the folder do not come along.
func bind(source, target string, options Options) error {
	from, err := openFolder(source, unix.O_PATH)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }()
	to, err := openFolder(target, unix.O_PATH)
	if err != nil {
		return err
	}
	defer func() { _ = to.Close() }()
	if err := unix.Mount(fdPath(from), fdPath(to), "", unix.MS_BIND, ""); err != nil {
		return refuse(Failed, err, "bind %s", source)
	}
	flags := uintptr(unix.MS_REMOUNT | unix.MS_BIND | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC)
	for _, o := range options.List() {
		switch o {
		case "ro":
			flags |= unix.MS_RDONLY
		case "noatime":
			flags |= unix.MS_NOATIME
		case "nodiratime":
			flags |= unix.MS_NODIRATIME
		case "strictatime":
			flags |= unix.MS_STRICTATIME
		}
	}
	if err := unix.Mount("", target, "", flags, ""); err != nil {
		return refuse(Failed, err, "set the options of %s", target)
	}
	return nil
}

// detach unmounts e if it is what a look-up of its place ends on.
func detach(e Entry, force Force) error {
	t, err := ownTable()
	if err != nil {
		return err
	}
	top, ok := t.At(e.Target)
	if !ok {
		return refuse(NotMounted, nil, "")
	}
	if !top.Same(e) {
		return &refusal{Fault: Taken, Found: &top}
	}
	flags := unix.UMOUNT_NOFOLLOW
	if force != Plain {
		flags |= unix.MNT_FORCE
	}
	err = unix.Unmount(e.Target, flags)
	if force == Detach && err != nil {
		err = unix.Unmount(e.Target, unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH)
	}
	switch {
	case errors.Is(err, unix.EBUSY):
		return refuse(Busy, err, "")
	case err != nil:
		return refuse(Failed, err, "")
	}
	return nil
}
