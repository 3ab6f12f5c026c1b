// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package passphrase_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/kv/kvtest"
	"github.com/holdfast-storage/holdfast/internal/passphrase"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

func open(t *testing.T) *store.Store {
	t.Helper()
	st, err := store.Open(t.Context(), kvtest.NewMemory(), schema.Collections())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	if err := schema.Bootstrap(t.Context(), st, "group"); err != nil {
		t.Fatal(err)
	}
	return st
}

func ring(st *store.Store) *passphrase.Keyring { return &passphrase.Keyring{Store: st, Rounds: 2} }

func is(t *testing.T, k *passphrase.Keyring, want passphrase.State) {
	t.Helper()
	if got := k.State(); got != want {
		t.Errorf("the state is %s, want %s", got, want)
	}
}

func refused(t *testing.T, err error, kind errs.Kind, attr errs.Attr) {
	t.Helper()
	e := errs.As(err)
	if e == nil || e.Kind != kind || e.Attr != attr {
		t.Errorf("got %v", err)
	}
}

func TestAKeyIsOpenAfterItsPassphraseWasCreatedAndLockedInTheNextProcess(t *testing.T) {
	st := open(t)
	first := ring(st)
	is(t, first, passphrase.Unset)
	if err := first.Create(t.Context(), "secret one"); err != nil {
		t.Fatal(err)
	}
	is(t, first, passphrase.Unlocked)
	next := ring(st)
	is(t, next, passphrase.Locked)
	sealed := mint(t, first, "a")
	if _, err := next.Open(sealed); !errors.Is(err, passphrase.ErrLocked) {
		t.Errorf("a locked master key opens: %v", err)
	}
	refused(t, next.Enter(t.Context(), "secret two"), errs.Invalid, errs.Passphrase)
	is(t, next, passphrase.Locked)
	if err := next.Enter(t.Context(), "secret one"); err != nil {
		t.Fatal(err)
	}
	is(t, next, passphrase.Unlocked)
	opens(t, next, sealed)
}

func TestAChangedPassphraseOpensTheSameKeyAndTheOldOneNoMore(t *testing.T) {
	st := open(t)
	k := ring(st)
	if err := k.Create(t.Context(), "old"); err != nil {
		t.Fatal(err)
	}
	sealed := mint(t, k, "a")
	refused(t, k.Modify(t.Context(), "wrong", "new"), errs.Invalid, errs.Passphrase)
	if err := k.Modify(t.Context(), "old", "new"); err != nil {
		t.Fatal(err)
	}
	next := ring(st)
	refused(t, next.Enter(t.Context(), "old"), errs.Invalid, errs.Passphrase)
	if err := next.Enter(t.Context(), "new"); err != nil {
		t.Errorf("the new passphrase: %v", err)
	}
	opens(t, next, sealed)
}

func TestWhatCannotBeIsRefused(t *testing.T) {
	k := ring(open(t))
	refused(t, k.Enter(t.Context(), "x"), errs.NotFound, errs.Passphrase)
	refused(t, k.Modify(t.Context(), "x", "y"), errs.NotFound, errs.NewPassphrase)
	refused(t, k.Create(t.Context(), ""), errs.Invalid, errs.NewPassphrase)
	is(t, k, passphrase.Unset)
	if err := k.Create(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	refused(t, k.Create(t.Context(), "y"), errs.Exists, errs.NewPassphrase)
	refused(t, k.Modify(t.Context(), "x", ""), errs.Invalid, errs.NewPassphrase)
}

func TestOfManyFirstPassphrasesOneIsTaken(t *testing.T) {
	st := open(t)
	rings := make([]*passphrase.Keyring, 8)
	failed := make([]error, len(rings))
	var wg sync.WaitGroup
	for i := range rings {
		rings[i] = ring(st)
		wg.Go(func() { failed[i] = rings[i].Create(t.Context(), "secret "+string(rune('a'+i))) })
	}
	wg.Wait()
	taken := 0
	for i, err := range failed {
		if err == nil {
			taken++
			if err := ring(st).Enter(t.Context(), "secret "+string(rune('a'+i))); err != nil {
				t.Errorf("the passphrase that was taken: %v", err)
			}
			continue
		}
		refused(t, err, errs.Exists, errs.NewPassphrase)
		is(t, rings[i], passphrase.Locked)
	}
	if taken != 1 {
		t.Errorf("%d were taken", taken)
	}
}

func TestErrorsHaveNoSecrets(t *testing.T) {
	k := ring(open(t))
	if err := k.Create(t.Context(), "correct horse"); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		k.Enter(t.Context(), "battery"), k.Modify(t.Context(), "battery", "staple"), k.Create(t.Context(), "staple"),
	} {
		if err == nil || strings.Contains(err.Error(), "battery") || strings.Contains(err.Error(), "staple") {
			t.Errorf("got %v", err)
		}
	}
}
