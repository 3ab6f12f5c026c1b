// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package passphrase

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"

	"github.com/holdfast-storage/holdfast/internal/errs"
)

// VolumeKey is the length of the keys of volumes, in bytes.
const VolumeKey = 32

// volumeKeys is authenticated with each sealed key of a volume: what the master key has sealed
// for another purpose does not open as one.
const volumeKeys = "holdfast volume key 1"

// nonceSize is what the sealing of a volume's key needs beside the key, in bytes.
const nonceSize = 12

// Minting makes keys of volumes for one call. It is taken before the transaction of the call,
// which reads no chance. The zero value has no master key and refuses.
type Minting struct {
	box  cipher.AEAD // nil: the master key is not open
	seed []byte
	why  *errs.Error
}

// Mint returns what makes keys for one call. The master key that is open now seals them; when
// none is, Key of the answer says so.
func (k *Keyring) Mint() Minting {
	if k == nil {
		return Minting{}
	}
	box := k.box()
	if box == nil {
		return Minting{why: k.lacking()}
	}
	seed := make([]byte, keySize)
	_, _ = rand.Read(seed) // It never fails.
	return Minting{box: box, seed: seed}
}

// Key returns a new random key, sealed under the master key; the same one for the same name.
func (m Minting) Key(name string) ([]byte, error) {
	if err := m.Check(); err != nil {
		return nil, err
	}
	// Each name has a key and a nonce of its own, which nobody can tell from chance without the seed.
	made, err := hkdf.Key(sha256.New, m.seed, nil, name, VolumeKey+nonceSize)
	if err != nil {
		return nil, err
	}
	nonce := made[VolumeKey:]
	return m.box.Seal(nonce[:nonceSize:nonceSize], nonce, made[:VolumeKey], []byte(volumeKeys)), nil
}

// Check refuses as Key does.
func (m Minting) Check() error {
	if m.box != nil {
		return nil
	}
	if m.why == nil {
		return noPassphrase()
	}
	return m.why
}

// ErrLocked says that the master key is not open.
var ErrLocked = errors.New("the passphrase of the cluster has not been entered")

// Open opens the sealed key of a volume. It is ErrLocked while the master key is not open; any
// other error is about this one key.
func (k *Keyring) Open(sealed []byte) ([]byte, error) {
	box := k.box()
	if box == nil {
		return nil, ErrLocked
	}
	if len(sealed) != nonceSize+VolumeKey+box.Overhead() {
		return nil, errors.New("the database has no whole key of the volume")
	}
	key, err := box.Open(nil, sealed[:nonceSize], sealed[nonceSize:], []byte(volumeKeys))
	if err != nil {
		return nil, errors.New("what the database has for the key of the volume is not what the master key of this cluster has sealed")
	}
	return key, nil
}

// lacking says why there is no open master key.
func (k *Keyring) lacking() *errs.Error {
	if k.State() == Unset {
		return noPassphrase()
	}
	return errs.New(errs.NotFound, errs.Controller, "the keys of encrypted volumes are locked").About(errs.MasterKey).
		Because("the passphrase of the cluster has not been entered since this controller began to lead").
		Fix("enter it: encryption enter-passphrase")
}

func noPassphrase() *errs.Error {
	return errs.New(errs.NotFound, errs.Controller, "no volume can be encrypted").About(errs.MasterKey).
		Because("the cluster has no passphrase").Fix("create one: encryption create-passphrase")
}

// boxOfMaster is the cipher of an open master key.
func boxOfMaster(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}
