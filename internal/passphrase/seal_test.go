// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package passphrase_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/passphrase"
)

// mint returns a new sealed key.
func mint(t *testing.T, k *passphrase.Keyring, name string) []byte {
	t.Helper()
	sealed, err := k.Mint().Key(name)
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

// opens fails the test when a sealed key does not open, and returns what it is.
func opens(t *testing.T, k *passphrase.Keyring, sealed []byte) []byte {
	t.Helper()
	key, err := k.Open(sealed)
	if err != nil {
		t.Fatal(err)
	}
	if len(key) != passphrase.VolumeKey || bytes.Contains(sealed, key) {
		t.Errorf("a key of %d bytes; in what is kept of it: %v", len(key), bytes.Contains(sealed, key))
	}
	return key
}

func TestKeysOfVolumesAreEachTheirOwn(t *testing.T) {
	k := ring(open(t))
	if err := k.Create(t.Context(), "p"); err != nil {
		t.Fatal(err)
	}
	one := k.Mint()
	seen := map[string]bool{}
	for _, m := range []passphrase.Minting{one, k.Mint()} {
		for _, name := range []string{"a", "b"} {
			sealed, err := m.Key(name)
			if err != nil {
				t.Fatal(err)
			}
			seen[string(opens(t, k, sealed))] = true
		}
	}
	if len(seen) != 4 {
		t.Errorf("two names in two calls have %d keys", len(seen))
	}
	a, _ := one.Key("a")
	again, err := one.Key("a")
	if err != nil || !bytes.Equal(a, again) {
		t.Errorf("a transaction that is run again has another key: %v", err)
	}
}

func TestWithoutAnOpenMasterKeyNoVolumeIsEncrypted(t *testing.T) {
	var none *passphrase.Keyring
	_, err := none.Mint().Key("a")
	refused(t, err, errs.NotFound, errs.MasterKey)
	k := ring(open(t))
	for range 2 {
		_, err := k.Mint().Key("a")
		refused(t, err, errs.NotFound, errs.MasterKey)
		refused(t, k.Mint().Check(), errs.NotFound, errs.MasterKey)
		if !strings.Contains(err.Error(), "create") && !strings.Contains(err.Error(), "enter") {
			t.Errorf("what to do is not said: %v", err)
		}
		if k.State() == passphrase.Unset {
			if err := k.Create(t.Context(), "p"); err != nil {
				t.Fatal(err)
			}
			k = ring(k.Store) // The next process is locked.
		}
	}
	if err := k.Enter(t.Context(), "p"); err != nil || k.Mint().Check() != nil {
		t.Errorf("entered: %v, %v", err, k.Mint().Check())
	}
}

func TestEachTimeTheMasterKeyIsOpenedIsTold(t *testing.T) {
	k := ring(open(t))
	told := 0
	k.Opened = func() {
		told++
		is(t, k, passphrase.Unlocked) // Who is told can use it.
	}
	for _, do := range []func() error{
		func() error { return k.Create(t.Context(), "p") },
		func() error { return k.Enter(t.Context(), "p") },
		func() error { return k.Modify(t.Context(), "p", "q") },
	} {
		before := told
		if err := do(); err != nil || told != before+1 {
			t.Errorf("told %d times: %v", told-before, err)
		}
	}
	if _ = k.Enter(t.Context(), "p"); told != 3 {
		t.Error("told of a passphrase that is wrong")
	}
}

// Whatever was changed of a sealed key, or is of another cluster, does not open, and harms
// nothing else.
func TestASealedKeyThatWasTouchedDoesNotOpen(t *testing.T) {
	k, other := ring(open(t)), ring(open(t))
	for _, k := range []*passphrase.Keyring{k, other} {
		if err := k.Create(t.Context(), "p"); err != nil {
			t.Fatal(err)
		}
	}
	sealed := mint(t, k, "a")
	if _, err := other.Open(sealed); err == nil || errors.Is(err, passphrase.ErrLocked) {
		t.Errorf("another cluster opens it: %v", err)
	}
	rapid.Check(t, func(t *rapid.T) {
		touched := slices.Clone(sealed)
		switch rapid.IntRange(0, 2).Draw(t, "how") {
		case 0:
			i := rapid.IntRange(0, len(touched)-1).Draw(t, "at")
			touched[i] ^= byte(rapid.IntRange(1, 255).Draw(t, "by"))
		case 1:
			touched = touched[:rapid.IntRange(0, len(touched)-1).Draw(t, "cut")]
		case 2:
			touched = append(touched, rapid.Byte().Draw(t, "more"))
		}
		key, err := k.Open(touched)
		if err == nil || key != nil || errors.Is(err, passphrase.ErrLocked) {
			t.Fatalf("it opens: %v", err)
		}
	})
	opens(t, k, sealed)
}
