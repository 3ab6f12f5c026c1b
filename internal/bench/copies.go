// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// copies measures snapshots, restores and clones of volumes that are written in full, beside the bare commands that do
// the same: on a filesystem that shares blocks, where the time must not grow with the size, and on one that copies.
func (b *bench) copies(ctx context.Context, s *server) error {
	const mib = 1 << 20
	for _, on := range []struct {
		fstype, size string
		volumes      []int64
		rounds       int
	}{
		{"xfs", "16G", []int64{1024 * mib, 10240 * mib}, 10},
		{"ext4", "4G", []int64{256 * mib}, 5},
	} {
		b.say("\nsnapshots, restores and clones of volumes that are in use, on a thin file pool on %s\n", on.fstype)
		dir, unmount, err := b.disk(ctx, on.fstype, on.size)
		if err != nil {
			return err
		}
		err = b.copiesOn(ctx, s, on.fstype, dir, on.volumes, on.rounds)
		if err := errors.Join(err, unmount()); err != nil {
			return err
		}
	}
	return nil
}

// disk mounts a filesystem of its own on a folder.
func (b *bench) disk(ctx context.Context, fstype, size string) (dir string, unmount func() error, err error) {
	image := filepath.Join(b.dir, fstype+".img")
	if dir, err = b.folder("on-" + fstype); err != nil {
		return "", nil, err
	}
	for _, args := range [][]string{
		{"truncate", "-s", size, image}, {"mkfs." + fstype, "-q", image}, {"mount", "-o", "loop", image, dir}, {"mkdir", dir + "/pool"},
	} {
		if _, err := b.tool(ctx, args[0], args[1:]...); err != nil {
			return "", nil, err
		}
	}
	return dir, func() error {
		_, err := b.tool(context.WithoutCancel(ctx), "umount", dir)
		return errors.Join(err, os.Remove(image))
	}, nil
}

func (b *bench) copiesOn(ctx context.Context, s *server, fstype, dir string, sizes []int64, rounds int) error {
	if err := s.create(ctx, "/v1/nodes/bench-node/storage-pools",
		fmt.Sprintf(`{"storage_pool_name":%q,"provider_kind":"FILE_THIN","props":{"StorDriver/StorPoolName":%q}}`, fstype, dir+"/pool")); err != nil {
		return err
	}
	if err := s.create(ctx, "/v1/resource-groups",
		fmt.Sprintf(`{"name":"on-%s","select_filter":{"place_count":1,"storage_pool_list":[%q],"layer_stack":["STORAGE"]}}`, fstype, fstype)); err != nil {
		return err
	}
	for _, size := range sizes {
		c := copying{bench: b, server: s, group: "on-" + fstype, size: size, rounds: rounds, file: filepath.Join(dir, "by-hand"), reflink: fstype == "xfs"}
		if err := c.measure(ctx); err != nil {
			return fmt.Errorf("a volume of %d bytes on %s: %w", size, fstype, err)
		}
	}
	return s.remove(ctx, "/v1/nodes/bench-node/storage-pools/"+fstype)
}

// copying is the measuring of copies of one volume.
type copying struct {
	*bench

	server  *server
	group   string
	size    int64
	rounds  int
	file    string // that the bare commands work on
	reflink bool
}

const copied = "/v1/resource-definitions/copied"

func (c copying) measure(ctx context.Context) error {
	if err := c.server.create(ctx, "/v1/resource-groups/"+c.group+"/spawn",
		fmt.Sprintf(`{"resource_definition_name":"copied","volume_sizes":[%d]}`, c.size>>10)); err != nil {
		return err
	}
	device, err := c.server.device(ctx, "copied")
	if err != nil {
		return err
	}
	if err := fill(device, c.size); err != nil {
		return err
	}
	snapshot, restore, clone, err := c.byHoldfast(ctx)
	if err != nil {
		return err
	}
	if err := c.server.remove(ctx, copied); err != nil {
		return err
	}
	bare, bareDevice, err := c.byHand(ctx)
	if err != nil {
		return err
	}
	for _, line := range []struct {
		what        string
		ours, hands []time.Duration
	}{{"snapshot", snapshot, bare}, {"restore", restore, bareDevice}, {"clone", clone, bareDevice}} {
		c.say("  %-8s of %5d MiB   p50 %9s   bare commands %9s   ratio %.2f\n",
			line.what, c.size>>20, short(median(line.ours)), short(median(line.hands)), ratio(median(line.ours), median(line.hands)))
	}
	return nil
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// byHoldfast takes snapshots, restores each to a device, and clones.
func (c copying) byHoldfast(ctx context.Context) (snapshot, restore, clone []time.Duration, err error) {
	for i := range c.rounds {
		name := fmt.Sprintf("s%d", i)
		for _, step := range []struct {
			do   func() error
			took *[]time.Duration
		}{
			{func() error { return c.server.create(ctx, copied+"/snapshots", fmt.Sprintf(`{"name":%q}`, name)) }, &snapshot},
			{func() error { return c.server.restore(ctx, c.group, name, "restored") }, &restore},
			{func() error { return c.server.clone(ctx, "cloned") }, &clone},
		} {
			began := time.Now()
			if err := step.do(); err != nil {
				return nil, nil, nil, err
			}
			*step.took = append(*step.took, time.Since(began))
		}
		for _, path := range []string{"/v1/resource-definitions/restored", "/v1/resource-definitions/cloned", copied + "/snapshots/" + name} {
			if err := c.server.remove(ctx, path); err != nil {
				return nil, nil, nil, err
			}
		}
	}
	return snapshot, restore, clone, nil
}

// restore makes a device from a snapshot, as linstor-csi does.
func (s *server) restore(ctx context.Context, group, snapshot, to string) error {
	body := fmt.Sprintf(`{"to_resource":%q}`, to)
	return errors.Join(
		s.create(ctx, "/v1/resource-definitions", fmt.Sprintf(`{"resource_definition":{"name":%q,"resource_group_name":%q}}`, to, group)),
		s.post(ctx, copied+"/snapshot-restore-volume-definition/"+snapshot, body),
		s.post(ctx, copied+"/snapshot-restore-resource/"+snapshot, body),
	)
}

// clone makes a clone and waits until it is complete.
func (s *server) clone(ctx context.Context, to string) error {
	if err := s.create(ctx, copied+"/clone", fmt.Sprintf(`{"name":%q}`, to)); err != nil {
		return err
	}
	const pace = 2 * time.Millisecond
	for {
		var is struct{ Status string }
		text, _, err := fetch(ctx, http.DefaultClient, http.MethodGet, s.url+copied+"/clone/"+to, "")
		if err == nil {
			err = json.Unmarshal([]byte(text), &is)
		}
		switch {
		case err != nil:
			return err
		case is.Status == "COMPLETE":
			return nil
		case is.Status == "FAILED":
			return errors.New("the clone failed")
		}
		select {
		case <-time.After(pace):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// post makes a call that changes something, and fails when it does not.
func (s *server) post(ctx context.Context, path, body string) error {
	return s.change(ctx, http.MethodPost, path, body)
}

// remove deletes something, and fails when it does not.
func (s *server) remove(ctx context.Context, path string) error {
	return s.change(ctx, http.MethodDelete, path, "")
}

func (s *server) change(ctx context.Context, method, path, body string) error {
	text, code, err := fetch(ctx, http.DefaultClient, method, s.url+path, body)
	if err == nil && code >= http.StatusMultipleChoices {
		err = fmt.Errorf("%s %s was answered with %d: %s", method, path, code, text)
	}
	return err
}

// device returns the path of the device of a resource.
func (s *server) device(ctx context.Context, resource string) (string, error) {
	var v struct {
		Path string `json:"device_path"`
	}
	text, _, err := fetch(ctx, http.DefaultClient, http.MethodGet, s.url+"/v1/resource-definitions/"+resource+"/resources/bench-node/volumes/0", "")
	if err == nil {
		err = json.Unmarshal([]byte(text), &v)
	}
	if err == nil && v.Path == "" {
		err = fmt.Errorf("resource %s has no device: %s", resource, text)
	}
	return v.Path, err
}

// byHand does with the tools of the host what a snapshot is, and what it takes to make a device of one.
func (c copying) byHand(ctx context.Context) (snapshot, device []time.Duration, err error) {
	defer os.Remove(c.file)           //nolint:errcheck // on a disk that is removed
	defer os.Remove(c.file + ".copy") //nolint:errcheck // likewise
	if err := os.WriteFile(c.file, nil, 0o600); err != nil {
		return nil, nil, err
	}
	if err := fill(c.file, c.size); err != nil {
		return nil, nil, err
	}
	how := "--reflink=never"
	if c.reflink {
		how = "--reflink=always"
	}
	for range c.rounds {
		began := time.Now()
		if _, err := c.tool(ctx, "cp", how, "--sparse=auto", c.file, c.file+".copy"); err != nil {
			return nil, nil, err
		}
		if _, err := c.tool(ctx, "sync", c.file+".copy"); err != nil {
			return nil, nil, err
		}
		snapshot = append(snapshot, time.Since(began))
		dev, err := c.tool(ctx, "losetup", "--find", "--show", "--direct-io=on", c.file+".copy")
		if err != nil {
			return nil, nil, err
		}
		device = append(device, time.Since(began))
		if _, err := c.tool(ctx, "losetup", "-d", dev); err != nil {
			return nil, nil, err
		}
		if err := os.Remove(c.file + ".copy"); err != nil {
			return nil, nil, err
		}
	}
	return snapshot, device, nil
}

// fill writes a file or device in full.
func fill(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	piece := make([]byte, 4<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(piece)
	for at := int64(0); at < size && err == nil; at += int64(len(piece)) {
		_, err = f.WriteAt(piece, at)
	}
	return errors.Join(err, f.Sync(), f.Close())
}
