// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package keeper

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-storage/holdfast/internal/durable"
	"github.com/holdfast-storage/holdfast/internal/identity"
)

// Name is that of the file of a credential in an agent's state folder. Beside it, a key that
// no certificate was received for yet is kept in a file of its own while the host joins.
const (
	Name        = "identity.pem"
	joiningName = "joining.pem"
	unfinished  = ".identity-" // begins the names of files that are being written
)

// The types of blocks.
const (
	keyBlock         = "PRIVATE KEY"
	certificateBlock = "CERTIFICATE"
	tokenBlock       = "HOLDFAST JOIN TOKEN HASH" // of the token that the credential came from
)

// content is what a file holds.
type content struct {
	key          *ecdsa.PrivateKey
	certificates [][]byte // the node's first, then authorities; none while the host joins
	token        string   // hash
}

// parse reads a file.
func parse(text []byte) (content, error) {
	var c content
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		switch block.Type {
		case keyBlock:
			key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
			if err != nil {
				return c, err
			}
			ec, ok := key.(*ecdsa.PrivateKey)
			if !ok || c.key != nil {
				return c, errors.New("it has more than one private key, or one that is not of ECDSA")
			}
			c.key = ec
		case certificateBlock:
			c.certificates = append(c.certificates, block.Bytes)
		case tokenBlock:
			c.token = hex.EncodeToString(block.Bytes)
		}
	}
	if c.key == nil {
		return c, errors.New("it has no private key")
	}
	return c, nil
}

// credential is that of a file which has one.
func (c content) credential() (identity.Credential, error) {
	if len(c.certificates) < 2 {
		return identity.Credential{}, fmt.Errorf("it has %d certificates; those of the node and of an authority are needed", len(c.certificates))
	}
	return identity.Parse(c.key, c.certificates[0], c.certificates[1:])
}

// format writes what parse reads.
func (c content) format() ([]byte, error) {
	key, err := x509.MarshalPKCS8PrivateKey(c.key)
	if err != nil {
		return nil, err
	}
	token, err := hex.DecodeString(c.token)
	if err != nil {
		return nil, err
	}
	blocks := []*pem.Block{{Type: keyBlock, Bytes: key}}
	for _, der := range c.certificates {
		blocks = append(blocks, &pem.Block{Type: certificateBlock, Bytes: der})
	}
	blocks = append(blocks, &pem.Block{Type: tokenBlock, Bytes: token})
	var out bytes.Buffer
	for _, b := range blocks {
		if err := pem.Encode(&out, b); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
}

// read reads a file of the state folder.
func (k *Keeper) read(name string) (content, error) {
	text, err := os.ReadFile(filepath.Join(k.cfg.Dir, name))
	if err != nil {
		return content{}, err
	}
	return parse(text)
}

// write replaces a file of the state folder as a whole, readable by its owner alone, and makes
// it durable.
func (k *Keeper) write(name string, c content) (err error) {
	text, err := c.format()
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(k.cfg.Dir, unfinished+"*") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = f.Write(text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), filepath.Join(k.cfg.Dir, name)); err != nil {
		return err
	}
	return durable.Folder(k.cfg.Dir)
}

// tidy removes keys that a process which ended in the middle of something has left.
func (k *Keeper) tidy() {
	var left []string
	if entries, err := os.ReadDir(k.cfg.Dir); err == nil {
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), unfinished) {
				left = append(left, e.Name())
			}
		}
	}
	if c, err := k.read(joiningName); err == nil {
		if _, from, err := k.load(); err == nil && from == c.token {
			left = append(left, joiningName)
		}
	}
	for _, name := range left {
		if err := os.Remove(filepath.Join(k.cfg.Dir, name)); err != nil {
			k.cfg.Log.Warn("a key that is not used any more is left", "error", err)
		}
	}
}
