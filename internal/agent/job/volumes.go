// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
)

// copyVolume copies a device into another.
func (w work) copyVolume(ctx context.Context, t task, tell func(news)) (o outcome, err error) {
	want, err := parseChecksum(t.Checksum)
	if err != nil {
		return o, err
	}
	from, err := openSource(t.Source)
	if err != nil {
		return o, err
	}
	defer func() { _ = from.Close() }()
	to, err := openTarget(t.Target)
	if err != nil {
		return o, err
	}
	defer func() { _ = to.Close() }()
	if from.size > to.size {
		return o, refusef("the source has %d bytes, and the volume has room for %d: resize it first", from.size, to.size)
	}
	return intoVolume(ctx, from, from.size, to, want, tell)
}

// intoVolume fills a volume with what a reader has, makes the rest of it zeros, and verifies it.
func intoVolume(ctx context.Context, from io.Reader, size int64, to *device, want sum, tell func(news)) (o outcome, err error) {
	digest := want.new()
	buffer := make([]byte, piece)
	var at int64
	for at < size {
		if err := ctx.Err(); err != nil {
			return o, err
		}
		n, err := io.ReadFull(from, buffer[:min(piece, size-at)])
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) || n == 0 {
			return o, fmt.Errorf("read at %d bytes of %d: %w", at, size, err)
		}
		_, _ = digest.Write(buffer[:n]) // A hash never fails.
		if err := to.put(padded(buffer, n), at); err != nil {
			return o, fmt.Errorf("write at %d bytes: %w", at, err)
		}
		at += int64(n)
		tell(news{Done: at, Total: 2 * size}) // It is read again afterwards.
	}
	return finishVolume(ctx, to, size, digest.Sum(nil), want, tell)
}

// finishVolume makes the rest of a volume zeros, makes all durable, and compares what is there with what was written.
func finishVolume(ctx context.Context, to *device, size int64, written []byte, want sum, tell func(news)) (o outcome, err error) {
	if err := want.verify(written); err != nil {
		return o, err
	}
	end := (size + sector - 1) / sector * sector
	if err := errors.Join(to.settle(), to.clear(ctx, end, to.size, nil), to.flush()); err != nil {
		return o, err
	}
	found, err := reread(ctx, to, size, want.new(), func(done int64) { tell(news{Done: size + done, Total: 2 * size}) })
	if err != nil {
		return o, err
	}
	if !bytes.Equal(found, written) {
		return o, fmt.Errorf("what was read from %s is not what was written: %s instead of %s", to.Name(), want.text(found), want.text(written))
	}
	return outcome{Checksum: want.text(written), Size: size}, nil
}

// wipe removes what a job that has failed may have left: the draft of its file, and what is in its volume.
func (w work) wipe(ctx context.Context, t task, tell func(news)) (outcome, error) {
	if t.Draft != "" {
		if err := removeFile(t.Draft); err != nil {
			return outcome{}, err
		}
	}
	if t.Target == "" {
		return outcome{}, nil
	}
	to, err := openTarget(t.Target)
	if err != nil {
		return outcome{}, err
	}
	defer func() { _ = to.Close() }()
	if err := to.clear(ctx, 0, to.size, func(done int64) { tell(news{Done: done, Total: to.size}) }); err != nil {
		return outcome{}, err
	}
	return outcome{}, to.flush()
}
