// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package metadata_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/holdfast-storage/holdfast/internal/agent/drbd/metadata"
)

// TestUsableIsWhatTheKernelSaid has sizes that DRBD 9.2.18 showed for backing devices of known size.
func TestUsableIsWhatTheKernelSaid(t *testing.T) {
	const kib, mib = 1 << 10, 1 << 20
	for _, c := range []struct {
		backing int64
		peers   int
		bitmap  int64
		usable  int64
	}{
		{16 * mib, 7, 4 * kib, 16344 * kib},
		{64 * mib, 1, 4 * kib, 65496 * kib},
		{64 * mib, 7, 16 * kib, 65484 * kib},
		{80 * mib, 7, 20 * kib, 81864 * kib},
		{96 * mib, 7, 24 * kib, 98244 * kib},
		{112 * mib, 7, 28 * kib, 114624 * kib},
	} {
		if got := metadata.Bitmap(c.backing, c.peers); got != c.bitmap {
			t.Errorf("the bitmap of %d bytes for %d peers: %d bytes, want %d", c.backing, c.peers, got, c.bitmap)
		}
		if got := metadata.Usable(c.backing, c.peers); got != c.usable {
			t.Errorf("of %d bytes with %d peers %d are usable, want %d", c.backing, c.peers, got, c.usable)
		}
	}
}

func TestBackingIsTheSmallestThatIsEnough(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		usable := rapid.Int64Range(1, 1<<50).Draw(t, "usable")
		peers := rapid.IntRange(metadata.MinPeers, metadata.MaxPeers).Draw(t, "peers")
		backing := metadata.Backing(usable, peers)
		if got := metadata.Usable(backing, peers); got < usable {
			t.Fatalf("%d bytes leave %d, less than %d", backing, got, usable)
		}
		if got := metadata.Usable(backing-1, peers); got >= usable {
			t.Fatalf("%d bytes would do, one less than %d", backing-1, backing)
		}
	})
}

func TestMoreRoomNeverLeavesMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		backing := rapid.Int64Range(0, 1<<50).Draw(t, "backing")
		peers := rapid.IntRange(metadata.MinPeers, metadata.MaxPeers-1).Draw(t, "peers")
		if metadata.Usable(backing, peers+1) > metadata.Usable(backing, peers) {
			t.Fatalf("%d bytes leave more with %d peers than with %d", backing, peers+1, peers)
		}
		if metadata.Usable(backing+4096, peers) < metadata.Usable(backing, peers) {
			t.Fatalf("%d bytes leave less than %d", backing+4096, backing)
		}
	})
}

func TestDeviceThatIsTooSmallHasNothingUsable(t *testing.T) {
	for _, size := range []int64{0, 1, 4096, 36 << 10, 40<<10 - 1} {
		if got := metadata.Usable(size, 1); got != 0 {
			t.Errorf("%d bytes leave %d", size, got)
		}
	}
}

func TestPeersAreChecked(t *testing.T) {
	for peers, ok := range map[int]bool{0: false, 1: true, 7: true, 31: true, 32: false} {
		if err := metadata.CheckPeers(peers); (err == nil) != ok {
			t.Errorf("%d peers: %v", peers, err)
		}
	}
}
