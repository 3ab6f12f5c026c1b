// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-storage/holdfast/internal/command"
)

const imageLimit = 24 * time.Hour // For one call of qemu-img; whoever waits can cancel it.

// qemuImg runs qemu-img, which is always told what formats files have.
func (w work) qemuImg(ctx context.Context, args ...string) (command.Result, error) {
	return w.runner.Run(ctx, command.Command{Program: "qemu-img", Args: args, Limit: imageLimit})
}

// reachable is the path by which a program that this process starts finds a file that it has open, whatever is at the file's own path.
func reachable(f *os.File) string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), f.Fd()) }

// exportQcow2 writes a device into a file as qcow2.
func (w work) exportQcow2(ctx context.Context, from *device, f *os.File, want sum, tell func(news)) (o outcome, err error) {
	file := reachable(f)
	stop := w.follow(from.size, func(done int64) { tell(news{Done: done, Total: 3 * from.size}) })
	_, err = w.qemuImg(ctx, "convert", "-f", raw, "-O", qcow2, "-T", "none", from.Name(), file)
	stop()
	if err != nil {
		return o, fmt.Errorf("write the image: %w", err)
	}
	if err := f.Sync(); err != nil {
		return o, fmt.Errorf("make the file durable: %w", err)
	}
	tell(news{Done: from.size, Total: 3 * from.size})
	if _, err := w.qemuImg(ctx, "check", "-f", qcow2, file); err != nil {
		return o, fmt.Errorf("verify the image: %w", err)
	}
	if _, err := w.qemuImg(ctx, "compare", "-f", raw, "-F", qcow2, from.Name(), file); err != nil {
		return o, fmt.Errorf("compare the image with the volume: %w", err)
	}
	tell(news{Done: 2 * from.size, Total: 3 * from.size})
	info, err := f.Stat()
	if err != nil {
		return o, err
	}
	found, err := rereadFile(ctx, f, info.Size(), want, func(int64) {})
	if err != nil {
		return o, err
	}
	if err := want.verify(found); err != nil {
		return o, err
	}
	tell(news{Done: 3 * from.size, Total: 3 * from.size})
	return outcome{Checksum: want.text(found), Size: info.Size()}, nil
}

// imageInfo is what qemu-img tells of an image.
type imageInfo struct {
	Format      string `json:"format"`
	VirtualSize int64  `json:"virtual-size"`
	Backing     string `json:"backing-filename"`
	Encrypted   bool   `json:"encrypted"`
	Specific    struct {
		Data struct {
			DataFile string `json:"data-file"`
		} `json:"data"`
	} `json:"format-specific"`
}

// look refuses an image that is no qcow2, that refers to other files, that is damaged, or that is too large.
func (w work) look(ctx context.Context, file string, room int64) (imageInfo, error) {
	var info imageInfo
	res, err := w.qemuImg(ctx, "info", "--output=json", "-f", qcow2, file)
	if err != nil {
		if ctx.Err() != nil {
			return info, ctx.Err()
		}
		return info, refusef("the image is not of the format qcow2, which it is said to have: %w", err)
	}
	if err := json.Unmarshal(res.Stdout, &info); err != nil {
		return info, fmt.Errorf("read what qemu-img tells: %w", err)
	}
	switch {
	case info.Format != qcow2:
		return info, refusef("the image is of the format %q and not qcow2, which it is said to have", info.Format)
	case info.Backing != "":
		return info, refusef("the image lies on another file, %q: give one that is whole", info.Backing)
	case info.Specific.Data.DataFile != "":
		return info, refusef("the image has its data in another file, %q: give one that is whole", info.Specific.Data.DataFile)
	case info.Encrypted:
		return info, refusef("the image is encrypted: give one that is not")
	case info.VirtualSize > room:
		return info, refusef("the image is one of %d bytes, and the volume has room for %d: resize it first", info.VirtualSize, room)
	}
	const onlyLeaks = 3
	if _, err := w.qemuImg(ctx, "check", "-f", qcow2, file); err != nil {
		if failed, ok := errors.AsType[*command.Error](err); !ok || failed.Code != onlyLeaks {
			return info, refusef("the image is damaged: %w", err)
		}
	}
	return info, nil
}

// importQcow2 writes what an image of the format qcow2 contains into a volume.
func (w work) importQcow2(ctx context.Context, f *os.File, size int64, to *device, want sum, tell func(news)) (o outcome, err error) {
	found, err := reread(ctx, f, size, want.new(), func(int64) {})
	if err != nil {
		return o, refusef("the image cannot be read: %w", err)
	}
	if err := want.verify(found); err != nil {
		return o, refusef("%w", err)
	}
	file := reachable(f)
	info, err := w.look(ctx, file, to.size)
	if err != nil {
		return o, err
	}
	total := 2 * info.VirtualSize
	stop := w.follow(info.VirtualSize, func(done int64) { tell(news{Done: done, Total: total}) })
	_, err = w.qemuImg(ctx, "convert", "-n", "-f", qcow2, "-O", raw, "-t", "none", file, to.Name())
	stop()
	if err != nil {
		return o, fmt.Errorf("write the volume: %w", err)
	}
	end := (info.VirtualSize + sector - 1) / sector * sector
	if err := errors.Join(to.clear(ctx, end, to.size, nil), to.flush()); err != nil {
		return o, err
	}
	tell(news{Done: info.VirtualSize, Total: total})
	if _, err := w.qemuImg(ctx, "compare", "-f", qcow2, "-F", raw, file, to.Name()); err != nil {
		return o, fmt.Errorf("compare the volume with the image: %w", err)
	}
	tell(news{Done: total, Total: total})
	return outcome{Checksum: want.text(found), Size: info.VirtualSize}, nil
}

// follow tells, until it is stopped, how much the programs that this process started have read and written.
func (w work) follow(total int64, tell func(done int64)) (stop func()) {
	const every = 500 * time.Millisecond
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-over:
				return
			case <-tick.C:
				tell(min(total, moved()))
			}
		}
	}()
	return func() { close(over); <-ended }
}

// moved returns how many bytes the children of this process have read or written, whatever is more.
func moved() (most int64) {
	lists, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		return 0
	}
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			continue
		}
		for child := range strings.FieldsSeq(string(text)) {
			io, err := os.ReadFile("/proc/" + child + "/io")
			if err != nil {
				continue
			}
			for line := range strings.Lines(string(io)) {
				name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
				if n, err := strconv.ParseInt(value, 10, 64); err == nil && (name == "rchar" || name == "wchar") {
					most = max(most, n)
				}
			}
		}
	}
	return most
}
