// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package passphrase keeps the master key of the cluster, under which the keys of encrypted
// volumes are kept.
//
// The key is random and is made once. The database has it only sealed under the passphrase;
// this process has it open in memory from the moment at which someone enters the passphrase.
// So a controller that was started anew, or has just begun to lead, is locked. A changed
// passphrase seals the same key again.
//
// Each encrypted volume has a key of its own, which is made by a Minting, kept in the database
// sealed under the master key, and opened by Open for the agents that need it.
//
// Neither passphrases nor keys are ever part of an error, a log or a list.
package passphrase

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"sync"

	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// State tells whether there is a passphrase, and whether this process knows the key.
type State string

// The states, with the API's words.
const (
	Unset    State = "unset"
	Locked   State = "locked"
	Unlocked State = "unlocked"
)

// DefaultRounds is how often a passphrase is hashed; it is what makes guesses slow (OWASP's
// figure for PBKDF2 with SHA-256).
const DefaultRounds = 600_000

const keySize = 32

// Keyring is the master key of a cluster. Its methods may be called at the same time.
type Keyring struct {
	Store  *store.Store
	Rounds int    // 0: DefaultRounds
	Opened func() // called each time the master key was opened, if not nil; it returns at once

	mu   sync.Mutex
	open cipher.AEAD // of the master key; nil while it is locked
}

// State returns what is known of the passphrase.
func (k *Keyring) State() State {
	settings, _ := schema.Settings.Get(k.Store.Snapshot(), schema.SettingsKey)
	switch {
	case settings.MasterKey == nil:
		return Unset
	case k.box() == nil:
		return Locked
	}
	return Unlocked
}

// box returns the cipher of the master key, and nil while it is locked.
func (k *Keyring) box() cipher.AEAD {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.open
}

// Create makes the master key and seals it under a first passphrase. It is refused when there
// is one.
func (k *Keyring) Create(ctx context.Context, passphrase string) error {
	if err := acceptable(passphrase); err != nil {
		return err
	}
	key := make([]byte, keySize)
	_, _ = rand.Read(key) // It never fails.
	sealed, err := k.seal(key, passphrase)
	if err != nil {
		return err
	}
	if err := k.put(ctx, func(was *schema.SealedKey) error {
		if was != nil {
			return errs.New(errs.Exists, errs.Controller, "the cluster has a passphrase already").About(errs.NewPassphrase).
				Fix("enter it, or change it by naming the old one as well")
		}
		return nil
	}, sealed); err != nil {
		return err
	}
	return k.opened(key)
}

// Enter opens the master key.
func (k *Keyring) Enter(_ context.Context, passphrase string) error {
	settings, _ := schema.Settings.Get(k.Store.Snapshot(), schema.SettingsKey)
	if settings.MasterKey == nil {
		return errs.New(errs.NotFound, errs.Controller, "no passphrase can be entered").About(errs.Passphrase).
			Because("the cluster has none").Fix("create one")
	}
	key, err := open(*settings.MasterKey, passphrase)
	if err != nil {
		return err
	}
	return k.opened(key)
}

// Modify seals the master key under a new passphrase; the old one has to be named also when the
// key is open.
func (k *Keyring) Modify(ctx context.Context, before, after string) error {
	if err := acceptable(after); err != nil {
		return err
	}
	settings, _ := schema.Settings.Get(k.Store.Snapshot(), schema.SettingsKey)
	old := settings.MasterKey
	if old == nil {
		return errs.New(errs.NotFound, errs.Controller, "the passphrase cannot be changed").About(errs.NewPassphrase).
			Because("the cluster has none").Fix("create one")
	}
	key, err := open(*old, before)
	if err != nil {
		return err
	}
	sealed, err := k.seal(key, after)
	if err != nil {
		return err
	}
	if err := k.put(ctx, func(was *schema.SealedKey) error {
		if was == nil || string(was.Sealed) != string(old.Sealed) {
			return errs.New(errs.Invalid, errs.Controller, "the passphrase was not changed").About(errs.Passphrase).
				Because("someone else has changed it meanwhile").Fix("try again with the passphrase that is valid now")
		}
		return nil
	}, sealed); err != nil {
		return err
	}
	return k.opened(key)
}

// opened keeps the master key open from now on.
func (k *Keyring) opened(key []byte) error {
	box, err := boxOfMaster(key)
	if err != nil {
		return fmt.Errorf("use the master key: %w", err)
	}
	k.mu.Lock()
	k.open = box
	k.mu.Unlock()
	if k.Opened != nil {
		k.Opened()
	}
	return nil
}

// put writes a sealed key, when check finds nothing wrong with the one that is there.
func (k *Keyring) put(ctx context.Context, check func(*schema.SealedKey) error, sealed schema.SealedKey) error {
	_, err := schema.Update(ctx, k.Store, func(tx *store.Tx) error {
		settings, ok := schema.Settings.Get(tx, schema.SettingsKey)
		if err := check(settings.MasterKey); err != nil {
			return err
		}
		settings.MasterKey = &sealed
		if !ok {
			return schema.Settings.Insert(tx, settings)
		}
		return schema.Settings.Update(tx, settings)
	})
	return err
}

func acceptable(passphrase string) error {
	if passphrase == "" {
		return errs.New(errs.Invalid, errs.Controller, "the new passphrase is empty").About(errs.NewPassphrase).Fix("choose one that is hard to guess")
	}
	return nil
}

func (k *Keyring) seal(key []byte, passphrase string) (schema.SealedKey, error) {
	sealed := schema.SealedKey{Salt: make([]byte, keySize), Rounds: k.Rounds}
	if sealed.Rounds == 0 {
		sealed.Rounds = DefaultRounds
	}
	_, _ = rand.Read(sealed.Salt)
	box, err := boxOf(sealed, passphrase)
	if err != nil {
		return sealed, err
	}
	sealed.Sealed = box.Seal(nil, nil, key, nil) //nolint:gosec // The cipher makes the nonce.
	return sealed, nil
}

func open(sealed schema.SealedKey, passphrase string) ([]byte, error) {
	box, err := boxOf(sealed, passphrase)
	if err != nil {
		return nil, err
	}
	key, err := box.Open(nil, nil, sealed.Sealed, nil)
	if err != nil {
		return nil, errs.New(errs.Invalid, errs.Controller, "the passphrase is wrong").About(errs.Passphrase).
			Fix("enter the one that was created or last changed to")
	}
	return key, nil
}

// boxOf is the cipher of a passphrase. It makes a nonce of its own for each sealing.
func boxOf(sealed schema.SealedKey, passphrase string) (cipher.AEAD, error) {
	derived, err := pbkdf2.Key(sha256.New, passphrase, sealed.Salt, sealed.Rounds, keySize)
	if err != nil {
		return nil, fmt.Errorf("derive a key from the passphrase: %w", err)
	}
	block, err := aes.NewCipher(derived)
	if err != nil {
		return nil, fmt.Errorf("derive a key from the passphrase: %w", err)
	}
	return cipher.NewGCMWithRandomNonce(block)
}
