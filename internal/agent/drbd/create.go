// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package drbd

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-storage/holdfast/internal/agent/drbd/metadata"
	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/command"
)

// Metadata is what new metadata is made with.
type Metadata struct {
	Peers int // How many peers it has room for. It cannot be changed later.
	// Generation is the generation that the data of the device has from the beginning, 16 hexadecimal digits, the last one even. Disks that are given the same one
	// are equal and up to date at once: it is only for disks that all read as zeros, or are copies of one moment, and for those only when all of
	// them are new: a replica that is added later has another content. Empty: the content comes from a peer, or by a Start.
	Generation string
}

// generationForm excludes the generation of metadata that never had content, and those that mark a Primary.
var generationForm = regexp.MustCompile(`^[0-9A-F]{15}[02468ACE]$`)

func (m Metadata) check() error {
	if err := metadata.CheckPeers(m.Peers); err != nil {
		return err
	}
	if m.Generation != "" && (!generationForm.MatchString(m.Generation) || m.Generation <= justCreated) {
		return fmt.Errorf("%q is no generation of data: 16 digits 0-9 and A-F, the last one even", m.Generation)
	}
	return nil
}

// CreateMetadata makes new metadata on a backing device, and with that gives up all that DRBD knew of its data. It is only for a device
// that is NEW, as package pool understands it: nobody was told of it yet. What lies on it is not looked at, for a volume that is made from a
// snapshot has the metadata of its source on it; but a filesystem that reaches to where the metadata would lie is an *OccupiedError. A device that
// anyone uses is a *pool.InUseError; who only has it open is given ten seconds to be done with it.
//
// The resource need not be configured yet.
func (d *DRBD) CreateMetadata(ctx context.Context, resource string, v Volume, m Metadata) error {
	what := fmt.Sprintf("make metadata for volume %d of resource %s", v.Number, resource)
	if err := m.check(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	device, where := v.Disk, "internal"
	if v.Meta != "" {
		device, where = v.Meta, "flex-external"
	}
	// drbdmeta would go on with a device that is in use: the force that answers its questions answers that one, too.
	for _, used := range []string{v.Disk, device} {
		holders, err := d.usersOfNew(ctx, used)
		if err != nil {
			return fmt.Errorf("%s: who uses %s: %w", what, used, err)
		}
		if len(holders) > 0 {
			return &pool.InUseError{ID: pool.ID{Resource: resource, Volume: v.Number}, Holders: holders, Detail: "metadata is made on new devices alone"}
		}
	}
	minor := strconv.Itoa(v.Minor)
	_, err := d.run(ctx, resource, what, "drbdmeta", "--force", minor, "v09", device, where, "create-md", strconv.Itoa(m.Peers))
	var failed *command.Error
	if errors.As(err, &failed) && failed.Kind == command.Exited && failed.Code == exitOccupied {
		return fmt.Errorf("%s: %w", what, &OccupiedError{Device: device})
	}
	if err != nil {
		return err
	}
	if m.Generation == "" {
		return d.prove(ctx, resource, what, v, justCreated)
	}
	// Flags: the data is consistent, and up to date.
	gi := m.Generation + ":0:0:0:1:1:0:0:0:0"
	if _, err := d.run(ctx, resource, what, "drbdmeta", "--force", minor, "v09", device, where, "set-gi", "--node-id", "0", gi); err != nil {
		return err
	}
	return d.prove(ctx, resource, what, v, m.Generation)
}

// looks is how often who has a new device open is waited for, as long as package pool waits each time: udev looks into each device that comes, and is slow on
// a host where many do.
const looks = 20

// usersOfNew returns who uses a device that came a moment ago, without those who were only looking into it.
func (d *DRBD) usersOfNew(ctx context.Context, device string) ([]pool.Holder, error) {
	for try := 1; ; try++ {
		holders, err := pool.Lasting(ctx, func(ctx context.Context) ([]pool.Holder, error) { return d.settings.Users(ctx, device) })
		lasting := slices.ContainsFunc(holders, func(h pool.Holder) bool { return h.Kind != pool.Opened })
		if err != nil || len(holders) == 0 || lasting || try == looks {
			return holders, err
		}
	}
}

// prove looks whether a device that is not attached has a generation of data: without a terminal drbdmeta can end well and have done nothing.
func (d *DRBD) prove(ctx context.Context, resource, what string, v Volume, generation string) error {
	found, err := d.generation(ctx, resource, what, v)
	if err == nil && found != generation {
		err = fmt.Errorf("%s: %w", what, &MetadataError{Device: v.Disk, Found: found})
	}
	return err
}

// generation returns the generation of the data on a device that is not attached.
func (d *DRBD) generation(ctx context.Context, resource, what string, v Volume) (string, error) {
	device, where := v.Disk, "internal"
	if v.Meta != "" {
		device, where = v.Meta, "flex-external"
	}
	out, err := d.run(ctx, resource, what, "drbdmeta", strconv.Itoa(v.Minor), "v09", device, where, "get-gi", "--node-id", "0")
	generation, _, _ := strings.Cut(strings.TrimSpace(string(out)), ":")
	return generation, err
}
