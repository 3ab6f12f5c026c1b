// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/agent/drbd"
	"github.com/holdfast-storage/holdfast/internal/agent/drbd/assignment"
	"github.com/holdfast-storage/holdfast/internal/agent/stack"
	"github.com/holdfast-storage/holdfast/internal/durable"
)

// A volume is rolled back below DRBD while that is down on this host. With the content, the metadata
// goes back to what it was; left like that, the peers that are not rolled back yet would bring the
// replica up to date again. So it gets new metadata before DRBD sees it: that of the replica with the
// lowest number says that its data is of a new generation, which is unrelated to all that was before,
// and that of the others says that they have none and are filled. Until a peer is rolled back as
// well, it is refused.
//
// A note from before the roll-back tells that the metadata is still to be made. DRBD does not come up
// while there is one that is true.

// rollBack rolls back what is to be, and makes its metadata. It returns false while it goes on.
func (x replica) rollBack(ctx context.Context) (done bool, err error) {
	if asked, err := x.asked(); err != nil || !asked {
		return !asked, err
	}
	lower, err := x.m.stack.Inspect(ctx, x.wish)
	if err != nil {
		return false, err
	}
	due := false
	for _, v := range x.want.Volumes {
		if v.Pool == nil || v.Destroy {
			continue
		}
		noted, err := x.rollBackNote(v)
		if err != nil {
			return false, err
		}
		token := rolledBack(lower, v)
		due = due || noted != "" && noted == token || v.RollBack != nil && token != v.RollBack.GetToken() && exists(lower, v)
	}
	if !due {
		return true, nil
	}
	if _, err := stack.Converge(ctx, x.DRBD, drbd.Want{Name: x.want.Resource, Down: true}); err != nil {
		return false, err
	}
	for _, v := range x.want.Volumes {
		if v.RollBack != nil && v.Pool != nil && rolledBack(lower, v) != v.RollBack.GetToken() {
			if err := x.write(x.note(v)+rollBackSuffix, v.RollBack.GetToken()); err != nil {
				return false, fmt.Errorf("note that a volume is being rolled back: %w", err)
			}
		}
	}
	if lower, err = x.m.stack.Apply(ctx, x.wish); err != nil {
		return false, err
	}
	return x.remake(ctx, lower)
}

// asked tells whether a volume is to be rolled back, or one is noted to be.
func (x replica) asked() (bool, error) {
	for _, v := range x.want.Volumes {
		noted, err := x.rollBackNote(v)
		if err != nil || noted != "" || v.RollBack != nil {
			return true, err
		}
	}
	return false, nil
}

// remake makes the metadata of volumes that were rolled back. It returns false while one is not.
func (x replica) remake(ctx context.Context, lower stack.Result) (done bool, err error) {
	device := devices(lower)
	for _, v := range x.want.Volumes {
		noted, err := x.rollBackNote(v)
		if err != nil {
			return false, err
		}
		switch {
		case noted == "" || v.Pool == nil || v.Destroy:
			continue
		case noted != rolledBack(lower, v) && v.RollBack.GetToken() == noted, device[v.Number] == "":
			return false, nil // it goes on
		case noted == rolledBack(lower, v):
			metadata := assignment.Metadata(&agentpb.Resource{Drbd: x.want.DRBD}, &agentpb.Volume{Size: v.Size})
			if x.lowest() {
				metadata.Generation = generationOf(noted, v.Number)
			}
			volume := drbd.Volume{Number: int(v.Number), Minor: int(v.DRBD.GetMinor()), Disk: device[v.Number]}
			if err := x.DRBD.CreateMetadata(ctx, x.want.Resource, volume, metadata); err != nil {
				return false, err
			}
		}
		if err := durable.Remove(x.note(v) + rollBackSuffix); err != nil { // one that is not true any more, too
			return false, err
		}
	}
	return true, nil
}

const rollBackSuffix = ".rollback"

// rollBackNote returns the token of the roll-back that is noted for a volume; empty for none.
func (x replica) rollBackNote(v VolumeWant) (string, error) {
	text, err := os.ReadFile(x.note(v) + rollBackSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(text)), err
}

// rolledBack returns the token of the last roll-back of a volume.
func rolledBack(lower stack.Result, v VolumeWant) string {
	for _, have := range lower.Volumes {
		if have.Number == int(v.Number) {
			return have.RolledBack
		}
	}
	return ""
}

func exists(lower stack.Result, v VolumeWant) bool {
	for _, have := range lower.Volumes {
		if have.Number == int(v.Number) {
			return true
		}
	}
	return false
}

// lowest tells whether this replica has the lowest number of those with disks.
func (x replica) lowest() bool {
	for _, p := range x.want.DRBD.GetPeers() {
		if !p.GetDiskless() && p.GetNodeId() < x.want.DRBD.GetNodeId() {
			return false
		}
	}
	return true
}

// generationOf is the generation of the data of a volume after a roll-back, as DRBD wants them: the
// last bit marks a Primary, and low numbers mean something else.
func generationOf(token string, number int32) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "roll-back %s %d", token, number))
	return fmt.Sprintf("%016X", binary.BigEndian.Uint64(sum[:8])&^1|1<<63)
}
