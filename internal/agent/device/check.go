// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/agent/pool/inuse"
	"github.com/holdfast-storage/holdfast/internal/command"
	"github.com/holdfast-storage/holdfast/internal/errs"
)

// Check returns the devices at some paths, in their order, when all of them are free now. Unlike [Finder.Free] it also looks
// for processes that have one open. It tells of the first that is not free, and why: the error is an *errs.Error of the kind
// Invalid when there is no such device, or InUse.
func (f *Finder) Check(ctx context.Context, paths []string) ([]Device, error) {
	f.Settle(ctx)
	all, err := f.Blocks(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]Device, 0, len(paths))
	for _, path := range paths {
		b, ok := f.Find(all, path)
		if !ok {
			return nil, errs.New(errs.Invalid, errs.Node, "there is no block device %s", path).Fix("look at the list of free devices")
		}
		if err := f.free(ctx, b); err != nil {
			return nil, err
		}
		list = append(list, b.device())
	}
	return list, nil
}

// Settle waits until udev knows what the kernel has told it, so that what was wiped a moment ago is not taken for what it was. It
// is no error when it cannot: whoever uses a device looks at the device itself.
func (f *Finder) Settle(ctx context.Context) {
	_, _ = f.Run.Run(ctx, command.Command{Program: "udevadm", Args: []string{"settle", "--timeout", "8"}, Limit: limit})
}

// Unclaimed opens a device for itself alone, and closes it. The kernel refuses that when it uses the device, or a part of it.
func (f *Finder) Unclaimed(path string) error { return f.claim(path) }

// Resolve returns what a path of a device leads to. One that leads nowhere is returned as it is.
func Resolve(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

// Find looks for the device that a path leads to.
func (f *Finder) Find(list []Block, path string) (Block, bool) { return f.find(list, Resolve(path)) }

// find is Find for a resolved path. What lies on a device of a kind that cannot be used is of that kind.
func (f *Finder) find(list []Block, path string) (Block, bool) {
	for _, b := range list {
		if b.Path == path || "/dev/"+b.Kernel == path {
			return b, true
		}
		if child, ok := f.find(b.Children, path); ok {
			if !f.kind(b) {
				child.Type, child.Kernel = b.Type, b.Kernel
			}
			return child, true
		}
	}
	return Block{}, false
}

// free refuses a device that is not free. What was wiped a moment ago, udev may still look into.
func (f *Finder) free(ctx context.Context, b Block) error {
	if why := f.unfit(b); why != "" {
		e := taken(b.Path, why)
		if f.kind(b) && len(b.Children)+len(b.Mounts) == 0 && (b.Filesystem != "" || b.Table != "") {
			return wipe(e, b.Path)
		}
		return e
	}
	look := f.Holders
	if look == nil {
		look = Holders(&inuse.Scanner{})
	}
	holders, err := pool.Lasting(ctx, func(ctx context.Context) ([]pool.Holder, error) { return look(ctx, b.Path) })
	if err != nil {
		return fmt.Errorf("look who uses device %s: %w", b.Path, err)
	}
	if len(holders) > 0 {
		return taken(b.Path, "it is "+holders[0].String())
	}
	if err := f.claim(b.Path); err != nil {
		return taken(b.Path, "the kernel does not open it for us alone: "+err.Error())
	}
	return f.blank(ctx, b.Path)
}

func taken(path, why string) *errs.Error {
	return errs.New(errs.InUse, errs.Node, "device %s is not free", path).Because("%s", why)
}

func wipe(e *errs.Error, path string) *errs.Error {
	return e.Fix("when nothing on it is needed, wipe it on the host with wipefs --all %s", path)
}

// unfit says why a device is not free by what lsblk tells of it, or nothing.
func (f *Finder) unfit(b Block) string {
	switch {
	case !f.kind(b):
		return "pools are not made of devices of its kind, which is " + b.Type + " " + b.Kernel
	case !WellNamed(b.Path):
		return "its path is not one of a device"
	case len(b.Children) > 0:
		var names []string
		for _, child := range b.Children {
			names = append(names, child.Path)
		}
		return "there are partitions or devices on it: " + strings.Join(names, ", ")
	case slices.ContainsFunc(b.Mounts, func(m string) bool { return m != "" }):
		return "it is mounted at " + b.Mounts[0]
	case b.Filesystem != "":
		return "it has a signature of " + b.Filesystem
	case b.Table != "":
		return "it has a partition table, " + b.Table
	case b.ReadOnly:
		return "it is read-only"
	case b.Size <= MinSize:
		return fmt.Sprintf("it has %d bytes, and must have more than %d", b.Size, int64(MinSize))
	}
	return ""
}

// Signature is what blkid finds on a device, read from the device itself.
type Signature struct {
	Type    string // of a filesystem or a member of something larger, such as ext4 or zfs_member
	Table   string // kind of a partition table
	Label   string // of the filesystem or of what it is a member of
	Several bool   // Signatures of several kinds were found, and the rest is not told.
}

// None tells whether nothing was found.
func (s Signature) None() bool { return s == Signature{} }

// pair matches one thing that blkid tells.
var pair = regexp.MustCompile(`\b([A-Z0-9_]+)="((?:[^"\\]|\\.)*)"`)

// Signature looks what is on a device. What blkid cannot tell is an error.
func (f *Finder) Signature(ctx context.Context, path string) (Signature, error) {
	const ( // blkid's exit codes
		nothingFound = 2
		severalFound = 8
	)
	r, err := f.Run.Run(ctx, command.Command{Program: "blkid", Args: []string{"--probe", path}, Limit: limit})
	if e, ok := errors.AsType[*command.Error](err); ok && e.Kind == command.Exited {
		switch e.Code {
		case nothingFound:
			return Signature{}, nil
		case severalFound:
			return Signature{Several: true}, nil
		}
	}
	if err != nil {
		return Signature{}, fmt.Errorf("look what is on device %s: %w", path, err)
	}
	return parseSignature(r.Stdout), nil
}

// parseSignature reads what blkid prints of a device. Of a partition it also tells what the table says, which is nothing on it.
func parseSignature(output []byte) Signature {
	told := pair.FindAllSubmatch(output, -1)
	s, more := Signature{}, len(told) == 0
	for _, m := range told {
		key, value := string(m[1]), string(m[2])
		switch {
		case key == "TYPE":
			s.Type = value
		case key == "PTTYPE":
			s.Table = value
		case key == "LABEL":
			s.Label = value
		case !strings.HasPrefix(key, "PART_ENTRY_"):
			more = true
		}
	}
	if s.Type == "" && s.Table == "" && (more || s.Label != "") {
		s.Several = true // Something is there, in words that are not known here.
	}
	return s
}

// blank refuses a device with anything on it.
func (f *Finder) blank(ctx context.Context, path string) error {
	s, err := f.Signature(ctx, path)
	switch {
	case err != nil:
		return err
	case s.Several:
		return wipe(taken(path, "it has several signatures"), path)
	case s.Type != "":
		return wipe(taken(path, "it has a signature of "+s.Type), path)
	case s.Table != "":
		return wipe(taken(path, "it has a partition table, "+s.Table), path)
	}
	return nil
}
