// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/passphrase"
)

// birth is what a call gives to the rows that it makes: the time, the seed of their ids, and
// their keys. All are taken before the transaction, which reads no clock and no chance.
type birth struct {
	at   time.Time
	seed uuid.UUID
	keys passphrase.Minting
}

// birth returns the time, a new seed and what makes new keys.
func (s *Resources) birth() birth {
	seed, err := uuid.Parse(s.NewID())
	if err != nil {
		panic("the source of ids does not make UUIDs: " + err.Error())
	}
	return birth{at: s.Now(), seed: seed, keys: s.Keys.Mint()}
}

// replica returns the id of a new replica.
func (b birth) replica(node model.NodeKey) string {
	return uuid.NewSHA1(b.seed, []byte("replica "+string(node))).String()
}

// volume returns the id of a new volume of a replica.
func (b birth) volume(node model.NodeKey, nr model.VolumeNumber) string {
	return uuid.NewSHA1(b.seed, fmt.Appendf(nil, "volume %d %s", nr, node)).String()
}

// definition returns the id of a new volume definition; i is its place in the request.
func (b birth) definition(i int) string {
	return uuid.NewSHA1(b.seed, fmt.Appendf(nil, "definition %d", i)).String()
}
