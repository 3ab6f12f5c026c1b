// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// begin decides how the new disks of a replica under DRBD, which is written already, get their
// first content.
//
// Replicas that are added by one call begin together: where all their disks read as zeros they are
// equal from the beginning, and nothing is sent. The first of them starts the volume. A disk that
// comes when there is another one already is filled by it, for that one may have been used since.
// Uncertain is a disk of which it is not known that it is new and empty: it is equal to no other.
func begin(tx *store.Tx, d schema.Definition, row schema.Resource, numbers []model.VolumeNumber, uncertain bool, b birth) error {
	if row.Kind != schema.Diskful || !model.Replicates(d.Layers) {
		return endBeginning(tx, row.ID())
	}
	now := schema.Beginning{Definition: row.Definition, Node: row.Node}
	before, had := schema.Beginnings.Get(tx, row.ID())
	for _, v := range row.Volumes {
		i := slices.IndexFunc(before.Volumes, func(f schema.FirstContent) bool { return f.Number == v.Number })
		switch {
		case slices.Contains(numbers, v.Number):
			p, _ := schema.Pools.Get(tx, model.PoolID{Node: row.Node, Pool: v.Pool})
			if f, ok := firstContent(tx, d, row, v.Number, readsAsZeros(d, p.Provider) && !uncertain, b); ok {
				now.Volumes = append(now.Volumes, f)
			}
		case i >= 0:
			now.Volumes = append(now.Volumes, before.Volumes[i])
		}
	}
	switch {
	case len(now.Volumes) == 0:
		return endBeginning(tx, row.ID())
	case had:
		return schema.Beginnings.Update(tx, now)
	}
	return schema.Beginnings.Insert(tx, now)
}

// numbersIn are the numbers of the volumes of a replica.
func numbersIn(row schema.Resource) []model.VolumeNumber {
	numbers := make([]model.VolumeNumber, len(row.Volumes))
	for i, v := range row.Volumes {
		numbers[i] = v.Number
	}
	return numbers
}

// firstContent is how a new disk begins; false when it is filled by others. Zero tells that it
// reads as zeros.
func firstContent(r store.Reader, d schema.Definition, row schema.Resource, nr model.VolumeNumber, zero bool, b birth) (schema.FirstContent, bool) {
	generation := b.generation(d.Name.Key(), nr)
	first, together := true, false
	for x := range schema.ResourcesOf(r, d.Name.Key()) {
		if x.Node == row.Node || x.Kind != schema.Diskful || !has(x, nr) {
			continue
		}
		first = false
		other, _ := schema.Beginnings.Get(r, x.ID())
		together = together || slices.ContainsFunc(other.Volumes, func(f schema.FirstContent) bool {
			return f.Number == nr && f.Generation == generation
		})
	}
	f := schema.FirstContent{Number: nr, Starts: first}
	if zero {
		f.Generation = generation
	}
	return f, first || together && zero
}

// readsAsZeros tells whether new disks of a provider, below the other layers of a definition,
// read as zeros: a thick logical volume has what was there before, and so has, in effect, what
// is encrypted by a key of its own.
func readsAsZeros(d schema.Definition, provider model.Provider) bool {
	return provider != model.LVM && !slices.Contains(d.Layers, model.LUKS)
}

// generation returns the generation of the data that a volume begins with when its disks are
// equal: 16 hexadecimal digits. The last bit is not set, since DRBD marks a Primary by it, and the
// number is above those that it keeps for itself.
func (b birth) generation(d model.DefinitionKey, nr model.VolumeNumber) string {
	sum := sha256.Sum256(fmt.Appendf(b.seed[:], "generation %s %d", d, nr))
	return fmt.Sprintf("%016X", binary.BigEndian.Uint64(sum[:8])&^1|1<<63)
}

// endBeginning forgets how a replica began.
func endBeginning(tx *store.Tx, id model.ResourceID) error {
	if _, ok := schema.Beginnings.Get(tx, id); !ok {
		return nil
	}
	return schema.Beginnings.Delete(tx, id)
}

// passOn forgets how a replica began that goes. What it had to start and has not, as far as is known,
// another one starts: that does nothing to a disk that has content already.
func passOn(tx *store.Tx, r schema.Resource) error {
	gone, ok := schema.Beginnings.Get(tx, r.ID())
	if !ok {
		return nil
	}
	if err := schema.Beginnings.Delete(tx, r.ID()); err != nil {
		return err
	}
	for _, f := range gone.Volumes {
		if !f.Starts {
			continue
		}
		for x := range schema.ResourcesOf(tx, r.Definition) {
			if x.Node == r.Node || x.Kind != schema.Diskful || x.Deleting || x.Becomes != "" || !has(x, f.Number) {
				continue
			}
			if err := takeOn(tx, x, f.Number); err != nil {
				return err
			}
			break
		}
	}
	return nil
}

// takeOn has a replica start a volume.
func takeOn(tx *store.Tx, x schema.Resource, nr model.VolumeNumber) error {
	now, had := schema.Beginnings.Get(tx, x.ID())
	now.Definition, now.Node, now.Volumes = x.Definition, x.Node, slices.Clone(now.Volumes)
	i := slices.IndexFunc(now.Volumes, func(f schema.FirstContent) bool { return f.Number == nr })
	if i < 0 {
		i = len(now.Volumes)
		now.Volumes = append(now.Volumes, schema.FirstContent{Number: nr})
	}
	now.Volumes[i].Starts = true
	if had {
		return schema.Beginnings.Update(tx, now)
	}
	return schema.Beginnings.Insert(tx, now)
}

// begun forgets how replicas began that are ready now. A disk that is lost and made anew from then
// on is filled by its peers: it is not what they began with.
func (s *Resources) begun(ctx context.Context, view store.Reader, ids []model.ResourceID) error {
	var ready []model.ResourceID
	for _, id := range ids {
		if _, begins := schema.Beginnings.Get(view, id); !begins {
			continue
		}
		if _, is := s.ready(view, id); is {
			ready = append(ready, id)
		}
	}
	return schema.UpdateEach(ctx, s.Store, ready, func(tx *store.Tx, id model.ResourceID) error {
		if schema.Resources.Revision(tx, id) != schema.Resources.Revision(view, id) {
			return nil
		}
		return endBeginning(tx, id)
	})
}
